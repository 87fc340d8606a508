import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { readPublicApi } from './public-api.ts';
import { ApiClient, ApiError } from './public-api-client.ts';

const servers: Server[] = [];

afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

interface Played {
  readonly client: ApiClient;
  readonly url: URL;
  readonly requests: { readonly target: string; readonly token: string | undefined }[];
  readonly said: string[];
  /** Seconds that it waited. */
  readonly waits: number[];
}

type Answer = (request: URL, response: ServerResponse, message: IncomingMessage) => void;

async function played(
  answer: Answer,
  path = '',
  stopping: Promise<void> = new Promise(() => {}),
): Promise<Played> {
  const requests: Played['requests'][number][] = [];
  const server = createServer((message, response) => {
    requests.push({ target: message.url ?? '', token: message.headers.authorization });
    answer(new URL(message.url ?? '', 'http://x'), response, message);
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`);
  const [said, waits]: [string[], number[]] = [[], []];
  const wait = async (ms: number) => void waits.push(ms / 1000);
  const client = new ApiClient(
    { url, token: 'tkn' },
    { stopping, say: (line) => void said.push(line), wait },
  );
  return { client, url, requests, said, waits };
}

const json = (response: ServerResponse, status: number, body: unknown, headers = {}) =>
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));

describe('the Public API over the network', () => {
  it('gives all pages of a list, with the token and below the path that was named', async () => {
    const { client, requests } = await played(({ searchParams }, response) => {
      const page = Number(searchParams.get('pagination.cursor') ?? 0);
      const pagination = {
        current: String(page),
        totalEntries: 3,
        ...(page < 2 ? { next: String(page + 1) } : {}),
      };
      json(response, 200, { data: { sources: [{ id: `s${page}` }], pagination } });
    }, '/api/');
    expect(await client.list('/sources', 'sources')).toEqual({
      items: [{ id: 's0' }, { id: 's1' }, { id: 's2' }],
    });
    expect(requests).toEqual(
      ['', '&pagination.cursor=1', '&pagination.cursor=2'].map((more) => ({
        target: `/api/sources?pagination.count=200${more}`,
        token: 'Bearer tkn',
      })),
    );
  });

  it('keeps the parameters of a request beside those of pages', async () => {
    const { client, requests } = await played((_, response) =>
      json(response, 200, { data: { functions: [] } }),
    );
    await client.list('/functions?resourceType=SOURCE', 'functions');
    expect(requests[0]!.target).toBe('/functions?resourceType=SOURCE&pagination.count=200');
  });

  it('asks without parameters of pages a server that does not know them', async () => {
    const { client } = await played(({ search }, response) =>
      search === '' ? json(response, 200, { data: { sources: [] } }) : json(response, 404, {}),
    );
    expect(await client.list('/sources', 'sources')).toEqual({ items: [] });
  });

  it.each([
    ['a right that is missing', 403, { errors: [{ message: 'no right' }] }, 'answered 403 (no right)'],
    ['a thing that is not there', 404, {}, 'answered 404'],
    ['an answer of another program', 200, 'hello', 'answered something else than JSON with data'],
  ])('says what was wrong: %s', async (_, status, body, missing) => {
    const { client } = await played((__, response) => json(response, status, body));
    expect(await client.list('/sources', 'sources')).toEqual({ items: [], missing });
  });

  it('keeps what it has of a list whose later page fails, and says that it is not whole', async () => {
    const { client } = await played(({ searchParams }, response) =>
      searchParams.has('pagination.cursor')
        ? json(response, 403, {})
        : json(response, 200, { data: { sources: [{ id: 's0' }], pagination: { next: 'x' } } }),
    );
    expect(await client.list('/sources', 'sources')).toEqual({
      items: [{ id: 's0' }],
      missing: 'answered 403',
    });
  });

  it('never follows a redirect, so that the token goes nowhere else', async () => {
    const elsewhere = await played((_, response) => json(response, 200, { data: { sources: [] } }));
    const { client } = await played((_, response) => {
      response.writeHead(302, { location: `${elsewhere.url.href}sources` }).end();
    });
    const { missing } = await client.list('/sources', 'sources');
    expect(missing).toMatch(/^answered 302: redirects are not followed/);
    expect(elsewhere.requests).toEqual([]);
  });

  it('waits as long as it is asked to, and no longer than five minutes', async () => {
    const answers = [{ 'retry-after': '7' }, { 'x-ratelimit-reset': '9' }, { 'retry-after': '86400' }, {}];
    const { client, waits, said } = await played((_, response) => {
      const headers = answers.shift();
      if (headers === undefined) json(response, 200, { data: { sources: [] } });
      else json(response, 429, {}, headers);
    });
    expect(await client.list('/sources', 'sources')).toEqual({ items: [] });
    expect(waits).toEqual([7, 9, 300, 8]);
    expect(said[0]).toBe('answered 429: goes on in 7 s');
  });

  it('gives up after some tries, with the last reason', async () => {
    const { client, requests } = await played((_, response) => json(response, 503, {}));
    expect(await client.list('/sources', 'sources')).toEqual({ items: [], missing: 'answered 503' });
    expect(requests).toHaveLength(8);
    const { client: other } = await played((_, response) => response.destroy());
    expect((await other.list('/sources', 'sources')).missing).toMatch(/^no answer \(/);
  });

  it('ends with pages that name each other for ever', async () => {
    const { client } = await played((_, response) =>
      json(response, 200, { data: { sources: [], pagination: { next: 'again' } } }),
    );
    expect((await client.list('/sources', 'sources')).missing).toBe('its pages do not end');
  });

  it('takes no answer that would fill the memory', async () => {
    const { client } = await played((_, response) => {
      response.writeHead(200).write('[');
      const more = () => {
        while (response.write('[],'.repeat(100_000)));
        response.once('drain', more);
      };
      more();
    });
    expect((await client.list('/sources', 'sources')).missing).toBe(
      'is an answer of more than a million objects',
    );
  });

  it('ends at once where the token is refused, or somebody stops it', async () => {
    const { client } = await played((_, response) => json(response, 401, {}));
    await expect(readPublicApi(client)).rejects.toThrow(ApiError);
    const stopped = await played((_, response) => json(response, 200, { data: {} }), '', Promise.resolve());
    await Promise.resolve();
    await expect(readPublicApi(stopped.client)).rejects.toThrow(/stopped/);
    expect(stopped.requests).toEqual([]);
  });
});
