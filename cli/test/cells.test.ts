import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { runVerb } from './program.ts';

/** A cell that answers what a test wants, with what it was asked. */
interface FakeCell {
  readonly url: string;
  readonly asked: { readonly line: string; readonly token: string | undefined; readonly body: string }[];
}

interface FakeAnswer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: object | string;
}

const ended: (() => unknown)[] = [];
let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-cells-'));
});
afterEach(async () => {
  for (const end of ended.splice(0).reverse()) await end();
  rmSync(folder, { recursive: true });
});

type Answer = (request: IncomingMessage, body: string) => FakeAnswer;

/** `answer` is for what is neither `/readyz`, which says that calls are taken, nor the status. */
async function fakeCell(
  answer: Answer,
  status: Answer = () => ({ body: overview({ accepted: 0, pending: 0 }) }),
): Promise<FakeCell> {
  const asked: FakeCell['asked'] = [];
  const server = createServer(async (request, response) => {
    const body = await text(request);
    const { authorization } = request.headers;
    asked.push({ line: `${request.method} ${request.url}`, token: authorization, body });
    const answers: Readonly<Record<string, Answer>> = {
      '/readyz': () => ({ body: { reasons: [] } }),
      '/api/v1/status': status,
    };
    const said = (answers[request.url!] ?? answer)(request, body);
    const { status: code = 200, headers = {}, body: shown = {} } = said;
    response.writeHead(code, headers).end(typeof shown === 'string' ? shown : JSON.stringify(shown));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  ended.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

function cellsFile(cells: Readonly<Record<string, string>>): string {
  const file = join(folder, 'cells.yaml');
  const entries = Object.entries(cells).map(
    ([name, url]) => `  - { name: ${name}, url: "${url}", token: t-${name} }\n`,
  );
  writeFileSync(file, `cells:\n${entries.join('')}`, { mode: 0o600 });
  return file;
}

/** An address where nobody listens. */
const NOBODY = 'http://127.0.0.1:3';

/** What a server says of its state, with the figures of a cell. */
function overview(figures: {
  readonly accepted: number;
  readonly pending: number;
  readonly lost?: number;
  readonly version?: string;
  readonly storeId?: string;
}): object {
  const { accepted, pending, lost = 0, version = '0.1.0', storeId = randomUUID() } = figures;
  const sums = { owed: accepted, delivered: accepted - pending - lost, pending, erased: 0 };
  const difference = { destination: 'crm', difference: lost, ...sums, dead: 0 };
  return {
    at: '2026-01-01T00:10:00.000Z',
    startedAt: '2026-01-01T00:00:00.000Z',
    version,
    storeId,
    balanced: lost === 0,
    differences: lost === 0 ? [] : [difference],
    discards: [],
    sources: {
      website: { received: accepted + 3, accepted, duplicates: 1, discarded: { no_user_anon_id: 2 } },
    },
    destinations: { crm: { ...sums, dead: {}, skipped: {} } },
    lanes: { crm: pending === 0 ? {} : { oldestPendingAt: '2026-01-01T00:00:00.000Z' } },
    callsOfNoSource: {},
    log: {},
    commits: {},
  };
}

const nothing = () => ({});

const statusOf = (figures: Parameters<typeof overview>[0]) =>
  fakeCell(nothing, () => ({ body: overview(figures) }));

const receipt = (id: string, more: object = {}) => ({
  ...{
    id,
    type: 'DELETE_ONLY',
    overallStatus: 'RUNNING',
    createdAt: '2026-01-01T00:00:00.000Z',
    by: 'admin',
  },
  ...{ subjects: 1, erased: { events: 2, deliveries: 0, deadLetters: 0 }, streamStatus: [] },
  ...more,
});

describe('the file of cells', () => {
  it('must be named, be there, and be right, also in its files of tokens', async () => {
    expect(await runVerb(['cells', 'status'])).toEqual({
      ...{ code: 2, out: '' },
      err: 'millrace: name the file of your cells with --cells or MILLRACE_CELLS.\n',
    });
    const absent = await runVerb(['cells', 'status'], { MILLRACE_CELLS: join(folder, 'none.yaml') });
    expect(absent.code).toBe(2);
    expect(absent.err).toContain('none.yaml, named by MILLRACE_CELLS, does not exist');
    const file = join(folder, 'cells.yaml');
    writeFileSync(
      file,
      `cells:\n  - { name: east, url: "${NOBODY}", tokenFile: ${join(folder, 'token')} }\n`,
    );
    const noToken = await runVerb(['cells', 'status', '--cells', file]);
    expect(noToken.code).toBe(2);
    expect(noToken.err).toContain(
      `cells.yaml:2:57  cells[0].tokenFile  names ${folder}/token, which does not exist\n`,
    );
    writeFileSync(file, 'cells:\n  - { name: east }\n');
    const noUrl = await runVerb(['cells', 'delete-user', 'u1', '--cells', file]);
    expect(noUrl.code).toBe(2);
    expect(noUrl.err).toContain('cells.yaml:2:5  cells[0].url  is missing: must be the http or https URL');
  });
});

describe('two addresses of one store', () => {
  it('are refused by every verb before anything is searched or changed', async () => {
    const status = { accepted: 1, pending: 0, storeId: 'one-store' };
    const [a, b] = [await statusOf(status), await statusOf(status)];
    const file = cellsFile({ a: a.url, b: b.url });
    const verbs = [['status'], ['trace', 'm'], ['events'], ['delete-user', 'u'], ['regulation', 'r']];
    for (const verb of verbs) {
      const { code, out, err } = await runVerb(['cells', ...verb, '--cells', file]);
      expect([code, out]).toEqual([2, '']);
      expect(err).toMatch(
        /cells\.yaml:3:\d+ {2}cells\[1\]\.url {2}leads to the same store as cells\[0\], or to a copy of it/,
      );
    }
    const lines = new Set([...a.asked, ...b.asked].map(({ line }) => line));
    expect([...lines]).toEqual(['GET /api/v1/status']);
  });

  it('are taken for two where the servers are of a version that does not say which store they have', async () => {
    const { storeId: _, ...older } = overview({ accepted: 1, pending: 0 }) as { storeId: string };
    const [a, b] = [
      await fakeCell(nothing, () => ({ body: older })),
      await fakeCell(nothing, () => ({ body: older })),
    ];
    const file = cellsFile({ a: a.url, b: b.url });
    expect((await runVerb(['cells', 'status', '--cells', file])).code).toBe(0);
  });
});

describe('a hundred cells', () => {
  it('are asked at once', async () => {
    const names = Array.from({ length: 100 }, (_, nth) => `c${nth}`);
    const urls = await Promise.all(
      names.map(async (name) => [name, (await statusOf({ accepted: 2, pending: 1 })).url] as const),
    );
    const file = cellsFile({ ...Object.fromEntries(urls), c7: NOBODY });
    const { code, out, err } = await runVerb(['cells', 'status', '--json', '--cells', file]);
    expect(code).toBe(1);
    expect(JSON.parse(out)).toMatchObject({ sums: { accepted: 198, pending: 99 }, balanced: false });
    expect(err).toMatch(/^millrace: c7 is not in the sums: [^\n]*\n$/);
  });
});

describe('a file with tokens in it', () => {
  it('that others may read is warned of, and its tokens are not shown', async () => {
    const east = await statusOf({ accepted: 1, pending: 0 });
    const file = cellsFile({ east: east.url });
    chmodSync(file, 0o640);
    const { code, err } = await runVerb(['cells', 'status', '--cells', file]);
    expect(code).toBe(0);
    expect(err).toMatch(
      /^millrace: other users of this machine may read the tokens in \S*cells\.yaml: .*chmod 600/,
    );
    expect(err).not.toContain('t-east');
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference.
    writeFileSync(file, `cells:\n  - { name: east, url: "${east.url}", token: ${'${EAST_TOKEN}'} }\n`);
    expect((await runVerb(['cells', 'status', '--cells', file], { EAST_TOKEN: 't' })).err).toBe('');
  });

  it.each([
    ['cells:\n  - { name: a, url: "http://a", token: "S3CRET }', 'not valid YAML'],
    ['cells:\n  - { name: a, url: "http://a", token: [S3CRET] }', 'token'],
    ['cells:\n  - { name: a, url: "http://a", token: { S3CRET } }', 'token'],
    ['cells:\n  - { name: a, url: "http://a", token: 73837, tokenFile: x }', 'token'],
    ['cells:\n  - { name: a, url: "http://a", { S3CRET } }', 'cells'],
    ['cells:\n  - { name: a, url: "http://S3CRET:S3CRET@a", token: t }', 'url'],
    ['cells:\n  - { name: a, url: "http://a?token=S3CRET", token: t }', 'url'],
    ['cells: S3CRET', 'cells'],
  ])('and mistakes in it is refused without them: %j', async (written, about) => {
    const file = join(folder, 'cells.yaml');
    writeFileSync(file, written, { mode: 0o600 });
    const { code, out, err } = await runVerb(['cells', 'status', '--cells', file]);
    expect([code, out]).toEqual([2, '']);
    expect(err).toContain(about);
    expect(err).not.toMatch(/S3CRET|73837/);
  });
});

describe('millrace cells status', () => {
  it('shows each cell, the sums and that every ledger balances', async () => {
    const east = await statusOf({ accepted: 1200, pending: 47 });
    const west = await statusOf({ accepted: 300, pending: 0, version: '0.2.0' });
    const file = cellsFile({ east: east.url, west: west.url });
    const { code, out, err } = await runVerb(['cells', 'status'], { MILLRACE_CELLS: file });
    expect([code, err]).toEqual([0, '']);
    expect(out.split('\n').map((line) => line.split(/ {2,}/))).toEqual([
      [
        'cell',
        'version',
        'nodes',
        'received',
        'accepted',
        'owed',
        'delivered',
        'pending',
        'dead',
        'oldest waiting',
        'ledger',
      ],
      ['east', '0.1.0', '1', '1,203', '1,200', '1,200', '1,153', '47', '0', '10 min', 'balanced'],
      ['west', '0.2.0', '1', '303', '300', '300', '300', '0', '0', '–', 'balanced'],
      ['sum', '2', '1,506', '1,500', '1,500', '1,453', '47', '0', '10 min'],
      [''],
      ['ledger', 'balanced in every cell'],
      [''],
    ]);
  });

  it('names a cell that does not answer, and says that the sums are without it', async () => {
    const east = await statusOf({ accepted: 10, pending: 0 });
    const file = cellsFile({ east: east.url, west: NOBODY });
    const { code, out, err } = await runVerb(['cells', 'status', '--cells', file]);
    expect(code).toBe(1);
    expect(out).toMatch(/^west .* no answer$/m);
    expect(out).toContain(
      'balanced in the one cell that answered; not known of west, which the sums are without',
    );
    expect(err).toBe(
      `millrace: west is not in the sums: server unreachable at ${NOBODY} (ECONNREFUSED): start it, or correct its url in ${file}.\n`,
    );
    const json = await runVerb(['cells', 'status', '--cells', file, '--json']);
    expect(JSON.parse(json.out)).toMatchObject({
      cells: [
        { name: 'east', accepted: 10 },
        { name: 'west', error: expect.stringContaining('ECONNREFUSED') },
      ],
      sums: { received: 13, accepted: 10, duplicates: 1, discarded: 2, owed: 10, delivered: 10, pending: 0 },
      balanced: false,
    });
  });

  it('names the cell whose ledger does not balance, and what is missing there', async () => {
    const east = await statusOf({ accepted: 10, pending: 0 });
    const west = await statusOf({ accepted: 20, pending: 1, lost: 2 });
    const file = cellsFile({ east: east.url, west: west.url });
    const { code, out, err } = await runVerb(['cells', 'status', '--cells', file]);
    expect([code, err]).toEqual([1, 'millrace: the ledger of west does not balance.\n']);
    expect(out).toContain(
      'ledger  NOT BALANCED in west\n  west: destination crm: 2 lost: owed 20, delivered 17',
    );
  });

  it('shows the other cells when one speaks in another way, and its text as text', async () => {
    const east = await statusOf({ accepted: 10, pending: 0, version: '\u001b[2J\n0.1.0' });
    const odd = { ...overview({ accepted: 1, pending: 0 }), sources: { website: { received: 'many' } } };
    const west = await fakeCell(nothing, () => ({ body: odd }));
    const file = cellsFile({ east: east.url, west: west.url });
    const { code, out, err } = await runVerb(['cells', 'status', '--cells', file]);
    expect(code).toBe(1);
    expect(out).toContain('east  ·[2J·0.1.0');
    expect(err).toContain(
      `west is not in the sums: the server at ${west.url} speaks of its status in another way`,
    );
  });
});

describe('tokens', () => {
  it('go to the address of their own cell only, follow no redirect, and are in no output', async () => {
    const east = await statusOf({ accepted: 1, pending: 0 });
    const west = await fakeCell(nothing, () => ({
      status: 302,
      headers: { location: `${east.url}/api/v1/status` },
    }));
    const north = await fakeCell(nothing, () => ({ status: 401, body: {} }));
    const file = cellsFile({ east: east.url, west: west.url, north: north.url });
    const env = { MILLRACE_ADMIN_TOKEN: 'of-another-server' };
    const { code, out, err } = await runVerb(['cells', 'status', '--cells', file], env);
    expect(code).toBe(1);
    const tokensOf = ({ asked }: FakeCell) => asked.flatMap(({ token }) => token ?? []);
    expect([east, west, north].map(tokensOf)).toEqual([
      ['Bearer t-east'],
      ['Bearer t-west'],
      ['Bearer t-north'],
    ]);
    expect(err).toContain(
      `north is not in the sums: the server at ${north.url} refused the token from ${file}`,
    );
    expect(out + err).not.toMatch(/t-(east|west|north)/);
  });
});

describe('millrace cells trace', () => {
  it('shows the event of each cell that knows it, and which cells could not be asked', async () => {
    const known = {
      verdict: 'accepted',
      source: 'website',
      receivedAt: '2026-01-01T00:00:00.000Z',
      event: { type: 'track', event: 'Order Placed', messageId: 'order-1', userId: 'u1' },
      ...{ deliveries: [], skipped: [] },
    };
    const east = await fakeCell(() => ({ body: { data: [known] } }));
    // It does not know the source.
    const south = await fakeCell(() => ({
      status: 404,
      body: { code: 'unknown_name', detail: 'is no source.' },
    }));
    const odd = await fakeCell(() => ({ body: { data: [{ verdict: 'accepted' }] } }));
    const file = cellsFile({ east: east.url, south: south.url, odd: odd.url, west: NOBODY });
    const args = ['cells', 'trace', 'order-1', '--source', 'website', '--cells', file];
    const { code, out, err } = await runVerb(args);
    expect(code).toBe(1);
    expect(out).toMatch(/^cell east\n\norder-1 {2}track "Order Placed" of user u1\naccepted from website/);
    expect(err.split('\n')).toEqual([
      expect.stringMatching(/^millrace: odd could not be asked: .* speaks of events in another way/),
      expect.stringMatching(/^millrace: west could not be asked: server unreachable/),
      '',
    ]);
    expect(east.asked.at(-1)!.line).toBe('GET /api/v1/events/order-1?source=website');
    const json = JSON.parse((await runVerb([...args, '--json'])).out);
    expect(json.cells).toMatchObject([
      { data: [known] },
      { data: [] },
      { error: expect.any(String) },
      { name: 'west' },
    ]);
  });

  it('ends with 1 when no cell knows it', async () => {
    const east = await fakeCell(() => ({ body: { data: [] } }));
    const file = cellsFile({ east: east.url, west: NOBODY });
    const { code, out, err } = await runVerb(['cells', 'trace', 'none', '--cells', file]);
    expect([code, out]).toEqual([1, '']);
    expect(err).toContain('west could not be asked');
    expect(err).toContain('no cell that answered knows an event with the messageId "none"');
  });
});

describe('millrace cells delete-user', () => {
  it('asks every cell, shows the id of each receipt, and says who has not confirmed', async () => {
    const east = await fakeCell(() => ({ status: 201, body: receipt('r-east') }));
    const south = await fakeCell(() => ({ status: 201, body: receipt('r-south\n\u001b[31mr-forged') }));
    const file = cellsFile({ east: east.url, south: south.url, west: NOBODY });
    const { code, out, err } = await runVerb([
      'cells',
      'delete-user',
      'u1',
      'u1',
      '--suppress',
      '--cells',
      file,
    ]);
    expect(code).toBe(1);
    expect(out).toContain('cell east\n  r-east  DELETE_ONLY of 1 user: RUNNING\n');
    expect(out).toContain('cell south\n  r-south··[31mr-forged  DELETE_ONLY');
    expect(err).toContain('west has not confirmed it: server unreachable');
    expect(err).toContain('NOT CONFIRMED by west. Give the same command again');
    expect(east.asked.at(-1)).toEqual({
      ...{ line: 'POST /api/v1/regulations', token: 'Bearer t-east' },
      body: JSON.stringify({ type: 'SUPPRESS_WITH_DELETE', subjectIds: ['u1'] }),
    });
  });

  it('waits for the end in every cell, and keeps the id of one that is lost meanwhile', async () => {
    const finished = receipt('r-east', { overallStatus: 'FINISHED', finishedAt: '2026-01-01T00:01:00.000Z' });
    const east = await fakeCell(({ method }) =>
      method === 'POST' ? { status: 201, body: receipt('r-east') } : { body: finished },
    );
    const west = await fakeCell(({ method }) =>
      method === 'POST' ? { status: 201, body: receipt('r-west') } : { status: 500, body: 'broken' },
    );
    const file = cellsFile({ east: east.url, west: west.url });
    const args = ['cells', 'delete-user', 'u1', '--wait', '--json', '--cells', file];
    const { code, out, err } = await runVerb(args);
    expect(code).toBe(1);
    expect(JSON.parse(out)).toEqual({
      cells: [
        { name: 'east', regulation: finished },
        { name: 'west', regulation: receipt('r-west'), error: expect.stringContaining('answered 500') },
      ],
    });
    expect(err).toContain('millrace cells regulation r-west shows how far it is');
    expect(err).not.toContain('NOT CONFIRMED');
  });

  it('asks where an id names nobody in any cell and looks as if something stood around it', async () => {
    const knowing = (...known: string[]) =>
      fakeCell((_, body) => {
        const { subjectIds, dryRun = false } = JSON.parse(body) as { subjectIds: string[]; dryRun?: boolean };
        const unknown = subjectIds.filter((id) => !known.includes(id));
        return dryRun ? { body: { unknown } } : { status: 201, body: receipt('r') };
      });
    const [east, west] = [await knowing(), await knowing(' u1')];
    const file = cellsFile({ east: east.url, west: west.url });
    const changes = () =>
      [...east.asked, ...west.asked].filter(({ line, body }) => /^POST/.test(line) && !/dryRun/.test(body));
    const deleted = (...ids: string[]) => runVerb(['cells', 'delete-user', ...ids, '--cells', file]);
    const asked = await deleted(' twin', ' u1');
    expect(asked.code).toBe(2);
    expect(asked.err).toContain('" twin"');
    expect(asked.err).toContain('Nothing was done; --yes goes on all the same');
    expect(changes()).toEqual([]);
    expect((await deleted(' u1')).code).toBe(0);
    expect((await deleted(' twin', '--yes')).code).toBe(0);
    expect((await deleted('--json-ids', '"u1\\u0000"')).code).toBe(0);
    expect(changes()).toHaveLength(6);
    const half = cellsFile({ east: east.url, west: NOBODY });
    const { code, err } = await runVerb(['cells', 'delete-user', ' u1', '--cells', half]);
    expect([code, err]).toEqual([2, expect.stringContaining('west could not be asked')]);
  });

  it('is wrong usage where every cell says so', async () => {
    const problem = {
      code: 'invalid_parameters',
      detail: 'wrong',
      errors: [{ path: 'body.subjectIds', message: 'too many' }],
    };
    const [east, west] = [
      await fakeCell(() => ({ status: 400, body: problem })),
      await fakeCell(() => ({ status: 400, body: problem })),
    ];
    const file = cellsFile({ east: east.url, west: west.url });
    expect((await runVerb(['cells', 'suppress', 'u1', '--cells', file])).code).toBe(2);
    expect((await runVerb(['cells', 'suppress', '--cells', file])).err).toContain('name at least one userId');
  });
});

describe('millrace cells regulation', () => {
  it('finds each receipt in its cell', async () => {
    const holds = (id: string) =>
      fakeCell(({ url = '' }) =>
        url.endsWith(`/${id}`)
          ? { body: receipt(id, { overallStatus: 'FINISHED' }) }
          : { status: 404, body: { code: 'unknown_name', detail: 'is no regulation.' } },
      );
    const file = cellsFile({ east: (await holds('r1')).url, west: (await holds('r2')).url });
    const both = await runVerb(['cells', 'regulation', 'r2', 'r1', '--cells', file]);
    expect([both.code, both.err]).toEqual([0, '']);
    expect(both.out).toContain('cell east\n  r1  DELETE_ONLY of 1 user: FINISHED');
    expect(both.out).toContain('cell west\n  r2  DELETE_ONLY of 1 user: FINISHED');
    const { code, err } = await runVerb(['cells', 'regulation', 'r1', 'r3', '--cells', file]);
    expect([code, err]).toEqual([1, 'millrace: no cell that answered knows the regulation r3.\n']);
  });
});

describe('millrace cells events', () => {
  const at = (second: number) => `2026-01-01T00:00:${String(second).padStart(2, '0')}.000Z`;
  const found = (source: string, second: number) => ({
    ...{ verdict: 'accepted', source, receivedAt: at(second), deliveries: [], skipped: [] },
    event: { type: 'track', event: 'E', messageId: `${source}-${second}`, userId: 'u1' },
  });

  /** Has events of these seconds, two on a page, and answers the page after `last` with an error. */
  const holding = (source: string, seconds: readonly number[], last = Number.POSITIVE_INFINITY) =>
    fakeCell(({ url = '' }) => {
      const begin = Number(new URL(url, 'http://a').searchParams.get('cursor') ?? 0);
      if (begin > last) return { status: 500, body: 'broken' };
      const data = seconds.slice(begin, begin + 2).map((second) => found(source, second));
      return { body: { data, next: begin + 2 < seconds.length ? String(begin + 2) : null, searched: 9 } };
    });
  const idsIn = (out: string) => out.match(/(east|west)-\d+/g);

  it('merges the pages of all cells, the newest first, and says whose each is', async () => {
    const east = await holding('east', [50, 40, 30, 20, 10]);
    const west = await holding('west', [45, 44, 43, 5]);
    // Of another source, which it does not know; and one that finds nothing on its first page.
    const unknown = { code: 'unknown_name', detail: 'is no source.' };
    const south = await fakeCell(() => ({ status: 404, body: unknown }));
    const north = await fakeCell(({ url = '' }) => ({
      body: { data: [], next: url.includes('cursor') ? null : 'more' },
    }));
    const file = cellsFile({ east: east.url, west: west.url, south: south.url, north: north.url });
    const args = ['cells', 'events', '--user-id', 'u1', '--event', 'E*', '--cells', file];
    const { code, out, err } = await runVerb(args);
    expect([code, err]).toEqual([0, '']);
    expect(idsIn(out)).toEqual(
      [50, 45, 44, 43, 40, 30, 20, 10, 5].map((n) => `${[45, 44, 43, 5].includes(n) ? 'west' : 'east'}-${n}`),
    );
    expect(out).toMatch(/^cell +received +source/);
    expect(out).toMatch(/^west +2026-01-01T00:00:45.000Z +west +track +E +u1 +west-45$/m);
    expect(east.asked[1]!.line).toBe('GET /api/v1/events?userId=u1&event=E*&limit=100');
    const some = await runVerb([...args, '--limit', '3', '--json']);
    const lines = some.out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines).toEqual([
      { cell: 'east', ...found('east', 50) },
      { cell: 'west', ...found('west', 45) },
      { cell: 'west', ...found('west', 44) },
    ]);
    expect([some.code, some.err]).toEqual([
      0,
      'millrace: these are 3, and there may be more: see --limit.\n',
    ]);
  });

  it('says of which cells something is missing, and ends with 1', async () => {
    const east = await holding('east', [50, 40, 30], 0);
    const odd = await fakeCell(() => ({ body: { data: [{ verdict: 'accepted' }], next: null } }));
    const south = await holding('west', [45]);
    const file = cellsFile({ east: east.url, odd: odd.url, south: south.url, west: NOBODY });
    const { code, out, err } = await runVerb(['cells', 'events', '--cells', file]);
    expect(code).toBe(1);
    expect(idsIn(out)).toEqual(['east-50', 'west-45', 'east-40']);
    expect(err.split('\n')).toEqual([
      expect.stringMatching(/^millrace: not all of east is here: .* answered 500/),
      expect.stringMatching(/^millrace: not all of odd is here: .* speaks of events in another way/),
      expect.stringMatching(/^millrace: not all of west is here: server unreachable/),
      '',
    ]);
  });

  it('tells a source that no cell knows from one without events', async () => {
    const problem = { code: 'unknown_name', detail: 'is no source.' };
    const east = await fakeCell(() => ({ status: 404, body: problem }));
    const file = cellsFile({ east: east.url });
    const unknown = await runVerb(['cells', 'events', '--source', 'typo', '--cells', file]);
    expect([unknown.code, unknown.err]).toEqual([
      1,
      'millrace: no cell that answered has a source "typo".\n',
    ]);
    const empty = cellsFile({ east: (await holding('east', [])).url });
    const none = await runVerb(['cells', 'events', '--source', 'site', '--cells', empty]);
    expect([none.code, none.err]).toEqual([0, 'millrace: no event like this.\n']);
  });

  it('orders deliveries by their end where that is what is asked for', async () => {
    const dead = (id: string, second: number) => ({
      ...{ id, destination: 'crm', state: 'dead', reason: 'status_410', diedAt: at(second) },
      attempts: [],
    });
    const east = await fakeCell(() => ({ body: { data: [dead('east-1', 1)], next: null } }));
    const west = await fakeCell(() => ({ body: { data: [dead('west-2', 2)], next: null } }));
    const file = cellsFile({ east: east.url, west: west.url });
    const { code, out } = await runVerb(['cells', 'deliveries', '--state', 'dead', '--cells', file]);
    expect([code, idsIn(out)]).toEqual([0, ['west-2', 'east-1']]);
  });
});
