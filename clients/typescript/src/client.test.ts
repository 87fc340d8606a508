import { createServer } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { GIVE_UP_AFTER, until, within } from '../../../server/test/support/until.ts';
import {
  type AnswerWith,
  type Collector,
  FAST,
  random,
  startCollector,
  statuses,
} from '../test/collector.ts';
import { Client, type Patience } from './client.ts';
import type { Failure } from './failure.ts';
import type { Options, Success } from './options.ts';

interface Told {
  readonly successes: Success[];
  readonly failures: Failure[];
  readonly log: string[];
}

describe('a client', () => {
  const running: Collector[] = [];
  afterEach(async () => {
    await Promise.all(running.splice(0).map((collector) => collector.stop()));
  });

  async function start(options: Options = {}, answer?: AnswerWith) {
    const collector = await startCollector(answer);
    running.push(collector);
    const told: Told = { successes: [], failures: [], log: [] };
    const client = new Client('wk', {
      endpoint: collector.url,
      clock: FAST,
      onSuccess: (success) => told.successes.push(success),
      onFailure: (failure) => told.failures.push(failure),
      logger: (line) => told.log.push(line),
      closeTimeout: GIVE_UP_AFTER,
      ...options,
    });
    return { client, collector, told };
  }

  const call = { userId: 'u1', event: 'E' };

  it('queues calls and sends them together when enough of them wait', async () => {
    const { client, collector } = await start({ flushAfter: 60_000 });
    for (let n = 0; n < 20; n++) client.track(call);
    await collector.until(() => collector.requests.length === 1);
    expect(collector.items).toHaveLength(20);
    client.track(call);
    expect(client.counts).toMatchObject({ accepted: 21 });
    await client.close();
    expect(collector.requests.map(({ body }) => body.batch.length)).toEqual([20, 1]);
  });

  it('sends what waits when flushAfter is over', async () => {
    const { client, collector } = await start({ flushAfter: 20 });
    client.track(call);
    await collector.until(() => collector.items.length === 1);
    await client.close();
  });

  it('takes the smaller of size and flushAt', async () => {
    const { client, collector } = await start({ size: 2, flushAt: 100, flushAfter: 60_000 });
    client.track(call);
    client.track(call);
    await collector.until(() => collector.items.length === 2);
    await client.close();
  });

  it('makes an id for each call, also when the same object is used again, and leaves the object as it was', async () => {
    const { client, collector } = await start();
    const reused = Object.freeze({ ...call, properties: Object.freeze({ n: 1 }) });
    const before = JSON.stringify(reused);
    for (let n = 0; n < 3; n++) expect(client.track(reused)).toBeUndefined();
    await client.close();
    expect(new Set(collector.items.map(({ messageId }) => messageId)).size).toBe(3);
    expect(JSON.stringify(reused)).toBe(before);
  });

  it('sends what a call was when it was made, whatever happens to its objects later', async () => {
    const { client, collector } = await start();
    const properties = { n: 1, list: [1] };
    client.track({ ...call, properties });
    properties.n = 2;
    properties.list.push(2);
    await client.close();
    expect(collector.items[0]).toMatchObject({ properties: { n: 1, list: [1] } });
  });

  it('fails a call that has no JSON alone', async () => {
    const { client, collector, told } = await start();
    const getter = {
      get broken(): string {
        throw new Error('no value');
      },
    };
    client.track(call);
    expect(client.track({ ...call, properties: { big: 1n } })?.code).toBe('unencodable');
    expect(client.track({ ...call, properties: getter })).toMatchObject({
      code: 'unencodable',
      accepted: false,
      cause: expect.objectContaining({ message: 'no value' }),
    });
    client.track(call);
    expect(await client.close()).toEqual({ accepted: 2, delivered: 2, failed: 0, pending: 0 });
    expect(collector.items).toHaveLength(2);
    expect(told.failures.map(({ code }) => code)).toEqual(['unencodable', 'unencodable']);
  });

  it('refuses an id with half of a surrogate pair, as the server does, and takes whole ones', async () => {
    const { client, collector } = await start();
    for (const half of ['mia-\ud83d', '\udc00', 'a\udc00\ud83db']) {
      expect(client.track({ ...call, userId: half })?.code).toBe('id_not_unicode');
      expect(client.group({ userId: 'u1', groupId: half })?.code).toBe('id_not_unicode');
      expect(client.alias({ userId: 'u1', previousId: half })?.code).toBe('id_not_unicode');
    }
    client.track({ ...call, userId: 'mia-🦊\u0000' });
    await client.close();
    expect(collector.items).toMatchObject([{ userId: 'mia-🦊\u0000' }]);
  });

  it('takes the JSON of objects that make their own', async () => {
    const { client, collector } = await start();
    client.identify({ userId: 'u1', traits: { toJSON: () => ({ plan: 'pro' }) } });
    expect(client.identify({ userId: 'u1', traits: { toJSON: () => 'a text' } })?.code).toBe(
      'traits_not_object',
    );
    await client.close();
    expect(collector.items).toMatchObject([{ traits: { plan: 'pro' } }]);
  });

  it('tells the callback of a call what became of it, once, and never before the call returns', async () => {
    const { client } = await start({}, statuses(503));
    const told: [string, string | undefined][] = [];
    let returned = false;
    client.track(call, (failure) => told.push([`stored ${returned}`, failure?.code]));
    client.track({ userId: 'u1', event: '' }, (failure) => told.push([`refused ${returned}`, failure?.code]));
    returned = true;
    await client.close();
    expect(told).toEqual([
      ['refused true', 'event_not_defined'],
      ['stored true', undefined],
    ]);
  });

  it('goes on when a callback throws', async () => {
    const { client, told } = await start();
    client.track(call, () => {
      throw new Error('mine');
    });
    client.track(call);
    expect(await client.close()).toMatchObject({ delivered: 2 });
    expect(told.log).toEqual(['millrace: a callback threw: Error: mine']);
  });

  it('resolves flush when every call before it has been answered for, through all tries', async () => {
    const { client, collector, told } = await start({}, statuses(503, 500, 429));
    client.track(call);
    expect(await client.flush()).toEqual({ accepted: 1, delivered: 1, failed: 0, pending: 0 });
    expect(collector.requests).toHaveLength(4);
    expect(told.successes).toMatchObject([{ type: 'track', tries: 4 }]);
    const ids = collector.items.map(({ messageId }) => messageId);
    expect(new Set(ids).size).toBe(1);
    await client.close();
  });

  it('stops waiting for a flush when the caller has no more time, and goes on sending', async () => {
    const { client, collector } = await start({ clock: { ...FAST, scale: 1 } }, statuses(503));
    client.track(call);
    expect(await client.flush({ timeout: 30 })).toMatchObject({ pending: 1 });
    await collector.until(() => collector.requests.length === 2);
    expect(await client.close()).toMatchObject({ delivered: 1, pending: 0 });
  });

  it('stamps sentAt anew on every try, and the call once', async () => {
    let now = Date.parse('2026-01-02T03:04:05.678Z');
    const clock = { now: () => now, random, scale: 0.001 };
    const { client, collector } = await start({ clock }, (response, request, nth) => {
      now += 1_000;
      statuses(503)(response, request, nth);
    });
    client.track(call);
    await client.close();
    expect(collector.requests.map(({ body }) => body.sentAt)).toEqual([
      '2026-01-02T03:04:05.678Z',
      '2026-01-02T03:04:06.678Z',
    ]);
    expect(collector.items.map(({ timestamp }) => timestamp)).toEqual(
      Array(2).fill('2026-01-02T03:04:05.678Z'),
    );
  });

  it('waits at least as long as Retry-After asks for, measured by the clock of the server', async () => {
    const clock = { now: Date.now, random: () => 0, scale: 0.01 };
    const { client, collector } = await start({ clock }, (response, _, nth) => {
      // The server's clock is a day behind: only the difference of its two dates means anything.
      const yesterday = Date.now() - 86_400_000;
      response.setHeader('date', new Date(yesterday).toUTCString());
      if (nth === 0) response.setHeader('retry-after', new Date(yesterday + 20_000).toUTCString());
      response.statusCode = nth === 0 ? 429 : 200;
      response.end('{}');
    });
    const begun = performance.now();
    client.track(call);
    await client.close();
    // 19 to 20 s, a hundredth of it: dates have whole seconds.
    expect(performance.now() - begun).toBeGreaterThan(185);
    expect(collector.requests).toHaveLength(2);
  });

  it('reports calls the server refuses with what it said, without trying again', async () => {
    const { client, collector, told } = await start({}, (response) => {
      response.statusCode = 401;
      response.end('{"success":false,"code":"invalid_write_key","message":"The write key is unknown."}');
    });
    client.track({ ...call, messageId: 'm1' });
    await client.close();
    expect(collector.requests).toHaveLength(1);
    expect(told.failures).toEqual([
      {
        code: 'refused',
        message: 'the server refused it (401: invalid_write_key: The write key is unknown.)',
        accepted: true,
        uncertain: false,
        messageId: 'm1',
        tries: 1,
        status: 401,
        json: expect.stringContaining('"messageId":"m1"'),
      },
    ]);
  });

  it('says whether a lost call may have arrived all the same', async () => {
    const silent = createServer((socket) => socket.once('data', () => socket.destroy()));
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const { port } = silent.address() as { port: number };
    const lost = async (endpoint: string) => {
      const { client, told } = await start({ endpoint });
      client.track(call);
      await client.close();
      return told.failures[0];
    };
    expect(await lost(`http://127.0.0.1:${port}`)).toMatchObject({
      code: 'gave_up',
      uncertain: true,
      tries: 10,
    });
    await new Promise((resolve) => silent.close(resolve));
    expect(await lost(`http://127.0.0.1:${port}`)).toMatchObject({ code: 'gave_up', uncertain: false });
  });

  it('holds up nobody else with a batch the server cannot digest', async () => {
    const { client, collector, told } = await start({ flushAt: 1 }, (response, { body }) => {
      const isPoison = body.batch.some(({ event }) => event === 'poison');
      response.statusCode = isPoison ? 500 : 200;
      response.end('{}');
    });
    client.track({ ...call, event: 'poison' });
    for (let n = 0; n < 30; n++) client.track(call);
    await client.close();
    expect(client.counts).toEqual({ accepted: 31, delivered: 30, failed: 1, pending: 0 });
    const last = collector.items.findLastIndex(({ event }) => event === 'E');
    const tries = collector.items.slice(0, last).filter(({ event }) => event === 'poison').length;
    expect(tries).toBeLessThan(10);
    expect(told.failures).toMatchObject([{ code: 'gave_up', status: 500 }]);
  });

  it('sends one request at a time while the server fails, and several when it does not', async () => {
    let open = 0;
    let most = 0;
    let fails = true;
    let accepted = 0;
    const four = Promise.withResolvers<void>();
    const { client, collector } = await start({ flushAt: 1, uploads: 4 }, async (response) => {
      most = Math.max(most, ++open);
      if (open === 4) four.resolve();
      // The first answer that is good lets several begin.
      if (!fails && accepted++ > 0) await four.promise;
      open--;
      response.statusCode = fails ? 503 : 200;
      response.end('{}');
    });
    client.track(call);
    // Tried again: the failure of the first try has been heard of.
    await collector.until(() => collector.requests.length === 2);
    for (let n = 0; n < 40; n++) client.track(call);
    await client.flush({ timeout: 100 });
    expect(most).toBe(1);
    fails = false;
    await client.close();
    expect(most).toBe(4);
    expect(client.counts).toMatchObject({ delivered: 41 });
  });

  it('answers calls after close with an error, and close again with the same end', async () => {
    const { client, told } = await start();
    client.track(call);
    const [first, second] = await Promise.all([client.close(), client.close()]);
    expect(first).toEqual(second);
    expect(client.track(call)).toMatchObject({ code: 'closed', accepted: false });
    expect(await client.flush()).toEqual(first);
    expect(await client.room()).toBe(true);
    await Promise.resolve();
    expect(told.failures.map(({ code }) => code)).toEqual(['closed']);
  });

  it('closes at once when there was never a call', async () => {
    const { client, collector } = await start();
    expect(await client.close()).toEqual({ accepted: 0, delivered: 0, failed: 0, pending: 0 });
    expect(collector.requests).toEqual([]);
  });

  it('closes in time when the server does not answer, even if fetch ignores its signal', async () => {
    const never = () => new Promise<never>(() => {});
    // Without the patience of the caller it would wait for an hour.
    const { client, told } = await start({ fetch: never, flushAt: 10, closeTimeout: 3_600_000 });
    for (let n = 0; n < 35; n++) client.track(call);
    const patience: Patience = { timeout: 50 };
    const counts = await within('the client is closed', client.close(patience));
    expect(counts).toEqual({ accepted: 35, delivered: 0, failed: 35, pending: 0 });
    expect(new Set(told.failures.map(({ code }) => code))).toEqual(new Set(['closed']));
    // Those in requests may have arrived, those that waited have not.
    expect(told.failures.some(({ uncertain }) => uncertain)).toBe(true);
  });

  it('says that the server cannot be reached, and why, when it is closed before any answer came', async () => {
    const failures = new Map<string | undefined, Failure>();
    const log: string[] = [];
    const client = new Client('wk', {
      endpoint: `http://127.0.0.1:${await portOfNobody()}`,
      onFailure: (failure) => failures.set(failure.messageId, failure),
      ...{ flushAt: 1, verbose: true, logger: (line: string) => log.push(line) },
    });
    client.track({ ...call, messageId: 'm1' });
    await until('the first try is logged', () =>
      expect(log[0]).toContain('1 calls, try 1: no answer: connect ECONNREFUSED'),
    );
    client.track({ ...call, messageId: 'm2' });
    await client.close({ timeout: 1 });
    const message = expect.stringMatching(
      /^the server cannot be reached: connect ECONNREFUSED 127\.0\.0\.1:\d+$/,
    );
    for (const id of ['m1', 'm2']) {
      expect(failures.get(id)).toMatchObject({ code: 'unreachable', message, cause: expect.anything() });
    }
    expect(client.track(call)).toMatchObject({ code: 'closed', message: 'the client is closed' });
  });

  it('says why every try failed when it gives up on a server that cannot be reached', async () => {
    const { client, told } = await start({ endpoint: `http://127.0.0.1:${await portOfNobody()}` });
    client.track(call);
    await client.flush();
    const message = expect.stringMatching(/^every try failed: connect ECONNREFUSED/);
    expect(told.failures).toMatchObject([{ code: 'gave_up', tries: 10, message }]);
    await client.close();
  });

  it('says what the server answered last when it is closed before it took the calls', async () => {
    const slow = { now: Date.now, random, scale: 1 };
    const { client, told } = await start({ clock: slow, verbose: true }, statuses(503, 503, 503));
    client.track(call);
    void client.flush();
    await until('the answer is logged', () => expect(told.log[0]).toContain('503'));
    await client.close({ timeout: 1 });
    expect(told.failures).toMatchObject([{ code: 'closed', status: 503 }]);
  });

  it('says nothing of when it sends, and stamps nothing, where its clock is not to correct times', async () => {
    const { client, collector } = await start({ correctClock: false });
    client.track({ ...call, timestamp: '2026-03-04T05:06:07.089Z' });
    client.track(call);
    await client.close();
    expect(collector.requests[0]!.body).not.toHaveProperty('sentAt');
    expect(collector.items[0]).toMatchObject({ timestamp: '2026-03-04T05:06:07.089Z' });
    expect(collector.items[1]).not.toHaveProperty('timestamp');
  });

  it('takes an answer that never ends for what its status says', async () => {
    const { client } = await start({}, (response) => {
      response.writeHead(200, { 'content-length': '1000' });
      response.write('{"success"', () => response.destroy());
    });
    client.track(call);
    expect(await client.flush()).toMatchObject({ delivered: 1, failed: 0 });
    await client.close();
  });

  it('refuses calls that find no room, and has room again when others are answered for', async () => {
    const { client, collector } = await start({ maxCalls: 3, flushAfter: 60_000 });
    expect([1, 2, 3, 4].map(() => client.track(call)?.code)).toEqual([
      undefined,
      undefined,
      undefined,
      'full',
    ]);
    expect(await client.room({ timeout: GIVE_UP_AFTER })).toBe(true);
    expect(client.track(call)).toBeUndefined();
    await client.close();
    expect(collector.items).toHaveLength(4);
  });

  it('counts room in bytes as well', async () => {
    const { client } = await start({ maxBytes: 32_768, flushAfter: 60_000 });
    const properties = { pad: 'é'.repeat(8_000) };
    expect([1, 2, 3].map(() => client.track({ ...call, properties })?.code)).toEqual([
      undefined,
      undefined,
      'full',
    ]);
    expect(await client.close()).toMatchObject({ accepted: 2, delivered: 2 });
  });

  it('drops the oldest that wait when that is the policy, and reports them', async () => {
    const { client, collector, told } = await start({
      maxCalls: 3,
      whenFull: 'drop-oldest',
      flushAfter: 60_000,
    });
    for (const messageId of ['m1', 'm2', 'm3', 'm4', 'm5']) client.track({ ...call, messageId });
    expect(told.failures).toMatchObject([
      { code: 'dropped', messageId: 'm1', uncertain: false },
      { code: 'dropped', messageId: 'm2' },
    ]);
    expect(await client.close()).toEqual({ accepted: 5, delivered: 3, failed: 2, pending: 0 });
    expect(collector.items.map(({ messageId }) => messageId)).toEqual(['m3', 'm4', 'm5']);
  });

  it('writes a line when calls are lost and nobody listens, with neither key nor call in it', async () => {
    const log: string[] = [];
    const { client } = await start(
      { onFailure: undefined, onSuccess: undefined, logger: (line) => log.push(line), flushAt: 2 },
      statuses(400),
    );
    client.track({ ...call, event: 'secret' });
    client.track({ ...call, event: 'secret' });
    client.track({ event: 'secret' } as typeof call);
    await client.close();
    expect(log).toEqual([
      'millrace: a call was refused: userId or anonymousId is required',
      'millrace: 2 calls are lost: the server refused it (400: test: As wanted.)',
    ]);
  });

  it('logs what happens with DEBUG=analytics', async () => {
    process.env['DEBUG'] = 'express:*,analytics';
    const log: string[] = [];
    const { client } = await start({ logger: (line) => log.push(line) });
    delete process.env['DEBUG'];
    client.track(call);
    await client.close();
    expect(log).toEqual(['millrace: 1 calls, try 1: 200']);
  });

  it('sends what is unanswered once more when the page is left, as much as may survive it', async () => {
    const waiting: (() => void)[] = [];
    let holds = true;
    const { client, collector, told } = await start({ flushAt: 2, timeout: GIVE_UP_AFTER }, (response) => {
      const reply = () => response.end('{"success":true}');
      if (holds) waiting.push(reply);
      else reply();
    });
    const properties = { pad: 'x'.repeat(20_000) };
    for (const messageId of ['m1', 'm2', 'm3']) client.track({ ...call, messageId, properties });
    await collector.until(() => collector.requests.length === 1);
    holds = false;
    // Two are in a request and one waits; 50,000 bytes are room for two.
    expect(client.depart(50_000).map(({ json }) => json.slice(13, 17))).toEqual(['"m1"', '"m2"']);
    // Calls in such a request are not sent a third time when the page asks again.
    expect(client.depart(30_000)).toEqual([]);
    expect(await client.flush()).toMatchObject({ delivered: 3 });
    const [first, second] = collector.requests;
    expect(first!.headers.authorization).toBe('Basic d2s6');
    expect(second!.headers).not.toHaveProperty('authorization');
    expect(second!.headers['content-type']).toBe('text/plain');
    expect(second!.body.writeKey).toBe('wk');
    for (const reply of waiting) reply();
    expect(await client.close()).toEqual({ accepted: 3, delivered: 3, failed: 0, pending: 0 });
    expect(told.successes.map(({ messageId }) => messageId)).toEqual(['m1', 'm2', 'm3']);
  });

  it.each(['3xx', 'opaque'])(
    'does not follow a redirect, which could answer with any page: %s',
    async (kind) => {
      const { client, collector, told } = await start(
        // A browser makes this of it.
        kind === 'opaque'
          ? { fetch: async () => ({ status: 0, headers: new Headers(), text: async () => '' }) }
          : {},
        (response) => response.writeHead(302, { location: '/' }).end(),
      );
      client.track(call);
      await client.close();
      expect(collector.requests).toHaveLength(kind === 'opaque' ? 0 : 1);
      expect(told.failures).toMatchObject([{ code: 'refused', tries: 1 }]);
    },
  );

  it('uses the fetch it is given', async () => {
    const seen: string[] = [];
    const { client } = await start({
      fetch: (url, init) => {
        seen.push(init.method);
        return fetch(url, init);
      },
    });
    client.track(call);
    expect(await client.close()).toMatchObject({ delivered: 1 });
    expect(seen).toEqual(['POST']);
  });

  it.each([
    [{ endpoint: 'localhost:8080' }, 'no URL of http or https'],
    [{ endpoint: '/v1' }, 'no URL of http or https'],
    [{ endpoint: 'http://user:pass@localhost' }, 'contains a password'],
    [{ flushAt: 0 }, 'flushAt'],
    [{ size: 2_501 }, 'size'],
    [{ flushAfter: Number.NaN }, 'flushAfter'],
    [{ maxBytes: 100 }, 'maxBytes'],
    [{ timeout: 0 }, 'timeout'],
  ])('refuses to be made with %j', (options, reason) => {
    expect(() => new Client('wk', options)).toThrow(reason);
  });

  it.each([
    [{ flushat: 5 }, 'there is no option flushat; did you mean flushAt?'],
    [{ flush_at: 5 }, 'there is no option flush_at; did you mean flushAt?'],
    [{ enpoint: 'http://x' }, 'there is no option enpoint; did you mean endpoint?'],
    [{ host: 'http://x' }, /there is no option host$/],
    [{ ['x'.repeat(1e5)]: 1 }, 'there is no option'],
  ])('refuses an option that it does not have, and says which may be meant: %j', (options, reason) => {
    expect(() => new Client('wk', options as Options)).toThrow(reason);
  });

  it('refuses to be made without a write key, and says so with a code', () => {
    expect(() => new Client('')).toThrow(expect.objectContaining({ code: 'invalid_option' }));
  });
});

/** A port that was free a moment ago. */
async function portOfNobody(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}
