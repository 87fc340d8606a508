import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { realTurns } from '../../test/support/clock.ts';
import { openSqliteStore, type SqliteStore } from '../adapters/sqlite/store.ts';
import { wallClockStore } from '../adapters/system/wall-clock-store.ts';
import type { DestinationState } from '../delivery/contract.ts';
import { LatencyHistogram } from '../model/latency-histogram.ts';
import type { DestinationCounts, Ledger, SourceCounts } from '../model/ledger.ts';
import { MINUTE, type Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { DiskUse } from '../ports/disk-use.ts';
import type { Batch } from '../ports/event-log.ts';
import type { LogFields } from '../ports/logger.ts';
import type { SettingsSnapshot } from '../ports/settings-store.ts';
import { ledgerReport } from './ledger.ts';
import { ReportService } from './status.ts';

const settings = (sources: readonly string[], destinations: readonly string[]): SettingsSnapshot => ({
  sources: sources.map((name, place) => ({
    id: place + 1,
    name,
    writeKeys: [`wk_${place}`],
    enabled: true,
    mode: 'standard',
    whenDisabled: 'refuse',
  })),
  destinations: destinations.map((name, place) => ({
    id: place + 1,
    name,
    type: 'webhooks',
    sources: [...sources],
    enabled: true,
    settings: { endpoints: [], format: 'documented' },
    version: 1,
  })),
  alerts: [],
  tokens: [],
  replays: [],
  splits: [],
  audiences: [],
  traits: [],
  gone: { sources: [], destinations: [], audiences: [], traits: [] },
});

const SOURCE: SourceCounts = {
  received: 10,
  accepted: 6,
  duplicates: 1,
  discarded: { no_user_anon_id: 2, id_not_string: 1 },
};
const DESTINATION: DestinationCounts = {
  owed: 17,
  delivered: 4,
  pending: 5,
  dead: { status_410: 2, retry_window_over: 1 },
  dropped: { not_applicable: 2 },
  erased: 3,
  skipped: { integrations: 7 },
};

const ledger = (
  sources: readonly (readonly [number, SourceCounts])[],
  destinations: readonly (readonly [number, DestinationCounts])[],
): Ledger => ({ sources: new Map(sources), destinations: new Map(destinations) });

describe('the statement of a ledger', () => {
  it('has every count under its name, with the balance of each destination', () => {
    const statement = ledgerReport(ledger([[1, SOURCE]], [[1, DESTINATION]]), settings(['web'], ['crm']));
    expect(statement).toEqual({
      sources: { web: SOURCE },
      destinations: { crm: { ...DESTINATION, balance: 0 } },
      balanced: true,
      differences: [],
    });
    // In the order of spec/contract.md, "Ledger", for those who read the bytes.
    expect(Object.keys(statement.sources['web']!)).toEqual([
      'received',
      'accepted',
      'discarded',
      'duplicates',
    ]);
    expect(Object.keys(statement.destinations['crm']!).at(-1)).toBe('balance');
  });

  it('has zeros for what never counted anything, in the order of the settings', () => {
    const { sources, destinations, balanced } = ledgerReport(
      ledger([[2, SOURCE]], []),
      settings(['web', 'app'], ['crm', 'mail']),
    );
    expect(Object.keys(sources)).toEqual(['web', 'app']);
    expect(sources['web']).toEqual({ received: 0, accepted: 0, duplicates: 0, discarded: {} });
    const none = {
      owed: 0,
      delivered: 0,
      pending: 0,
      dead: {},
      dropped: {},
      erased: 0,
      skipped: {},
      balance: 0,
    };
    expect(destinations).toEqual({ crm: none, mail: none });
    expect(balanced).toBe(true);
  });

  it.each([
    ['a call that was received and is nowhere', { received: 11 }, 1],
    ['a call that was counted twice', { accepted: 7 }, -1],
    ['a discard too many', { discarded: { no_user_anon_id: 4 } }, -1],
  ])('names a source with %s', (_, change, difference) => {
    const { balanced, differences } = ledgerReport(
      ledger([[1, { ...SOURCE, ...change }]], [[1, DESTINATION]]),
      settings(['web'], ['crm']),
    );
    expect(balanced).toBe(false);
    expect(differences).toEqual([expect.objectContaining({ source: 'web', difference })]);
  });

  it.each([
    ['owed', { owed: 19 }, 2],
    ['delivered', { delivered: 5 }, -1],
    ['pending', { pending: 0 }, 5],
    ['dead', { dead: { status_410: 2 } }, 1],
    ['dropped', { dropped: {} }, 2],
    ['erased', { erased: 0 }, 3],
  ])('names a destination whose %s does not fit the rest', (_, change, difference) => {
    const { balanced, differences, destinations } = ledgerReport(
      ledger([[1, SOURCE]], [[1, { ...DESTINATION, ...change }]]),
      settings(['web'], ['crm']),
    );
    expect(balanced).toBe(false);
    expect(destinations['crm']!.balance).toBe(difference);
    expect(differences).toEqual([expect.objectContaining({ destination: 'crm', difference })]);
  });

  it('gives a difference with every term of its sum', () => {
    const { differences } = ledgerReport(
      ledger([[1, { ...SOURCE, received: 9 }]], [[1, { ...DESTINATION, owed: 18 }]]),
      settings(['web'], ['crm']),
    );
    expect(differences).toEqual([
      { source: 'web', difference: -1, received: 9, accepted: 6, duplicates: 1, discarded: 3 },
      {
        destination: 'crm',
        difference: 1,
        owed: 18,
        delivered: 4,
        pending: 5,
        dead: 3,
        dropped: 2,
        erased: 3,
      },
    ]);
  });

  it('keeps the name of a record that was removed with its counts, and has none of its zeros', () => {
    const before = settings(['web'], ['crm', 'mail']);
    const [crm, mail] = before.destinations;
    const after = { ...before, destinations: [], gone: { ...before.gone, destinations: [crm!, mail!] } };
    const { destinations, balanced } = ledgerReport(ledger([], [[1, DESTINATION]]), after);
    expect(destinations).toEqual({ crm: { ...DESTINATION, balance: 0 } });
    expect(balanced).toBe(true);
  });

  it('does not hide counts that no record names', () => {
    const { destinations, differences } = ledgerReport(
      ledger([], [[7, { ...DESTINATION, owed: 18 }]]),
      settings([], []),
    );
    expect(destinations['#7']).toMatchObject({ owed: 18, balance: 1 });
    expect(differences).toMatchObject([{ destination: '#7', difference: 1 }]);
  });

  it('keeps a name that is special to JavaScript', () => {
    const statement = ledgerReport(ledger([[1, SOURCE]], []), settings(['__proto__'], ['constructor']));
    const read = JSON.parse(JSON.stringify(statement));
    expect(Object.entries(read.sources)).toEqual([['__proto__', SOURCE]]);
    expect(Object.keys(read.destinations)).toEqual(['constructor']);
  });
});

interface Line {
  readonly level: string;
  readonly event: string;
  readonly facts: LogFields;
}

/** A check of a real store's ledger, on a clock that the test moves. */
class Watched {
  readonly folder: string;
  readonly lines: Line[] = [];
  states: DestinationState[] = [];
  disk: DiskUse | undefined;
  readonly reports: ReportService;
  readonly store: SqliteStore;
  now = Date.UTC(2026, 0, 1);
  wake: (() => void) | undefined;
  wakesAt: Time | undefined;
  #scheduled: () => void = () => {};

  static async open(): Promise<Watched> {
    const folder = mkdtempSync(join(tmpdir(), 'millrace-check-'));
    const store = await openSqliteStore({ folder });
    const settings = await store.settings.apply({
      sources: [{ name: 'web', writeKeys: ['wk'], enabled: true, mode: 'standard', whenDisabled: 'refuse' }],
      destinations: [
        {
          name: 'crm',
          type: 'webhooks',
          sources: ['web'],
          enabled: true,
          settings: { endpoints: [], format: 'documented' },
        },
      ],
    });
    return new Watched(folder, store, settings);
  }

  constructor(folder: string, store: SqliteStore, settings: SettingsSnapshot) {
    this.folder = folder;
    this.store = store;
    const clock: Clock = {
      now: () => this.now,
      monotonic: () => this.now,
      steps: () => [{ at: 0, ahead: 0 }],
      ...realTurns,
      after: (delay, wake) => {
        this.wakesAt = this.now + delay;
        this.wake = wake;
        this.#scheduled();
        return () => {
          this.wake = undefined;
        };
      },
    };
    const log = (level: string) => (facts: LogFields, event: string) =>
      void this.lines.push({ level, event, facts });
    const logger = { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') };
    const { queue, log: events, history } = wallClockStore(store, clock);
    this.reports = new ReportService({
      retention: 1000,
      queue,
      log: events,
      history,
      clock,
      logger,
      settings: () => settings,
      destinationStates: () => this.states,
      disk: async () => this.disk,
      diskLimit: 500,
      version: '1.2.3',
      storeId: 'f00d',
    });
  }

  /**
   * Runs `begin`, which begins a check, and resolves when the check is over: it has set the clock for the
   * next one.
   */
  async checked(begin: () => void): Promise<Line[]> {
    const over = new Promise<void>((resolve) => {
      this.#scheduled = resolve;
    });
    const before = this.lines.length;
    begin();
    await over;
    return this.lines.slice(before);
  }

  start(): Promise<Line[]> {
    return this.checked(() => this.reports.start());
  }

  aMinuteLater(): Promise<Line[]> {
    return this.checked(() => {
      this.now = this.wakesAt!;
      this.wake!();
    });
  }

  /** Changes the file behind the store's back, as a defect would. */
  sql(statement: string): void {
    const database = new DatabaseSync(join(this.folder, 'millrace.db'));
    const { changes } = database.prepare(statement).run();
    database.close();
    expect(changes).toBe(1);
  }

  async close(): Promise<void> {
    await this.reports.stop();
    await this.store.stop();
    rmSync(this.folder, { recursive: true });
  }
}

/** Ids are given by the store in the order of the records: first the source, then the destination. */
const WEB = 1;
const CRM = 2;

let nth = 0;

function call(): Batch {
  const messageId = `m${nth++}`;
  return {
    id: randomUUID(),
    receivedAt: 1000,
    events: [{ source: WEB, messageId, json: `{"messageId":"${messageId}"}` }],
    plans: [{ owed: [{ id: CRM }], skipped: [] }],
    planIndexes: [0],
    owed: [{ destination: CRM, state: 'held', indexes: [0] }],
    received: [{ source: WEB, calls: 2, discarded: { no_user_anon_id: 1 } }],
  };
}

describe('the check of the ledger', () => {
  let watched: Watched;

  beforeEach(async () => {
    watched = await Watched.open();
  });
  afterEach(() => watched.close());

  it('looks at the start and every minute, and says nothing while every sum comes out', async () => {
    expect(await watched.start()).toEqual([]);
    for (let minute = 1; minute <= 3; minute++) {
      const before = watched.now;
      expect(watched.wakesAt).toBe(before + MINUTE);
      await watched.store.log.append(call());
      expect(await watched.aMinuteLater()).toEqual([]);
    }
  });

  it('is loud at every check while a delivery is lost, and says once that it is found again', async () => {
    await watched.store.log.append(call());
    await watched.store.log.append(call());
    watched.sql(
      `insert into ledger(scope, id, name, value) values ('destination', ${CRM}, 'owed', 1) on conflict do update set value = value + excluded.value`,
    );
    const alarm = {
      level: 'error',
      event: 'ledger.unbalanced',
      facts: {
        differences: [
          {
            destination: 'crm',
            difference: 1,
            owed: 3,
            delivered: 0,
            pending: 2,
            dead: 0,
            dropped: 0,
            erased: 0,
          },
        ],
      },
    };
    expect(await watched.start()).toEqual([alarm]);
    expect(await watched.aMinuteLater()).toEqual([alarm]);
    expect(await watched.aMinuteLater()).toEqual([alarm]);
    expect(await watched.reports.ledger()).toMatchObject({
      balanced: false,
      destinations: { crm: { balance: 1 } },
    });

    watched.sql(`update ledger set value = value - 1 where scope = 'destination' and name = 'owed'`);
    expect(await watched.aMinuteLater()).toEqual([{ level: 'info', event: 'ledger.balanced', facts: {} }]);
    expect(await watched.aMinuteLater()).toEqual([]);
    expect(await watched.reports.ledger()).toMatchObject({ balanced: true, differences: [] });
  });

  it('sees a pending set that is gone, and a call that was received and is nowhere', async () => {
    await watched.store.log.append(call());
    await watched.start();
    watched.sql('delete from pending');
    watched.sql(
      `insert into ledger(scope, id, name, value) values ('source', 1, 'received', 3) on conflict do update set value = value + excluded.value`,
    );
    expect(await watched.aMinuteLater()).toMatchObject([
      {
        event: 'ledger.unbalanced',
        facts: {
          differences: [
            { source: 'web', difference: 3, received: 5, accepted: 1, duplicates: 0, discarded: 1 },
            { destination: 'crm', difference: 1, owed: 1, pending: 0 },
          ],
        },
      },
    ]);
  });

  it('never takes appends and settles under way for a difference', async () => {
    const { log, queue: backlog } = watched.store;
    const writes = (async () => {
      for (let round = 0; round < 50; round++) {
        const batches = Array.from({ length: 8 }, call);
        const appended = await Promise.all(batches.map((batch) => log.append(batch)));
        await backlog.settle(
          appended.slice(0, 5).map(({ positions: [position], held: [set] }, index) => ({
            set: set!,
            destination: CRM,
            position: position!,
            attempts: [],
            decision: index === 0 ? { kind: 'dead', reason: 'status_410' } : { kind: 'delivered' },
          })),
        );
      }
    })();
    let isOver = false;
    void writes.then(() => {
      isOver = true;
    });
    let looks = 0;
    let owed = 0;
    while (!isOver) {
      const { differences, destinations } = await watched.reports.ledger();
      expect(differences).toEqual([]);
      // Evidence that the looks fell between the writes and not all before or after them.
      if (destinations['crm']!.owed > owed) looks++;
      owed = destinations['crm']!.owed;
    }
    await writes;
    expect(looks).toBeGreaterThan(10);
    expect((await watched.reports.ledger()).destinations['crm']).toMatchObject({
      owed: 400,
      delivered: 200,
      dead: { status_410: 50 },
      pending: 150,
      balance: 0,
    });
  });

  it('goes on when the ledger cannot be read, and draws no conclusion from that', async () => {
    watched.sql(
      `insert into ledger(scope, id, name, value) values ('destination', ${CRM}, 'owed', 1) on conflict do update set value = value + excluded.value`,
    );
    expect(await watched.start()).toMatchObject([{ event: 'ledger.unbalanced' }]);
    await watched.store.stop();
    expect(await watched.aMinuteLater()).toMatchObject([{ level: 'warn', event: 'ledger.not_checked' }]);
    expect(watched.wakesAt).toBe(watched.now + MINUTE);
  });

  it('stops for good, also in the middle of a check', async () => {
    watched.reports.start();
    await watched.reports.stop();
    expect(watched.wakesAt).toBeUndefined();
    await watched.reports.stop();
  });
});

describe('the overview', () => {
  it('does not say that a destination was never asked to which another node has delivered', async () => {
    const watched = await Watched.open();
    const state = {
      destination: CRM,
      held: 0,
      inFlight: 0,
      limit: 16,
      breaker: 'closed',
      endpoints: [],
    } as const;
    watched.states = [{ ...state, state: 'never_asked' }];
    const shown = async () => (await watched.reports.overview()).lanes['crm']?.state;
    expect(await shown()).toBe('never_asked');
    for (const name of ['owed', 'delivered'])
      watched.sql(
        `insert into ledger(scope, id, name, value) values ('destination', ${CRM}, '${name}', 1) on conflict do update set value = value + excluded.value`,
      );
    expect(await shown()).toBe('healthy');
    await watched.close();
  });

  it('has the ledger, what waits where, what belongs to no source, deletions, and the size on disk', async () => {
    const watched = await Watched.open();
    const parked = { destination: CRM, state: 'parked', indexes: [0] } as const;
    await watched.store.log.append({ ...call(), receivedAt: watched.now - 5000, owed: [parked] });
    await watched.store.log.append({ ...call(), receivedAt: watched.now });
    watched.reports.ingestCounters.refused('invalid_write_key');
    const lastError = { reason: 'timeout', endpoint: 'https://example.com/hook' };
    watched.states = [
      {
        destination: CRM,
        state: 'failing',
        held: 1,
        inFlight: 0,
        limit: 1,
        breaker: 'open',
        nextProbeAt: watched.now + 2000,
        lastError: { ...lastError, at: watched.now },
        endpoints: [],
      },
    ];
    const overview = await watched.reports.overview();
    expect(overview).toEqual({
      at: '2026-01-01T00:00:00.000Z',
      startedAt: '2026-01-01T00:00:00.000Z',
      ...(await watched.reports.ledger()),
      lanes: {
        crm: {
          state: 'failing',
          held: 1,
          onDisk: 1,
          retrying: 0,
          oldestPendingAt: '2025-12-31T23:59:55.000Z',
          oldestKeptUntil: '2025-12-31T23:59:56.000Z',
          nextDueAt: '2025-12-31T23:59:55.000Z',
          nextProbeAt: '2026-01-01T00:00:02.000Z',
          lastError: { ...lastError, at: '2026-01-01T00:00:00.000Z' },
          endpoints: [],
        },
      },
      discards: [],
      callsOfNoSource: {
        discarded: {},
        refused: { invalid_write_key: 1 },
      },
      changedValues: {},
      rateLimitedRequests: {},
      publicCalls: {},
      log: { events: 2, bytes: expect.any(Number), oldestAt: '2025-12-31T23:59:55.000Z' },
      version: '1.2.3',
      nodeVersion: process.versions.node,
      storeId: 'f00d',
      commits: { count: 0 },
      regulations: { isFailing: false, open: 0, suppressed: 0 },
    });
    expect(overview.log.bytes).toBeGreaterThan(0);
    await watched.close();
  });

  it('has the disk with its limit, and how long commits took', async () => {
    const watched = await Watched.open();
    watched.disk = { size: 1000, free: 400, used: 100, parts: { store: 90, other: 10 } };
    const commits = new LatencyHistogram();
    commits.add(1, 98);
    commits.add(100, 2);
    watched.reports.include({
      users: () => ({ isFailed: false, isLate: false, restarts: 0 }),
      regulations: () => ({ open: 0, isFailing: false, suppressed: 0 }),
      commits: () => commits.read(),
    });
    const overview = await watched.reports.overview();
    expect(overview.disk).toEqual({ ...watched.disk, limit: 500 });
    expect(overview.commits.count).toBe(100);
    expect(overview.commits.p50Ms).toBeCloseTo(1, 0);
    expect(overview.commits.p99Ms).toBeGreaterThan(90);
    await watched.close();
  });
});
