import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type HandClock, handClock } from '../../test/support/clock.ts';
import { itNotices } from '../../test/support/invariants.ts';
import { until } from '../../test/support/until.ts';
import { TimelineFiles } from '../adapters/files/timeline-files.ts';
import type { Attempt, Decision } from '../model/delivery.ts';
import { InvariantError } from '../model/invariant.ts';
import { DAY, HOUR, MINUTE, SECOND } from '../model/time.ts';
import type { LogFields } from '../ports/logger.ts';
import { MetricsRegistry } from '../telemetry/registry.ts';
import { type LedgerReport, TIMELINE_SERIES, type TimelineQuery } from './contract.ts';
import { failureGroups } from './failures.ts';
import { TimelineRecorder } from './timeline.ts';
import { readTimeline } from './timeline-query.ts';

const NOON = Date.parse('2026-03-04T12:00:00Z');
const RECORDS = {
  sources: [{ id: 1, name: 'web' }],
  destinations: [{ id: 7, name: 'crm' }],
  gone: { sources: [], destinations: [] },
};

/** Counters that a test moves, as the ledger of a store has them. */
class Counts {
  received = 0;
  duplicates = 0;
  discarded: Record<string, number> = {};
  owed = 0;
  delivered = 0;
  dead: Record<string, number> = {};

  report(): LedgerReport {
    const { received, duplicates, discarded, owed, delivered, dead } = this;
    const lost = (reasons: Record<string, number>) => Object.values(reasons).reduce((sum, n) => sum + n, 0);
    const pending = owed - delivered - lost(dead);
    return {
      sources: {
        web: {
          received,
          accepted: received - duplicates - lost(discarded),
          duplicates,
          discarded: { ...discarded },
        },
      },
      destinations: {
        crm: { owed, delivered, pending, dead: { ...dead }, dropped: {}, erased: 0, skipped: {}, balance: 0 },
      },
      balanced: true,
      differences: [],
    };
  }
}

let folder: string;
let clock: HandClock;
let counts: Counts;
let registry: MetricsRegistry;
let recorder: TimelineRecorder;
let isReplaced = false;
const logged: string[] = [];
/** Texts of invariants that were logged. */
const texts = new Set<string>();

function begin(): void {
  const log = (facts: LogFields, event: string) => {
    logged.push(event);
    if (facts['invariant'] !== undefined) texts.add(String(facts['invariant']));
  };
  registry = new MetricsRegistry();
  recorder = new TimelineRecorder({
    ledger: async () => counts.report(),
    flows: registry,
    settings: () => RECORDS as never,
    store: new TimelineFiles(folder, () => isReplaced),
    clock,
    logger: { debug: log, info: log, warn: log, error: log },
  });
  recorder.start();
}

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-timeline-'));
  clock = handClock(NOON);
  counts = new Counts();
  logged.length = 0;
  texts.clear();
  isReplaced = false;
  begin();
  await clock.settle();
});

afterEach(async () => {
  await recorder.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function shown(query: Partial<TimelineQuery> = {}) {
  const asked = { from: NOON, to: NOON + 5 * MINUTE, step: MINUTE, series: TIMELINE_SERIES, ...query };
  return await readTimeline(asked, recorder);
}

/** Stops and starts as a restart does, so that everything is on the disk. */
async function restart(): Promise<void> {
  await recorder.stop();
  begin();
  await clock.settle();
}

function attempt(endpoint: string, kind: 'accepted' | 'retryable', reason: string): Attempt {
  return { endpoint, startedAt: 0, latencyMs: 5, outcome: { kind, reason } as Attempt['outcome'] };
}

const DELIVERED: Decision = { kind: 'delivered' };

test('nothing is written into a folder that another program may have put in the place of this one', async () => {
  counts.received = 10;
  await clock.pass(2 * MINUTE);
  const contents = () => readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), 'utf8')]);
  const whole = [[expect.anything(), expect.stringMatching(/\n$/)]];
  await until('a whole line is written', () => expect(contents()).toEqual(whole));
  const before = contents();
  isReplaced = true;
  await clock.pass(20 * MINUTE);
  await recorder.stop();
  expect(contents()).toEqual(before);
  expect(logged).toContain('timeline.not_written');
});

test('what has happened since the last sample is in the totals and in its step at once', async () => {
  counts.received = 3;
  await clock.pass(20 * SECOND);
  counts.received = 5;
  await clock.pass(4 * SECOND);
  const query = { to: NOON + MINUTE, step: 10 * SECOND };
  const received = async () => {
    const [group] = (await shown(query)).groups;
    return { total: group?.totals['received'], steps: group?.series['received'] };
  };
  expect(await received()).toEqual({ total: 5, steps: [3, 0, 2, null, null, null] });
  await clock.pass(6 * SECOND);
  expect(await received()).toMatchObject({ total: 5, steps: [3, 0, 2, 0, null, null] });
});

test('each step has what happened in it, over a restart in the middle of a minute', async () => {
  counts.received = 10;
  counts.duplicates = 1;
  counts.discarded = { missing_user: 2 };
  counts.owed = 7;
  await clock.pass(30 * SECOND);
  counts.delivered = 4;
  counts.received = 11;
  await restart();
  counts.received = 15;
  counts.delivered = 6;
  counts.dead = { status_410: 1 };
  await clock.pass(90 * SECOND);
  await restart();
  const [group] = (await shown()).groups;
  expect(group?.series).toMatchObject({
    received: [15, 0, 0, null, null],
    accepted: [12, 0, 0, null, null],
    duplicates: [1, 0, 0, null, null],
    discarded: [2, 0, 0, null, null],
    owed: [7, 0, 0, null, null],
    delivered: [6, 0, 0, null, null],
    dead: [1, 0, 0, null, null],
    pending: [0, 0, 0, null, null],
    deliveryP50: [null, null, null, null, null],
  });
  expect(group?.totals).toMatchObject({ received: 15, accepted: 12, delivered: 6, dead: 1, pending: 0 });
  expect(group?.reasons).toEqual({ discarded: { missing_user: 2 }, dead: { status_410: 1 } });
  expect(logged).toEqual([]);
});

test('what happened since the last minute ended is in the answer, and the last ten seconds are a rate', async () => {
  counts.received = 50;
  await clock.pass(10 * SECOND);
  counts.received = 80;
  counts.owed = 5;
  await clock.pass(10 * SECOND);
  const [group] = (await shown({ to: NOON + 20 * SECOND, step: 10 * SECOND })).groups;
  expect(group?.series['received']).toEqual([50, 30]);
  expect(group?.series['pending']).toEqual([0, 5]);
  expect(group?.now).toMatchObject({ received: 3, pending: 5 });
  expect((await shown()).groups[0]?.series['received']).toEqual([80, null, null, null, null]);
});

test('requests are told by endpoint, failures by reason with what to do', async () => {
  const crm = registry.forDestination(7);
  const [one, two] = ['https://one.example/in?key=s3cret', 'https://two.example/in'];
  const retry = { kind: 'retry', at: 0, next: {} } as unknown as Decision;
  crm.attemptEnded(
    0,
    [attempt(one!, 'retryable', 'status_503'), attempt(two!, 'accepted', 'status_200')],
    DELIVERED,
    20,
  );
  crm.attemptEnded(0, [attempt(one!, 'retryable', 'status_503')], retry, 20);
  crm.attemptEnded(0, [attempt(one!, 'retryable', 'timeout')], retry, 20);
  registry.callsStored(1, 3, 100);
  await clock.pass(10 * SECOND);
  const report = await shown({ by: 'endpoint', destination: 'crm' });
  expect(report.groups.map(({ endpoint, totals }) => ({ endpoint, ...totals }))).toEqual([
    { endpoint: expect.stringMatching(/^https:\/\/one\.example\/in/), requests: 3, failed: 3 },
    { endpoint: 'https://two.example/in', requests: 1, failed: 0 },
  ]);
  expect(JSON.stringify(report)).not.toContain('s3cret');
  const failures = failureGroups(report);
  expect(failures.map(({ reason, count }) => [reason, count])).toEqual([
    ['status_503', 2],
    ['timeout', 1],
  ]);
  for (const { message, hint } of failures) expect(`${message} ${hint}`).toMatch(/^[A-Z].*\. [A-Z].*\.$/);
  const [whole] = (await shown()).groups;
  expect(whole?.totals).toMatchObject({ retrying: 2, requests: 4, failed: 3 });
  expect(whole?.totals['deliveryP50']).toBeCloseTo(20, -1);
  expect(whole?.totals['acceptanceP99']).toBeCloseTo(3, 0);
});

test('commits are told for the whole, over restarts, and recent ones alone', async () => {
  for (let nth = 0; nth < 98; nth++) registry.committed(2, true);
  registry.committed(900, true);
  registry.committed(900, true);
  registry.committed(5_000, false);
  await clock.pass(MINUTE);
  expect([...recorder.recentCommits().values()].reduce((sum, n) => sum + n, 0)).toBe(100);
  await restart();
  const [whole] = (await shown({ series: ['commitP50', 'commitP99'] })).groups;
  expect(whole?.totals['commitP50']).toBeCloseTo(2, 0);
  expect(whole?.totals['commitP99']).toBeGreaterThan(800);
  expect(whole?.series['commitP50']).toEqual([whole?.totals['commitP50'], null, null, null, null]);
  for (const divided of [{ by: 'source' }, { source: 'web' }, { by: 'destination' }] as const)
    for (const group of (await shown(divided)).groups) expect(group.totals).not.toHaveProperty('commitP50');
  expect(recorder.recentCommits().size).toBe(0);
});

test('groups are those asked for, with the series that they have numbers for', async () => {
  counts.received = 3;
  counts.owed = 3;
  await clock.pass(10 * SECOND);
  const bySource = await shown({ by: 'source', series: ['received', 'owed'] });
  expect(bySource.groups.map(({ source, totals }) => [source, totals])).toEqual([['web', { received: 3 }]]);
  const byDestination = await shown({ by: 'destination', series: ['received', 'owed'] });
  expect(byDestination.groups.map(({ destination, totals }) => [destination, totals])).toEqual([
    ['crm', { owed: 3 }],
  ]);
  expect((await shown({ source: 'other', series: ['received'] })).groups[0]?.totals).toEqual({ received: 0 });
});

test('a week is read from rows of ten minutes and is the same', async () => {
  for (let minute = 0; minute < 25; minute++) {
    counts.received += minute;
    await clock.pass(MINUTE);
  }
  await restart();
  const week = await shown({
    from: NOON - 6 * DAY,
    to: NOON + HOUR,
    step: 10 * MINUTE,
    series: ['received'],
  });
  const known = week.groups[0]?.series['received']?.filter((n) => n !== null);
  expect(known).toEqual([45, 145, 110]);
  const hour = await shown({ to: NOON + HOUR, step: 10 * MINUTE, series: ['received'] });
  expect(hour.groups[0]?.series['received']?.slice(0, 3)).toEqual([45, 145, 110]);
});

describe('the files', () => {
  test('keep seven days', async () => {
    for (let day = 0; day < 10; day++) {
      counts.received++;
      await clock.pass(HOUR);
      await recorder.stop();
      await clock.pass(DAY - HOUR);
      begin();
    }
    await clock.pass(DAY);
    await recorder.stop();
    const days = new Set(readdirSync(folder).map((name) => name.slice(-16, -6)));
    expect(days.size).toBeLessThanOrEqual(9);
    expect(days.size).toBeGreaterThanOrEqual(8);
  });

  test('that were torn by a crash or damaged lose the row that was, and nothing else', async () => {
    counts.received = 5;
    await clock.pass(MINUTE);
    await recorder.stop();
    for (const name of readdirSync(folder)) {
      appendFileSync(join(folder, name), `{"at":${NOON},"sources":{"web":{"recei`);
    }
    begin();
    await clock.settle();
    counts.received = 9;
    await clock.pass(10 * SECOND);
    await restart();
    expect((await shown()).groups[0]?.totals['received']).toBe(9);
  });
});

test('a sample that cannot be taken is made up for by the next', async () => {
  counts.received = 5;
  const { report } = counts;
  counts.report = () => {
    throw new Error('the store is gone');
  };
  await clock.pass(10 * SECOND);
  expect(logged).toEqual(['timeline.not_sampled']);
  counts.report = report.bind(counts);
  await clock.pass(10 * SECOND);
  expect((await shown()).groups[0]?.totals['received']).toBe(5);
});

describe('a bug in the timeline', () => {
  /** Logs and counts of two samples, with a registry or a clock that is wrong from the second sample on. */
  async function noticed(spoil: () => void): Promise<void> {
    registry.committed(5, true);
    await clock.pass(20 * SECOND);
    spoil();
    await clock.pass(30 * SECOND);
    expect(
      logged.filter((event) => event === 'reporting.invariant_failed'),
      'logged once',
    ).toHaveLength(1);
    expect(registry.failedInvariants()).toBeGreaterThan(1);
    throw new InvariantError([...texts][0]!);
  }

  itNotices([
    [
      'commits that were measured stay measured',
      () =>
        noticed(() => {
          registry.commitLatency.read = () => new Map();
        }),
    ],
  ]);
});
