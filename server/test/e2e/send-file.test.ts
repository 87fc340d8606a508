import { once } from 'node:events';
import { appendFileSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { millrace, runVerb } from '../../../cli/test/program.ts';
import { adminTokenOf, makePlace, type Place, type Program, startServer } from '../support/program.ts';
import { until } from '../support/until.ts';

const yaml = `
trustedProxies: [127.0.0.1/32]
sources:
  - { name: website, writeKeys: [wk] }
  - { name: bulk, writeKeys: [wk_bulk] }
  - { name: past, writeKeys: [wk_past] }
`;

/** A trusted proxy before the server that holds answers back from a certain request on. */
class Gate {
  readonly #server: Server;
  readonly #kept: (() => void)[] = [];
  /** Number of requests whose answers go through. */
  passes = Number.POSITIVE_INFINITY;

  constructor(to: () => string) {
    this.#server = createServer(async (request, response) => {
      const parts: Buffer[] = [];
      for await (const part of request) parts.push(part as Buffer);
      const { authorization = '' } = request.headers;
      const body = Buffer.concat(parts);
      const answer = await fetch(`${to()}${request.url}`, {
        method: 'POST',
        headers: { authorization, 'x-forwarded-for': '203.0.113.5' },
        body,
      });
      const text = await answer.text();
      const reply = () => void response.writeHead(answer.status).end(text);
      if (this.passes-- > 0) reply();
      else this.#kept.push(reply);
    });
  }

  get kept(): number {
    return this.#kept.length;
  }

  /** Lets every answer through, held ones included. */
  open(): void {
    this.passes = Number.POSITIVE_INFINITY;
    for (const reply of this.#kept.splice(0)) reply();
  }

  async start(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}

describe('millrace send --file', () => {
  let place: Place;
  let program: Program;
  let gate: Gate;
  let endpoint: string;

  beforeAll(async () => {
    place = makePlace(yaml);
    program = await startServer(place);
    gate = new Gate(() => program.url);
    endpoint = await gate.start();
  });

  afterAll(async () => {
    gate.stop();
    await program.kill();
    place.remove();
  });

  beforeEach(() => gate.open());

  const sendArguments = (file: string, ...args: string[]) => [
    ...['send', '--file', file, '--endpoint', endpoint],
    ...args,
  ];
  /** In a process of its own, which can be ended. */
  const importing = (file: string, ...args: string[]) => millrace(sendArguments(file, ...args));
  const imported = (file: string, ...args: string[]) => runVerb(sendArguments(file, ...args));

  function written(name: string, lines: readonly string[]): string {
    const path = join(place.folder, name);
    writeFileSync(path, lines.map((line) => `${line}\n`).join(''));
    return path;
  }

  async function sumsOf(source: string): Promise<Record<string, unknown>> {
    const token = adminTokenOf(place);
    const headers = { authorization: `Bearer ${token}` };
    const answer = await fetch(`${program.url}/api/v1/ledger`, { headers });
    const { sources } = (await answer.json()) as { sources: Record<string, Record<string, unknown>> };
    return sources[source]!;
  }

  async function eventOf(id: string): Promise<Record<string, string> & { readonly context?: object }> {
    const headers = { authorization: `Bearer ${adminTokenOf(place)}` };
    const answer = await fetch(`${program.url}/api/v1/events/${id}`, { headers });
    const { data } = (await answer.json()) as { data: { event: never }[] };
    return data[0]!.event;
  }

  const page = (n: number) => JSON.stringify({ type: 'page', userId: `u${n}`, name: 'Home' });

  it('goes on where it was killed: every line is one event, and what was sent twice is a duplicate', async () => {
    const lines = 20_000;
    const file = written(
      'bulk.ndjson',
      Array.from({ length: lines }, (_, n) => page(n % 100)),
    );
    gate.passes = 10;
    const first = importing(file, '--write-key', 'wk_bulk');
    // By then some lines are recorded as settled, and others are stored but not answered.
    await until(
      'a batch is kept back and others are settled',
      () => gate.kept > 0 && existsSync(`${file}.progress`),
    );
    first.child.kill('SIGKILL');
    await first.ended;
    const progress = JSON.parse(readFileSync(`${file}.progress`, 'utf8'));
    expect(progress.line).toBeGreaterThan(0);
    expect(progress.line).toBeLessThan(lines);
    gate.open();
    const { code, out, err } = await imported(file, '--write-key', 'wk_bulk');
    expect(err).toContain(`goes on at line ${(progress.line + 1).toLocaleString('en-US')}`);
    expect({ code, out }).toEqual({ code: 0, out: expect.stringContaining('20,000 and 0 with those of') });
    const sums = await sumsOf('bulk');
    const duplicates = Number(sums['duplicates']);
    expect(sums).toEqual({ received: lines + duplicates, accepted: lines, duplicates, discarded: {} });
    expect(duplicates).toBeGreaterThan(0);
  });

  it('counts bad lines, keeps them with their number and reason, and ends with 1; what is appended later is sent later', async () => {
    const rejects = join(place.folder, 'refused.ndjson');
    const file = written('mixed.ndjson', [page(1), 'no JSON', '', '{"type":"track","userId":"u1"}', page(2)]);
    const first = await imported(file, '--write-key', 'wk', '--rejects', rejects);
    expect(first).toMatchObject({
      code: 1,
      out: expect.stringMatching(/^2 calls accepted, 2 lines refused/),
    });
    const kept = () =>
      readFileSync(rejects, 'utf8')
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line));
    expect(kept()).toEqual([
      { line: 2, reason: 'not_json', message: expect.any(String), text: 'no JSON' },
      {
        ...{ line: 4, reason: 'event_not_defined', message: expect.any(String) },
        text: '{"type":"track","userId":"u1"}',
      },
    ]);
    appendFileSync(file, `${page(3)}\n[]\n`);
    const second = await imported(file, '--write-key', 'wk', '--rejects', rejects);
    expect(second).toMatchObject({
      code: 1,
      out: expect.stringMatching(/^1 calls? accepted, 1 lines? refused/),
    });
    expect(kept().map(({ line }) => line)).toEqual([2, 4, 7]);
    const again = await imported(file, '--write-key', 'wk', '--progress', join(place.folder, 'again'));
    expect(again.err).toMatch(/line 2 was refused: not_json: .*\n.*line 4 was refused: event_not_defined: /);
    expect(await sumsOf('website')).toEqual({ received: 6, accepted: 3, duplicates: 3, discarded: {} });
  });

  it('stops where no call would be taken, and settles nothing by it', async () => {
    const file = written('wrong.ndjson', [page(1), page(2)]);
    const { code, out, err } = await imported(file, '--write-key', 'nobody');
    expect({ code, out }).toEqual({
      code: 1,
      out: expect.stringMatching(/^0 calls accepted, 0 lines refused/),
    });
    expect(err).toMatch(/did not take the calls \(refused\): .*401.*; nothing is settled/);
    expect(existsSync(`${file}.progress`)).toBe(false);
  });

  it('stops at Ctrl-C in order, and the same command goes on', async () => {
    const lines = Array.from({ length: 15_000 }, (_, n) => page(n));
    const file = written('long.ndjson', lines);
    gate.passes = 0;
    const first = importing(file, '--write-key', 'wk_bulk');
    await until('a batch is kept back', () => gate.kept > 0);
    first.child.kill('SIGINT');
    await first.says('err', /stopping/);
    gate.open();
    const { code, err } = await first.ended;
    expect({ code, err }).toEqual({
      code: 1,
      err: expect.stringMatching(/stopped; everything up to line \S+ is/),
    });
    const before = await sumsOf('bulk');
    const second = await imported(file, '--write-key', 'wk_bulk');
    expect(second).toMatchObject({ code: 0, out: expect.stringContaining('15,000 and 0 with those of') });
    // The stop was orderly: nothing was sent twice.
    expect((await sumsOf('bulk'))['duplicates']).toBe(before['duplicates']);
  });

  it('shifts no time, however wrong the clock of the machine is: timestamps stay to the millisecond', async () => {
    const slow = 'data:text/javascript,{const{now}=Date;Date.now=()=>now()-300000}';
    const file = written('past.ndjson', [
      JSON.stringify({
        type: 'page',
        userId: 'u1',
        messageId: 'given',
        timestamp: '2026-03-04T05:06:07.000Z',
      }),
      JSON.stringify({
        type: 'page',
        userId: 'u1',
        messageId: 'other',
        originalTimestamp: '2026-03-04T05:06:08.089Z',
      }),
      JSON.stringify({ type: 'page', userId: 'u1', messageId: 'none' }),
    ]);
    const begun = Date.now();
    const args = ['send', '--file', file, '--endpoint', endpoint, '--write-key', 'wk_past'];
    const ended = await millrace(args, { NODE_OPTIONS: `--import ${slow}` }).ended;
    expect(ended).toMatchObject({ code: 0, err: '' });
    expect(await eventOf('given')).toMatchObject({ timestamp: '2026-03-04T05:06:07.000Z' });
    expect(await eventOf('other')).toMatchObject({ timestamp: '2026-03-04T05:06:08.089Z' });
    const { timestamp, receivedAt } = await eventOf('none');
    expect(timestamp).toBe(receivedAt);
    expect(Date.parse(timestamp!)).toBeGreaterThanOrEqual(begun);
  });

  it('gives no call the address of this machine: it was made elsewhere', async () => {
    const browser = { library: { name: 'analytics.js', version: '2.1.0' } };
    const call = (messageId: string, context: object) =>
      JSON.stringify({ type: 'page', userId: 'u1', messageId, context });
    const file = written('visits.ndjson', [
      call('visit', browser),
      call('asking', { direct: true }),
      call('known', { ...browser, ip: '198.51.100.9' }),
    ]);
    for (const at of [endpoint, `${endpoint}/v1/batch`]) {
      const ended = await runVerb(['send', '--file', file, '--endpoint', at, '--write-key', 'wk_past']);
      expect(ended).toMatchObject({ code: 0, out: expect.stringContaining('3 calls accepted') });
      rmSync(`${file}.progress`);
      expect((await eventOf('visit')).context).toEqual(browser);
      expect((await eventOf('asking')).context).not.toHaveProperty('ip');
      expect((await eventOf('known')).context).toEqual({ ...browser, ip: '198.51.100.9' });
    }
  });

  it('reads standard input, where equal lines of two runs are two events and nothing is kept to go on with', async () => {
    const { accepted, duplicates } = await sumsOf('website');
    const input = `${page(1)}\n${page(1)}\nno call\n${page(2)}`;
    const args = sendArguments('-', '--write-key', 'wk');
    // From a pipe of the system, and from a stream that stands for one.
    for (const ended of [await millrace(args, {}, input).ended, await runVerb(args, {}, input)]) {
      expect(ended).toMatchObject({
        code: 1,
        out: expect.stringMatching(/^3 calls accepted, 1 lines? refused/),
      });
      expect(ended.err).toMatch(/line 3/);
    }
    expect(await sumsOf('website')).toMatchObject({ accepted: Number(accepted) + 6, duplicates });
    expect(existsSync('-.progress')).toBe(false);
    expect(await runVerb([...args, '--progress', join(place.folder, 'p')], {}, input)).toMatchObject({
      code: 2,
      out: '',
    });
  });

  it('takes a file that is not the one it knows, and options that do not go together, for wrong usage', async () => {
    const file = written('changed.ndjson', [page(1), page(2)]);
    expect((await imported(file, '--write-key', 'wk_bulk')).code).toBe(0);
    writeFileSync(file, `${page(3)}\n${page(4)}\n`);
    const wrong: [string[], string][] = [
      [['--write-key', 'wk_bulk'], 'is not the file that'],
      [['--write-key', 'wk'], 'another server or with another write key'],
      [['--write-key', 'wk_bulk', '--user-id', 'u1'], 'are in the file'],
      [['--write-key', 'wk_bulk', '--progress', join(file, 'no')], 'cannot be read'],
    ];
    const ended = await Promise.all(wrong.map(([args]) => imported(file, ...args)));
    expect(ended.map(({ code, out, err }) => [code, out, err])).toEqual(
      wrong.map(([, message]) => [2, '', expect.stringContaining(message)]),
    );
    const none = await imported(join(place.folder, 'none'), '--write-key', 'wk');
    expect(none).toMatchObject({ code: 2, err: expect.stringContaining('cannot be read: ENOENT') });
  });
});
