import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { migrate } from '../../src/migration/migration.ts';
import { DAY, HOUR, MINUTE } from '../../src/model/time.ts';
import type { ClockMark } from '../../src/ports/clock.ts';
import { StorageError } from '../../src/ports/event-log.ts';
import type { InstallationSource, InstallationTarget } from '../../src/ports/installation.ts';
import type { ProfileStore } from '../../src/ports/profile-store.ts';
import type { Store } from '../../src/ports/store.ts';
import { emptyContents, openMemoryStore } from '../memory-store/store.ts';
import { amountOf } from '../support/runs.ts';
import { batch, CRM, event, events, owed, owedBatch, SITE, skipped, WAREHOUSE, written } from './batches.ts';
import { allDead, reviveAll } from './dead-letters.ts';
import { twoSources } from './find.ts';
import { expectBalanced, START } from './harness.ts';
import { histories, momentsOf, type Step } from './histories.ts';
import { claim, dead, delivered, dropped, heldFrom, idsOf, MUCH_LATER, retried, settle } from './holdings.ts';
import { begin, drain, live, type Sight } from './lives.ts';
import { slice, state, textIn } from './profile-store.ts';
import { FOR_EVER, findAll, keepUp, write, writeSingly } from './upkeep.ts';

/** One engine: where installations of it live, and how each is opened. */
interface MigrationEngine {
  /** A place that holds nothing yet. */
  makePlace(): Promise<string>;
  open(place: string): Promise<Store>;
  /** The profiles beside a store that is open. */
  openProfiles(store: Store): Promise<ProfileStore>;
  removeAll(): Promise<void>;
}

export interface SourceEngine extends MigrationEngine {
  openSource(place: string): Promise<InstallationSource>;
  /** Changes a byte of the events of the chunk that holds the first event. */
  damageFirstChunk(place: string): Promise<void>;
}

export interface TargetEngine extends MigrationEngine {
  openTarget(place: string): Promise<InstallationTarget>;
}

const RUNS = amountOf({ gate: 4, long: 80 });

/** Ends what hangs: a history takes a few seconds, and more where a failure is made shorter. */
const TEST_LIMIT = Math.max(30, RUNS) * MINUTE;

interface Way {
  readonly from: SourceEngine;
  readonly to: TargetEngine;
}

/** Data that a migration between engines keeps (ports/installation.ts). */
export function migrationConformance(name: string, way: Way): void {
  describe(name, () => {
    afterAll(async () => {
      await way.from.removeAll();
      await way.to.removeAll();
    });
    movesEverything(way);
    movesRemnants(way);
    goesOn(way);
    refuses(way);
    movesDamage(way);
    looksTheSame(way);
  });
}

const CLOCK: ClockMark = { now: START, monotonic: START, steps: [{ at: 0, ahead: 0 }] };

interface MoveTerms {
  readonly isStopped?: () => boolean;
  /** Stands between the migration and its target. */
  readonly wrap?: (target: InstallationTarget) => InstallationTarget;
}

async function move({ from, to }: Way, places: readonly [string, string], terms: MoveTerms = {}) {
  const source = await from.openSource(places[0]);
  try {
    const target = await to.openTarget(places[1]);
    try {
      const { isStopped, wrap = (one) => one } = terms;
      const stop = isStopped === undefined ? {} : { isStopped };
      const { clock } = clockOf(source);
      return await migrate({ source, target: wrap(target), clock, ofEvents: 0, ...stop });
    } finally {
      await target.stop();
    }
  } finally {
    await source.stop();
  }
}

function clockOf({ lastClockMark }: InstallationSource): { clock: ClockMark } {
  return { clock: lastClockMark ?? CLOCK };
}

/** An installation with a row in every part. */
async function fill(store: Store, profiles: ProfileStore): Promise<void> {
  await fillSettings(store);
  await fillLog(store);
  await fillRegulations(store);
  await profiles.commit(
    slice(3, {
      put: [
        { id: 1, state: state('Ada') },
        { id: 2, state: state('Grace', 9) },
      ],
      bind: [
        { key: 0, profile: 1 },
        { key: 2 ** 53 - 1, profile: 2 },
      ],
      timers: [{ minute: 29_000_000, profile: 2 }],
      outbox: [{ sequence: 1, profile: 2, json: '{"messageId":"o1","text":"\\u0000 ü"}' }],
      merges: [
        {
          ...{ winner: 1, loser: 3, rule: 'alias', identity: { kind: 'user', value: 'x' } },
          ...{ messageId: 'm1', at: START, position: 1 },
        },
      ],
      documents: { backfill: { to: 7, of: ['a'] } },
    }),
  );
}

async function fillSettings({ settings, endpointHealth }: Store): Promise<void> {
  const source = { writeKeys: ['wk'], enabled: true, mode: 'standard', whenDisabled: 'refuse' } as const;
  await settings.apply({
    sources: [
      { name: 'website', ...source },
      { name: 'gone', ...source },
    ],
    destinations: [],
    tokens: [{ name: 'ci', role: 'viewer', hash: 'h', createdAt: START } as never],
    splits: [{ id: 's1', keys: [2 ** 52 + 1, 7], createdAt: START, by: 'ci' }],
    audit: [
      { at: START, by: 'admin', action: 'created', kind: 'source', name: 'website', after: { a: 'ü\u0000' } },
    ],
  });
  await settings.apply({ sources: [], destinations: [], removed: [{ kind: 'source', name: 'gone' }] });
  await endpointHealth.save([
    {
      destination: CRM,
      endpoints: [{ url: 'https://a.example/?ü', attempts: { accepted: 5e9 }, history: [] }],
    },
  ]);
}

async function fillLog(store: Store): Promise<void> {
  const { log, queue } = store;
  const { events: lines } = written(events(700, 'many'));
  const many = owedBatch(lines, 'held', { skipped: [skipped(WAREHOUSE, 'filtered', [1, 2, 3])] });
  const held = heldFrom(many, await log.append(many));
  const answer = 'no\u0000 thanks 🔑';
  const failed = dead(held[1]!);
  await settle(store, [
    ...held.slice(2, 400).map(delivered),
    ...held.slice(400, 405).map((one) => dropped(one, 'no\u0000 form 🔑')),
    ...held.slice(405, 407).map((one) => dropped(one)),
    { ...failed, attempts: failed.attempts.map((attempt) => ({ ...attempt, answer })) },
    retried(held[0]!, START + HOUR, { firstFailedAt: START, endpoints: 3, settingsVersion: 2 }),
  ]);
  await writeSingly(store, events(80, 'single'), START + MINUTE);
  // Duplicates leave places without an event in some engines.
  await log.append(
    batch([...events(3, 'single'), event('late'), ...events(2, 'many')], { receivedAt: START + MINUTE }),
  );
  // Long after: another slot, and an id that comes again behind its window.
  const later = START + 40 * HOUR;
  const parked = [
    event('many0'),
    event('anonymous', SITE, { userId: undefined as never, anonymousId: 'a1' }),
  ];
  await log.append(
    owedBatch(parked, 'parked', {
      receivedAt: later,
      received: [{ source: SITE, calls: 4, discarded: { invalid: 2 } }],
    }),
  );
  const produced = { name: 'users', sequence: 1 };
  await log.append(
    batch([event('p1'), event('p2')], { receivedAt: later, received: [], producer: produced }),
  );
  const [position] = await findAll(store, { messageId: 'late' });
  const replay = { origin: 'r1', destinations: [WAREHOUSE], positions: [position!], now: later };
  await queue.enqueue({ ...replay, from: 0, to: 9 });
  await log.append(
    batch(events(40, 'erased').map((one) => ({ ...event(one.messageId, 2, { userId: 'forgotten' }) }))),
  );
  await log.erase({ userIds: ['forgotten'] });
}

async function fillRegulations({ regulations }: Store): Promise<void> {
  const made = { createdAt: START, by: 'admin' };
  await regulations.create({ id: 'one', type: 'SUPPRESS_ONLY', userIds: ['ü\u0000', 'quiet'], ...made });
  await regulations.create({ id: 'two', type: 'SUPPRESS_WITH_DELETE', userIds: ['leaving'], ...made });
  const subject = { userId: 'leaving', formerUserIds: ['was'], anonymousIds: ['a9'], sources: [1] };
  await regulations.advance('two', { step: 'erase', subjects: [subject] });
}

/** Everything that can be seen of an installation. */
async function seen(store: Store, profiles: ProfileStore): Promise<Sight> {
  await store.queue.recoverOrphans();
  const { settings, history, deadLetters: _, regulations, log, queue, endpointHealth } = store;
  const positions = await findAll(store, { from: 0, to: MUCH_LATER });
  const suppressed: number[] = [];
  await regulations.visitSuppressed((hashes) => suppressed.push(...hashes));
  const stats = await queue.stats();
  return {
    isBounded: store.isBounded,
    events: (await log.read(positions)).map((one) => one && [one.source, one.event]),
    histories: await history.read(positions),
    byId: await findAll(store, { messageId: 'many0' }),
    byUser: await findAll(store, { userId: 'u1' }),
    byAnonymous: await findAll(store, { anonymousId: 'a1' }),
    settings: await settings.load(),
    audit: await settings.audit({}, 100).then(({ entries }) => entries),
    dead: await allDead(store, { destinations: [CRM, WAREHOUSE] }),
    ledger: await queue.ledger(),
    waiting: stats.map(({ held, onDisk, ...lane }) => ({ ...lane, all: held + onDisk })),
    replay: await history.progress('r1'),
    produced: await log.producedTo('users'),
    health: await endpointHealth.load(),
    regulations: await regulations.list(10),
    subjects: await regulations.subjects('two'),
    suppressions: await regulations.suppressions(10),
    suppressed,
    profiles: await seenProfiles(profiles),
  };
}

async function seenProfiles(profiles: ProfileStore): Promise<Sight> {
  return {
    cursor: await profiles.cursor(),
    states: (await profiles.scan(0, 10)).map(({ id, state: bytes }) => [id, bytes.length, textIn(bytes)]),
    owners: await profiles.resolve([0, 1, 2 ** 53 - 1]),
    due: await profiles.due(MUCH_LATER * 10, 10),
    outbox: await profiles.outbox(0, 10),
    merges: await profiles.merges(1, 10),
    document: await profiles.document('backfill'),
    size: (await profiles.size()).profiles,
  };
}

/** Fills a place; resolves to what is seen there. */
async function filled(engine: MigrationEngine): Promise<{ readonly place: string; readonly sight: Sight }> {
  const place = await engine.makePlace();
  const store = await engine.open(place);
  const profiles = await engine.openProfiles(store);
  await fill(store, profiles);
  await profiles.stop();
  await store.stop();
  // What was held waits after a restart, as it does at the new place.
  return { place, sight: await sightOf(engine, place) };
}

async function sightOf(engine: MigrationEngine, place: string): Promise<Sight> {
  const store = await engine.open(place);
  const profiles = await engine.openProfiles(store);
  try {
    await expectBalanced(store);
    return await seen(store, profiles);
  } finally {
    await profiles.stop();
    await store.stop();
  }
}

function movesEverything(way: Way): void {
  const { from, to } = way;

  it('moves every part, and numbers go on behind those that were given', async () => {
    const { place, sight } = await filled(from);
    const target = await to.makePlace();
    const report = await move(way, [place, target]);
    expect(report).toMatchObject({ balance: 0, unreadable: 0, leftOut: 0, wasComplete: false });
    expect(await sightOf(to, target)).toEqual(sight);
    const store = await to.open(target);
    const { sources } = await store.settings.apply({
      sources: [{ ...SOURCE, name: 'new' }],
      destinations: [],
    });
    // A removed source, a token and a split have the three between.
    expect(sources.map(({ id }) => id).sort()).toEqual([1, 5]);
    // A duplicate within its window, an id that is new behind its window, and a new event.
    const at = START + 41 * HOUR;
    const again = [event('many0'), event('late'), event('brand new')];
    const { positions } = await store.log.append(
      batch(again, { receivedAt: at, owed: [owed(CRM, 'parked', 3)] }),
    );
    expect(positions.map((position) => position !== undefined)).toEqual([false, true, true]);
    const known = sight['byId'] as number[];
    expect(Math.min(...positions.filter((one) => one !== undefined))).toBeGreaterThan(Math.max(...known));
    const taken = await claim(store, MUCH_LATER);
    expect(await idsOf(store, taken)).toEqual(expect.arrayContaining(['anonymous', 'brand new', 'many0']));
    await settle(store, taken.map(delivered));
    await keepUp(store, at, FOR_EVER);
    await expectBalanced(store);
    await store.stop();
  });

  it('moves an installation that has done nothing yet', async () => {
    const place = await from.makePlace();
    await (await from.open(place)).stop();
    const target = await to.makePlace();
    expect(await move(way, [place, target])).toMatchObject({ rows: {}, balance: 0, waiting: 0 });
    const store = await to.open(target);
    const [position] = (await store.log.append(batch([event('first')]))).positions;
    expect(position).toBe(0);
    await store.stop();
  });
}

function movesRemnants(way: Way): void {
  const { from, to } = way;
  const FOR_AN_HOUR = { events: HOUR, deadLetters: 30 * DAY };

  it('moves what retention has left of events: dead letters with theirs, and messageIds', async () => {
    const place = await from.makePlace();
    const store = await from.open(place);
    const made = owedBatch(events(20), 'held');
    const held = heldFrom(made, await store.log.append(made));
    await settle(store, [...held.slice(0, 15).map(delivered), ...held.slice(15).map((one) => dead(one))]);
    await store.log.append(batch(events(20, 'plain')));
    await keepUp(store, START + 3 * HOUR, FOR_AN_HOUR);
    await store.log.append(batch(events(5, 'young'), { receivedAt: START + 3 * HOUR }));
    await store.stop();
    const target = await to.makePlace();
    await move(way, [place, target]);
    const moved = await to.open(target);
    const known = [...events(20), ...events(20, 'plain'), ...events(5, 'young')];
    const { positions } = await moved.log.append(batch(known, { receivedAt: START + 4 * HOUR }));
    expect(positions.filter((one) => one !== undefined)).toEqual([]);
    expect(await reviveAll(moved, { destinations: [CRM] }, START + 4 * HOUR)).toBe(5);
    const taken = await claim(moved, MUCH_LATER);
    expect(await idsOf(moved, taken)).toEqual(['m15', 'm16', 'm17', 'm18', 'm19']);
    await settle(moved, taken.map(delivered));
    await keepUp(moved, START + 60 * DAY, { events: HOUR, deadLetters: HOUR });
    await expectBalanced(moved);
    expect((await moved.log.size()).damage).toBeUndefined();
    await moved.stop();
  });

  it('goes on with the positions of a log of which nothing is left', async () => {
    const place = await from.makePlace();
    const store = await from.open(place);
    await store.log.append(batch(events(30)));
    await keepUp(store, START + 60 * DAY, { events: HOUR, deadLetters: HOUR });
    const { end } = await store.log.size();
    await store.stop();
    const target = await to.makePlace();
    await move(way, [place, target]);
    const moved = await to.open(target);
    expect((await moved.log.size()).end).toBe(end);
    expect(await write(moved, [event('next')], START + 60 * DAY)).toEqual([end]);
    await keepUp(moved, START + 60 * DAY, FOR_AN_HOUR);
    expect((await moved.log.size()).damage).toBeUndefined();
    await moved.stop();
  });
}

const SOURCE = { writeKeys: ['wk2'], enabled: true, mode: 'standard', whenDisabled: 'refuse' } as const;

function goesOn(way: Way): void {
  const { from, to } = way;

  it('goes on after a failure before or after each commit, and leaves nothing out and writes nothing twice', async () => {
    const { place, sight } = await filled(from);
    const target = await to.makePlace();
    let [writes, failures] = [0, 0];
    for (let isDone = false; !isDone; failures++) {
      expect(failures).toBeLessThan(500);
      const failAt = writes++;
      let nth = 0;
      const failing = async (isAfter: boolean) => {
        if (nth === 1 && isAfter === (failAt % 2 === 1)) throw new StorageError('the disk is gone');
      };
      const wrap = (one: InstallationTarget): InstallationTarget => {
        const guarded =
          <Arguments extends unknown[]>(run: (...given: Arguments) => Promise<void>) =>
          async (...given: Arguments) => {
            nth++;
            await failing(false);
            await run(...given);
            await failing(true);
          };
        return {
          place: one.place,
          begin: (origin) => one.begin(origin),
          write: guarded((...given: Parameters<typeof one.write>) => one.write(...given)) as typeof one.write,
          advance: guarded((progress) => one.advance(progress)),
          openReader: () => one.openReader(),
          complete: guarded((progress) => one.complete(progress)),
          stop: () => one.stop(),
        };
      };
      isDone = await move(way, [place, target], { wrap }).then(
        () => true,
        (error: Error) => {
          expect(error.message).toContain('the disk is gone');
          return false;
        },
      );
    }
    // Each run comes one commit further, every second time.
    expect(failures).toBeGreaterThan(20);
    expect(await sightOf(to, target)).toEqual(sight);
  });

  it('stops between two pages when it is asked to, and goes on', async () => {
    const { place, sight } = await filled(from);
    const target = await to.makePlace();
    let left = 10;
    await expect(move(way, [place, target], { isStopped: () => left-- === 0 })).rejects.toThrow(
      'run it again',
    );
    await expect(to.open(target)).rejects.toThrow('migrate again');
    await move(way, [place, target]);
    expect(await sightOf(to, target)).toEqual(sight);
    expect(await move(way, [place, target])).toMatchObject({ wasComplete: true });
  });
}

function refuses(way: Way): void {
  const { from, to } = way;
  const empty = async () => {
    const place = await from.makePlace();
    const store = await from.open(place);
    await store.log.append(batch(events(3)));
    await store.stop();
    return place;
  };

  it('a source that is in use, and a target that is', async () => {
    const [place, target] = [await empty(), await to.makePlace()];
    const store = await from.open(place);
    await expect(move(way, [place, target])).rejects.toThrow(/in use|lease/);
    await store.stop();
    const other = await to.open(target);
    await expect(move(way, [place, target])).rejects.toThrow(/in use|holds an installation already/);
    await other.stop();
    await expect(move(way, [place, target])).rejects.toThrow('holds an installation already');
    // Nothing was marked.
    await (await from.open(place)).stop();
  });

  it('a target that holds a migration from another installation', async () => {
    const [one, other, target] = [await empty(), await empty(), await to.makePlace()];
    let left = 5;
    await expect(move(way, [one, target], { isStopped: () => left-- === 0 })).rejects.toThrow('run it again');
    await expect(move(way, [other, target])).rejects.toThrow('from another installation');
    await move(way, [one, target]);
    await expect(move(way, [other, target])).rejects.toThrow('from another installation');
  });

  it('a source that was used since its migration began', async () => {
    const [place, target] = [await empty(), await to.makePlace()];
    let left = 5;
    await expect(move(way, [place, target], { isStopped: () => left-- === 0 })).rejects.toThrow(
      'run it again',
    );
    const store = await from.open(place);
    await store.log.append(batch(events(1, 'since')));
    await store.stop();
    await expect(move(way, [place, target])).rejects.toThrow('was used since its migration');
  });

  it('a start of a source that was moved, and a second move of it', async () => {
    const [place, target, second] = [await empty(), await to.makePlace(), await to.makePlace()];
    await move(way, [place, target]);
    await expect(from.open(place)).rejects.toThrow('was moved to');
    await expect(move(way, [place, second])).rejects.toThrow('was moved to');
    // Started at its new place: still nothing to do, and no harm done.
    await (await to.open(target)).stop();
    expect(await move(way, [place, target])).toMatchObject({ wasComplete: true });
  });
}

function movesDamage(way: Way): void {
  const { from, to } = way;

  it('moves a chunk that cannot be read as one, so that what is owed of it becomes dead letters', async () => {
    const place = await from.makePlace();
    const store = await from.open(place);
    await store.log.append(owedBatch(events(40, 'damaged'), 'parked'));
    await store.log.append(owedBatch(events(40, 'whole'), 'parked'));
    await store.stop();
    await from.damageFirstChunk(place);
    const target = await to.makePlace();
    expect(await move(way, [place, target])).toMatchObject({ unreadable: 40, balance: 0, waiting: 80 });
    const moved = await to.open(target);
    const taken = await claim(moved, MUCH_LATER);
    const positions = taken.map(({ delivery }) => delivery.position);
    const read = await moved.log.read(positions);
    expect(read.filter((one) => one !== undefined)).toHaveLength(40);
    expect(await moved.log.damaged(positions)).toHaveLength(40);
    expect((await moved.log.size()).damage).toMatchObject({ events: 40 });
    await moved.stop();
  });
}

/** Moved at one of its restarts, beside a store that never moves. */
function looksTheSame(way: Way): void {
  it('looks the same as before, whatever its history was', { timeout: TEST_LIMIT }, async () => {
    const property = fc.asyncProperty(histories, fc.nat(3), (steps, restarts) =>
      compare(way, withMoves(steps), restarts),
    );
    await fc.assert(property, { numRuns: RUNS });
  });
}

/**
 * Answers to batches are of the process that asked: a batch that comes again elsewhere is one of duplicates.
 */
function withMoves(steps: readonly Step[]): Step[] {
  const kept = steps.filter(({ kind }) => kind !== 'append again');
  return kept.some(({ kind }) => kind === 'restart') ? kept : [...kept, { kind: 'restart' }];
}

/**
 * `restarts`: so many come before the one at which it moves, which is the last one where there are not so
 * many.
 */
async function compare(way: Way, steps: readonly Step[], restarts: number): Promise<void> {
  const contents = emptyContents();
  const model = begin(openMemoryStore({ contents }), async () => openMemoryStore({ contents }));
  const place = await way.from.makePlace();
  let before = Math.min(restarts, steps.filter(({ kind }) => kind === 'restart').length - 1);
  let target: string | undefined;
  const subject = begin(await way.from.open(place), async (store) => {
    await store.stop();
    if (before-- > 0) return way.from.open(place);
    if (target === undefined) {
      target = await way.to.makePlace();
      await move(way, [place, target]);
    }
    return way.to.open(target);
  });
  try {
    for (const { store } of [model, subject]) await twoSources(store);
    for (const [n, moment] of momentsOf(steps).entries()) {
      const expected = told(await live(model, moment), moment.step);
      expect(told(await live(subject, moment), moment.step), `step ${n}, ${moment.step.kind}`).toEqual(
        expected,
      );
    }
    expect(told(await drain(subject))).toEqual(told(await drain(model)));
    await expectBalanced(subject.store);
  } finally {
    await subject.store.stop();
  }
}

/**
 * Without what a move may change: places without an event count in one engine, and what was held waits
 * already.
 */
function told(sight: Sight, step?: Step): Sight {
  const { events: _, ...books } = sight['books'] as Record<string, unknown>;
  const rest = { ...sight, books };
  if (step?.kind !== 'restart') return rest;
  const { held } = sight['outcome'] as { held: number };
  return { ...rest, outcome: { held } };
}
