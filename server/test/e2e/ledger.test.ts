import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runVerb } from '../../../cli/test/program.ts';
import type { Overview } from '../../src/app.ts';
import { send, track } from '../support/calls.ts';
import { ControlApi } from '../support/control-api.ts';
import { adminTokenOf, makePlace, type Place, type Program, ROOT, startServer } from '../support/program.ts';
import { freePort, startReceiver, type TestReceiver } from '../support/receiver.ts';
import { alterStore } from '../support/test-database.ts';

type Ledger = Pick<Overview, 'sources' | 'destinations' | 'balanced' | 'differences'>;

const SOURCES = `
sources:
  - { name: website, writeKeys: [wk] }
  - { name: quiet, writeKeys: [wk_quiet] }
  - { name: closed, writeKeys: [wk_closed], enabled: false, whenDisabled: discard }
`;

const destination = (name: string, port: number, more = '') =>
  `  - { name: ${name}, type: webhooks, sources: [website], ${more}settings: { endpoints: [{ url: "http://127.0.0.1:${port}/in" }] } }\n`;

/**
 * Starts the program in a place and remembers both, so that they are cleared up even after a failed test. The
 * tests of a `describe` share one.
 */
class Bench {
  readonly receivers: TestReceiver[] = [];
  place!: Place;
  program: Program | undefined;

  async receive(status: number): Promise<number> {
    const receiver = await startReceiver({ answer: (response) => void response.writeHead(status).end() });
    this.receivers.push(receiver);
    return receiver.port;
  }

  async start(env: Readonly<Record<string, string>> = {}): Promise<Program> {
    this.program = await startServer(this.place, { env });
    return this.program;
  }

  async clear(): Promise<void> {
    await this.program?.kill();
    for (const receiver of this.receivers.splice(0)) await receiver.stop();
    this.place.remove();
  }

  /** Adds a source, and a destination of it with the same name. */
  async connect(name: string, port: number): Promise<void> {
    const settings = { endpoints: [{ url: `http://127.0.0.1:${port}/in` }] };
    const made = [
      await this.api.ask('POST', 'sources', { name: `to-${name}`, writeKeys: [name] }),
      await this.api.ask('POST', 'destinations', {
        ...{ name, type: 'webhooks', sources: [`to-${name}`], settings },
      }),
    ];
    expect(made.map(({ status }) => status)).toEqual([201, 201]);
  }

  get token(): string {
    return adminTokenOf(this.place);
  }

  readonly api = new ControlApi(() => ({ url: this.program!.url, token: this.token }));

  ledger(): Promise<Ledger> {
    return this.api.read('ledger');
  }

  overview(): Promise<Overview> {
    return this.api.read('status');
  }

  /** The ledger once it is as expected; the test times out when it never is. */
  until(isReached: (ledger: Ledger) => boolean): Promise<Ledger> {
    return this.api.until('ledger', isReached);
  }

  /** The status of an answer to whoever has this token. */
  async statusWith(token: string): Promise<number> {
    const api = new ControlApi(() => ({ url: this.program!.url, token }));
    return (await api.ask('GET', 'ledger')).status;
  }

  status(...args: string[]) {
    return runVerb(['status', '--url', this.program!.url, '--data', this.place.data, ...args]);
  }
}

const row = (line: string) => line.trim().split(/ {2,}/);

describe('the ledger', () => {
  const bench = new Bench();
  let down: number;

  beforeAll(async () => {
    down = await freePort();
    bench.place = makePlace(
      `egress: { allow: [127.0.0.0/8] }\n${SOURCES}destinations:\n${[
        destination('accepting', await bench.receive(200)),
        destination('refusing', await bench.receive(410)),
        destination('down', down),
        destination('off', down, 'enabled: false, '),
      ].join('')}`,
    );
    await bench.start();
  });

  afterAll(() => bench.clear());

  it('counts calls of every kind and what becomes of them, exactly, also after a crash', async () => {
    const program = bench.program!;
    // These calls store nothing. They come first because their counts are committed with the events that
    // follow.
    expect((await send(program.url, '/v1/track', track('x', { userId: true as never }))).status).toBe(400);
    expect((await send(program.url, '/v1/track', track('x'), { writeKey: 'wk_nobody' })).status).toBe(401);
    expect((await send(program.url, '/v1/track', track('x'), { writeKey: 'wk_closed' })).status).toBe(200);
    for (let n = 0; n < 6; n++) await send(program.url, '/v1/track', track(`single-${n}`));
    for (let n = 0; n < 3; n++) await send(program.url, '/v1/track', track(`single-${n}`));
    const batch = [
      ...['batch-1', 'batch-2', 'single-5'].map((id) => track(id)),
      track('batch-3', { integrations: { accepting: false, refusing: false } }),
      track('batch-4', { originalTimestamp: 'the day before yesterday' }),
      track('x', { event: 7 }),
      track('x', { writeKey: 'wk_nobody' }),
      track('x', { writeKey: 'wk_closed' }),
    ];
    expect((await send(program.url, '/v1/batch', { batch })).status).toBe(200);
    // The first call has a source by its own key, the second has none.
    const ofNobody = { batch: [track('keyed', { writeKey: 'wk' }), track('x')] };
    const { status } = await send(program.url, '/v1/batch', ofNobody, { writeKey: 'wk_nobody' });
    expect(status).toBe(200);

    const expected = {
      sources: {
        website: {
          received: 18,
          accepted: 11,
          discarded: { event_not_string: 1, id_not_string: 1, unknown_write_key: 1 },
          duplicates: 4,
        },
        quiet: { received: 0, accepted: 0, discarded: {}, duplicates: 0 },
        closed: { received: 2, accepted: 0, discarded: { source_disabled: 2 }, duplicates: 0 },
      },
      destinations: {
        accepting: counts({ owed: 10, delivered: 10, skipped: { integrations: 1 } }),
        refusing: counts({ owed: 10, dead: { status_410: 10 }, skipped: { integrations: 1 } }),
        down: counts({ owed: 11, pending: 11 }),
        off: counts({ skipped: { destination_disabled: 11 } }),
      },
      balanced: true,
      differences: [],
    };
    const settled = ({ destinations }: Ledger) =>
      destinations['accepting']!.pending + destinations['refusing']!.pending === 0;
    expect(await bench.until(settled)).toEqual(expected);

    await program.saw(/destination\.failing/);
    const overview = await bench.overview();
    expect(overview).toMatchObject(expected);
    expect(overview.callsOfNoSource).toEqual({
      discarded: { unknown_write_key: 1 },
      refused: { invalid_write_key: 1 },
    });
    expect(overview.changedValues).toMatchObject({ website: { counts: { unreadable_times: 1 } } });
    expect(overview.lanes).toMatchObject({
      accepting: { state: 'healthy' },
      down: { state: 'failing', lastError: { reason: 'connection_refused' } },
      off: { state: 'disabled' },
    });
    const { code, out, err } = await bench.status();
    expect({ code, err }).toEqual({ code: 0, err: '' });
    const rows = out.split('\n').map(row);
    const reasons = 'event_not_string 1, id_not_string 1, unknown_write_key 1';
    expect(rows).toContainEqual(['website', '18', '11', '4', '3', reasons]);
    expect(rows).toContainEqual(['closed', '2', '0', '0', '2', 'source_disabled 2']);
    expect(rows).toContainEqual(['quiet', '0', '0', '0', '0']);
    const numbers = Object.fromEntries(rows.map(([name, _, ...rest]) => [name, rest.slice(0, 7).join(' ')]));
    expect(numbers).toMatchObject({
      accepting: '10 10 0 0 0 0 1',
      refusing: '10 0 0 0 10 0 1',
      down: expect.stringMatching(/^11 0 11 \d+ 0 0 0$/),
      off: '0 0 0 0 0 0 11',
    });
    expect(rows).toContainEqual(['ledger', 'balanced']);

    await program.kill();
    await bench.start();
    expect(await bench.ledger()).toEqual(expected);
    expect((await bench.overview()).callsOfNoSource.refused).toEqual({});

    bench.receivers.push(await startReceiver({ port: down }));
    const after = await bench.until(({ destinations }) => destinations['down']!.pending === 0);
    expect(after).toEqual({
      ...expected,
      destinations: { ...expected.destinations, down: counts({ owed: 11, delivered: 11 }) },
    });
  });

  it('balances after a crash in the middle of traffic, and no event is counted twice', async () => {
    await bench.connect('busy', await bench.receive(200));
    const program = bench.program!;
    const options = { writeKey: 'busy' };
    let answered = 0;
    const client = async (name: number) => {
      for (let n = 0; ; n++) {
        // Each event comes with one discarded call: both sides of the sum move.
        const batch = [track(`m-${name}-${n}`), track('x', { userId: true as never })];
        const sent = await send(program.url, '/v1/batch', { batch }, options).catch(() => undefined);
        if (sent === undefined) return;
        if (++answered === 300) void program.kill();
      }
    };
    await Promise.all(Array.from({ length: 8 }, (_, name) => client(name)));

    await bench.start();
    const ledger = await bench.ledger();
    expect(ledger.differences).toEqual([]);
    const { received, accepted, discarded } = ledger.sources['to-busy']!;
    // Calls stored just before the program died may have had no answer.
    expect(accepted).toBeGreaterThanOrEqual(answered);
    expect({ received, discarded }).toEqual({
      received: 2 * accepted,
      discarded: { id_not_string: accepted },
    });
    const after = await bench.until(({ destinations }) => destinations['busy']!.pending === 0);
    expect(after.destinations['busy']).toEqual(counts({ owed: accepted, delivered: accepted }));
  });
});

describe('a server that keeps a ledger', () => {
  const bench = new Bench();

  beforeAll(async () => {
    const crm = destination('crm', await freePort());
    bench.place = makePlace(`egress: { allow: [127.0.0.0/8] }\n${SOURCES}destinations:\n${crm}`);
    await bench.start();
  });

  afterAll(() => bench.clear());

  it('makes the admin token at its first start, keeps it for its owner alone, says where but never shows it, and keeps it', async () => {
    const program = bench.program!;
    const file = join(bench.place.data, 'admin-token');
    const [line] = await program.saw(/^.*admin-token.*$/m);
    expect(JSON.parse(line)).toMatchObject({
      ...{ level: 'info', event: 'server.token_file', path: file },
      msg: `the token of the control API is in ${file}`,
    });
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const { token } = bench;
    expect(await bench.statusWith(token)).toBe(200);
    expect((await bench.status('--token', 'wrong')).code).toBe(1);
    expect(program.out.stdout + program.out.stderr).not.toContain(token);
    await program.stop();
    await bench.start();
    expect(bench.token).toBe(token);
  });

  it('gives answers of the shape that docs/reference/ledger.md shows', async () => {
    const text = readFileSync(join(ROOT, 'docs/reference/ledger.md'), 'utf8');
    const [ledger, status] = [...text.matchAll(/^```json\n(.*?)^```$/gms)].map(([, json]) =>
      JSON.parse(json!),
    );
    await send(bench.program!.url, '/v1/track', track('m1'));
    await bench.until(({ destinations }) => destinations['crm']!.owed === 1);
    const real = await bench.overview();
    expect(Object.keys(ledger)).toEqual(Object.keys(await bench.ledger()));
    for (const kind of ['sources', 'destinations'] as const) {
      const [name] = Object.keys(ledger[kind]);
      expect(Object.keys(ledger[kind][name!])).toEqual(Object.keys(real[kind][name!]!));
    }
    for (const key of Object.keys(status)) expect(real).toHaveProperty(key);
  });

  it('has one that does not balance as an error in the log, in the answer and in the exit code, and finds it again', async () => {
    await bench.connect('robbed', await bench.receive(200));
    const first = bench.program!;
    await send(first.url, '/v1/track', track('m1'), { writeKey: 'robbed' });
    await bench.until(({ destinations }) => destinations['robbed']!.delivered === 1);
    expect(await first.stop()).toBe(0);

    await alterStore(bench.place.data, `update ledger set value = 0 where name = 'delivered'`);
    const second = await bench.start();
    const [line] = await second.saw(/.*ledger\.unbalanced.*/);
    expect(JSON.parse(line)).toMatchObject({
      level: 'error',
      differences: [{ destination: 'robbed', difference: 1, owed: 1, delivered: 0 }],
    });
    expect(await bench.ledger()).toMatchObject({
      balanced: false,
      destinations: { robbed: { balance: 1 } },
    });
    const { code, out, err } = await bench.status();
    expect(code).toBe(1);
    expect(out).toMatch(/^ledger +NOT BALANCED\n {2}destination robbed: 1 lost: owed 1, delivered 0, /m);
    expect(err).toBe(`millrace: the ledger of ${second.url} does not balance.\n`);
    const json = await bench.status('--json');
    expect(json.code).toBe(1);
    expect(JSON.parse(json.out)).toMatchObject({ balanced: false, destinations: { robbed: { balance: 1 } } });
  });
});

describe('the admin token', () => {
  const bench = new Bench();
  afterAll(() => bench.clear());

  it('comes from the file, and from the environment before it; then none is made', async () => {
    bench.place = makePlace('admin: { token: from-file }\n');
    const first = await bench.start();
    expect(await bench.statusWith('from-file')).toBe(200);
    expect(first.out.stderr).not.toMatch(/no effect|admin-token/);
    await first.stop();
    await bench.start({ MILLRACE_ADMIN_TOKEN: 'from-env' });
    expect(await bench.statusWith('from-env')).toBe(200);
    expect(await bench.statusWith('from-file')).toBe(401);
    expect(existsSync(join(bench.place.data, 'admin-token'))).toBe(false);
  });
});

/** A destination's line of the ledger; counts not given are 0. */
function counts(more: object) {
  return {
    owed: 0,
    delivered: 0,
    pending: 0,
    dead: {},
    dropped: {},
    erased: 0,
    skipped: {},
    balance: 0,
    ...more,
  };
}
