import type { Overview } from '@millrace/server';
import { describe, expect, it } from 'vitest';
import { secondOfDay } from './column.ts';
import { paintFor } from './paint.ts';
import { statusReport } from './status-report.ts';

const NOTHING: Overview = {
  at: '2026-01-02T10:00:00.000Z',
  startedAt: '2026-01-02T07:00:00.000Z',
  version: '0.3.0',
  nodeVersion: '24.21.0',
  storeId: 'f00d',
  sources: {},
  destinations: {},
  balanced: true,
  differences: [],
  lanes: {},
  callsOfNoSource: { discarded: {}, refused: {} },
  changedValues: {},
  rateLimitedRequests: {},
  publicCalls: {},
  discards: [],
  log: { events: 0, bytes: 86_016 },
  commits: { count: 0 },
  regulations: { open: 0, isFailing: false, suppressed: 0 },
};

const HEALTHY = { state: 'healthy', held: 0, onDisk: 0, retrying: 0, endpoints: [] } as const;
const COUNTS = {
  owed: 0,
  delivered: 0,
  pending: 0,
  dead: {},
  dropped: {},
  erased: 0,
  skipped: {},
  balance: 0,
};

function report(overview: Partial<Overview>): string[] {
  const options = { url: 'http://127.0.0.1:8080', paint: paintFor({}, {}) };
  return statusReport({ ...NOTHING, ...overview }, options).split('\n');
}

describe('the status of a server', () => {
  it('shows the last discarded call of each source and reason, and obeys nothing that is in it', () => {
    const call = '{"type":"track","event":"\u001b[31m"}';
    const lines = report({
      discards: [
        { source: 'website', reason: 'no_user_anon_id', at: '2026-01-02T09:59:48.000Z', call, cut: false },
        { reason: 'unknown_write_key', at: '2026-01-02T09:00:00.000Z', call: 'x'.repeat(200), cut: true },
      ],
    });
    expect(lines.slice(-5)).toEqual([
      '',
      'last discarded  reason             when        call',
      'website         no_user_anon_id    12 s ago    {"type":"track","event":"·[31m"}',
      `–               unknown_write_key  60 min ago  ${'x'.repeat(200)}`,
      '',
    ]);
  });

  it('shows the nodes that share a database, with their leases and what one of them does alone', () => {
    const node = { roles: ['ingest', 'deliver'], version: '0.1.0', since: '2026-01-02T09:00:00.000Z' };
    const lines = report({
      nodes: [
        { ...node, name: 'a', isSelf: true, leaseLeftMs: 9000, jobs: ['maintenance', 'users'] },
        { ...node, name: 'b', leaseLeftMs: -20, jobs: [] },
      ],
      goneNodes: [
        {
          ...{ name: 'c', roles: ['deliver'], version: '0.1.0', takenOverBy: 'a' },
          ...{ lastSeenAt: '2026-01-02T07:31:02.000Z', takenOverAt: '2026-01-02T07:31:13.000Z' },
        },
      ],
    });
    const at = secondOfDay(Date.parse('2026-01-02T07:31:02.000Z'));
    expect(lines.slice(6, 10)).toEqual([
      'node       lease  started             version  roles            alone does',
      'a (asked)  valid  60 min ago          0.1.0    ingest, deliver  maintenance, users',
      'b          over   60 min ago          0.1.0    ingest, deliver',
      `c          gone   last seen ${at}  0.1.0    deliver          nothing: a took over`,
    ]);
  });

  it('shows the database, how far its standbys are, and what is wrong with it', () => {
    const standby = { name: 's1', isSynchronous: true, behindBytes: 2048, behindMs: 3 };
    const problems = [{ isSevere: true, found: 'fsync is off', advice: 'set fsync = on' }];
    const lines = report({ database: { version: '15.6', standbys: [standby], problems } });
    expect(lines).toContainEqual(
      expect.stringMatching(
        /^database {12}PostgreSQL 15\.6; standby s1 \(commits wait for it\): 2.* behind, confirmed in 3 ms$/,
      ),
    );
    expect(lines).toContain('                    fsync is off: set fsync = on');
    const hidden = report({ database: { version: '15.6', standbys: [{ name: 's2' }], problems: [] } });
    expect(hidden).toContainEqual(
      expect.stringMatching(/; standby s2: hidden from the user of the database$/),
    );
  });

  it('fits on one screen: sources, destinations, what belongs to no source, disk, and the ledger', () => {
    const lines = report({
      sources: {
        website: {
          received: 1234,
          accepted: 1200,
          duplicates: 10,
          discarded: { event_not_defined: 4, no_user_anon_id: 20 },
        },
        app: { received: 0, accepted: 0, duplicates: 0, discarded: {} },
      },
      destinations: {
        crm: { ...COUNTS, owed: 1200, delivered: 1150, pending: 47, dead: { status_410: 3 } },
        billing: { ...COUNTS, owed: 5, pending: 5, skipped: { destination_disabled: 1195 } },
        mail: { ...COUNTS, owed: 10, delivered: 2, pending: 3, erased: 5 },
      },
      lanes: {
        crm: {
          endpoints: [],
          state: 'failing',
          held: 0,
          onDisk: 47,
          retrying: 12,
          oldestPendingAt: '2026-01-02T09:48:00.000Z',
          nextDueAt: '2026-01-02T09:58:00.000Z',
          failingSince: '2026-01-02T09:03:10.000Z',
          lastError: {
            reason: 'connection_refused',
            endpoint: 'https://example.com/hook',
            at: '2026-01-02T09:59:57.000Z',
          },
        },
        billing: {
          ...{ state: 'disabled', held: 0, onDisk: 5, retrying: 0, endpoints: [] },
          oldestPendingAt: '2026-01-01T08:00:00.000Z',
          oldestKeptUntil: '2026-01-08T08:00:00.000Z',
        },
        mail: {
          ...HEALTHY,
          ...{ onDisk: 3, retrying: 3, nextDueAt: '2026-01-02T10:00:04.000Z' },
          oldestPendingAt: '2026-01-02T09:59:30.000Z',
        },
      },
      callsOfNoSource: {
        discarded: { unknown_write_key: 3 },
        refused: { invalid_write_key: 1, invalid_json: 2 },
      },
      changedValues: { website: { counts: { unreadable_times: 1 }, unreadableTime: 'noon' } },
      log: { events: 1200, bytes: 12_900_000, oldestAt: '2026-01-02T07:00:00.000Z' },
      disk: {
        ...{ size: 40 * 1024 ** 3, free: 31 * 1024 ** 3, used: 15_000_000, limit: 1024 ** 3 },
        parts: { store: 12_900_000, writeAheadLog: 2_100_000 },
      },
      commits: { count: 1200, p50Ms: 1.2, p99Ms: 4.84 },
    });
    // In the reader's time zone.
    const since = new Date('2026-01-02T09:03:10.000Z').toTimeString().slice(0, 5);
    expect(lines).toEqual([
      'Millrace on http://127.0.0.1:8080, started 3 h ago, version 0.3.0',
      '',
      'source   received  accepted  duplicates  discarded  reasons',
      'website     1,234     1,200          10         24  no_user_anon_id 20, event_not_defined 4',
      'app             0         0           0          0',
      '',
      'destination  state      owed  delivered  pending  retrying  dead  erased  skipped  oldest waiting         reasons',
      'crm          failing   1,200      1,150       47        12     3       0        0  12 min                 ' +
        `failing since ${since} (connection_refused at https://example.com/hook 3 s ago); dead: status_410 3`,
      'billing      disabled      5          0        5         0     0       0    1,195  26 h                   ' +
        '5 wait, kept until 2026-01-08 08:00 UTC; skipped: destination_disabled 1,195',
      'mail         healthy      10          2        3         3     0       5        0  30 s, next try in 4 s',
      '',
      'calls of no source  3 refused: invalid_json 2, invalid_write_key 1; 3 discarded: unknown_write_key 3',
      'changed values      website: times not readable 1 (such as "noon")',
      'store               12.3 MB, 1,200 events, the oldest 3 h old',
      'disk                31 GB free of 40 GB; the data folder takes 14.3 MB: store 12.3 MB, write-ahead log 2 MB; events may take 1 GB',
      'commits             50 % within 1.2 ms, 99 % within 4.84 ms (1,200 in 15 min)',
      'ledger              balanced',
      '',
    ]);
  });

  it('says of an endpoint that answers 410 that it is gone for good', () => {
    const lastError = { reason: 'status_410', endpoint: 'https://example.com/old', at: NOTHING.at };
    const lane = { ...HEALTHY, state: 'refusing', refusingSince: NOTHING.at, lastError } as const;
    const told = (reason: string) =>
      report({
        destinations: { crm: COUNTS },
        lanes: { crm: { ...lane, lastError: { ...lastError, reason } } },
      });
    expect(told('status_410').join('\n')).toMatch(
      /status_410 at \S+ 0 s ago, which says that it is gone for good/,
    );
    expect(told('status_404').join('\n')).not.toContain('gone');
  });

  it('says so when there is nothing yet', () => {
    expect(report({}).slice(2)).toEqual([
      'no sources',
      '',
      'no destinations',
      '',
      'calls of no source  none since the start',
      'store               84 KB, 0 events',
      'ledger              balanced',
      '',
    ]);
  });

  it('begins with why calls are turned away', () => {
    const paint = paintFor({ isTTY: false }, {});
    const text = statusReport(NOTHING, { url: 'http://s', paint, reasons: ['the disk\u001b is full'] });
    expect(text.split('\n')[1]).toBe('CALLS ARE TURNED AWAY (503): the disk· is full');
  });

  it('is loud about a ledger that does not balance, with every number of each sum', () => {
    const lines = report({
      balanced: false,
      differences: [
        { source: 'web', difference: -1, received: 9, accepted: 6, duplicates: 1, discarded: 3 },
        {
          destination: 'crm',
          difference: 1234,
          owed: 1250,
          delivered: 4,
          pending: 5,
          dead: 3,
          dropped: 0,
          erased: 4,
        },
      ],
    });
    expect(lines.slice(-4)).toEqual([
      'ledger              NOT BALANCED',
      '  source web: 1 counted twice: received 9, accepted 6, duplicates 1, discarded 3',
      '  destination crm: 1,234 lost: owed 1,250, delivered 4, pending 5, dead 3, dropped 0, erased 4',
      '',
    ]);
  });

  it('colours what somebody should look at, and only on a terminal', () => {
    const paint = paintFor({ isTTY: true }, {});
    const text = statusReport(
      {
        ...NOTHING,
        balanced: false,
        destinations: { crm: { ...COUNTS, owed: 3, dead: { status_410: 3 } } },
        lanes: { crm: { ...HEALTHY, state: 'failing' } },
      },
      { url: 'http://127.0.0.1:8080', paint },
    );
    for (const piece of ['failing', '3', paint.bold('NOT BALANCED')])
      expect(text).toContain(paint.red(piece));
  });

  it('shows how far profiles are, what of them fails, and deletions under way', () => {
    const profiles = { profiles: 1200, bytes: 260_000_000, behind: 0, lagMs: 0, failed: [], skipped: 0 };
    const facts = (more: Partial<Overview>) =>
      statusReport({ ...NOTHING, ...more }, { url: 'http://m', paint: paintFor({}, {}) })
        .split('\n')
        .filter((line) => /^(profiles|deletions| {18})/.test(line));
    expect(facts({})).toEqual([]);
    expect(facts({ profiles: { ...profiles, state: 'live' } })).toEqual([
      'profiles            1,200, 248 MB, up to date',
    ]);
    const late = {
      ...profiles,
      state: 'catching_up',
      behind: 1,
      lagMs: 3000,
      failed: ['Buyers'],
      skipped: 2,
    } as const;
    expect(facts({ profiles: late })).toEqual([
      'profiles            1,200, 248 MB, 3 s behind (1 event)',
      '                    cannot be computed: Buyers',
      '                    2 events left out, see the log',
    ]);
    expect(facts({ profiles: { ...profiles, state: 'failed', reason: 'the disk is full' } })).toEqual([
      'profiles            STAND STILL: the disk is full',
    ]);
    const oldestAt = new Date(Date.parse(NOTHING.at) - 7_200_000).toISOString();
    expect(facts({ regulations: { open: 2, oldestAt, isFailing: true, suppressed: 1 } })).toEqual([
      'deletions           2 under way, the oldest 2 h old; a step fails and is repeated, see the log; 1 id suppressed',
    ]);
  });
});
