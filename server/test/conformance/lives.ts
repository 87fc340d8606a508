import type { Delivery } from '../../src/model/delivery.ts';
import type { Position } from '../../src/model/event.ts';
import type { Monotonic } from '../../src/model/time.ts';
import type { DeliveryResult, EventHistory, HeldDelivery } from '../../src/ports/delivery-queue.ts';
import type { Batch, PositionPage } from '../../src/ports/event-log.ts';
import type { Store } from '../../src/ports/store.ts';
import { duplicatesOf } from './batches.ts';
import { allDead, reviveAll } from './dead-letters.ts';
import { START } from './harness.ts';
import type { Moment, Step, Way } from './histories.ts';
import { DESTINATIONS, END, nameOf, SLOT, userOf } from './histories.ts';
import { ALL, dead, delivered, dropped, type Holding, handedBack, heldFrom, retried } from './holdings.ts';
import { erase as eraseUser, FOR_EVER, findAll, keepUp } from './upkeep.ts';

/** One store on its way through a history. */
export interface Life {
  store: Store;
  readonly reopen: (store: Store) => Promise<Store>;
  /** The held deliveries, by destination and event: positions mean nothing to another store. */
  readonly held: Map<string, Holding>;
  readonly answers: Map<string, readonly (Position | undefined)[]>;
  /** How often something was owed once more. */
  origins: number;
}

/** The visible state of a store, in words that are the same for every adapter. */
export type Sight = Readonly<Record<string, unknown>>;

export function begin(store: Store, reopen: Life['reopen']): Life {
  return { store, reopen, held: new Map(), answers: new Map(), origins: 0 };
}

/** Plays one step; resolves to its result and to the books afterwards. */
export async function live(life: Life, moment: Moment): Promise<Sight> {
  const outcome = await act(life, moment);
  return { outcome, books: await booksOf(life.store, moment.now) };
}

/** Delivers all remaining events; none may be missing then. */
export async function drain(life: Life): Promise<Sight> {
  for (const destination of DESTINATIONS) await claimAll(life, destination, END);
  const { ignored } = await life.store.queue.settle([...life.held.values()].map(delivered));
  return { ignored, books: await booksOf(life.store, END) };
}

async function act(life: Life, { now, step, batch }: Moment): Promise<unknown> {
  switch (step.kind) {
    case 'append':
    case 'append again':
      return batch === undefined ? 'nothing to append again' : await append(life, batch);
    case 'claim':
      return await claimAll(life, step.destination, now);
    case 'settle':
      return await settle(life, step, now);
    case 'find':
      return await find(life, step, now);
    case 'revive':
      return await revive(life, step, now);
    case 'owe':
      return await owe(life, step, now);
    case 'erase':
      return await erase(life, step.user);
    case 'upkeep':
      return await keepUp(life.store, now, FOR_EVER);
    case 'pass':
      return 'time passed';
    case 'restart':
      return await restart(life);
  }
}

async function append(life: Life, batch: Batch): Promise<unknown> {
  const answer = await life.store.log.append(batch);
  const known = life.answers.get(batch.id);
  if (known !== undefined) {
    return { isSameAnswer: known.every((position, index) => position === answer.positions[index]) };
  }
  life.answers.set(batch.id, answer.positions);
  await hold(life, heldFrom(batch, answer));
  return { duplicates: duplicatesOf(answer), held: answer.held.map((set) => set !== undefined) };
}

/** Claims all due deliveries: the adapter chooses the order among equally due ones. */
async function claimAll(life: Life, destination: number, now: Monotonic): Promise<unknown> {
  const { deliveries, nextDueAt } = await life.store.queue.claim(destination, ALL, now);
  const names = await hold(
    life,
    deliveries.map((held: HeldDelivery) => ({ ...held, destination })),
  );
  const seen = deliveries.map(({ delivery, origin }, place) => ({
    ...{ ...delivery, origin, position: names[place] },
  }));
  seen.sort((a, b) =>
    JSON.stringify([a.position, a.origin]).localeCompare(JSON.stringify([b.position, b.origin])),
  );
  return { deliveries: seen, due: slotOf(nextDueAt, now) };
}

/**
 * Records the held deliveries by name. Dead letters of erased events can be owed again but have no name any
 * more: they are all alike and only counted.
 */
async function hold(life: Life, holdings: readonly Holding[]): Promise<string[]> {
  const names = await namesAt(
    life.store,
    holdings.map((holding) => holding.delivery.position),
  );
  return holdings.map((holding, place) => {
    const of = (event: string) => `${holding.destination}: ${event} ${holding.origin ?? ''}`;
    let name = of(names[place]!);
    for (let nth = 2; names[place] === GONE && life.held.has(name); nth++) name = of(`gone ${nth}`);
    if (life.held.has(name)) throw new Error(`handed out twice: ${name}`);
    life.held.set(name, holding);
    return name;
  });
}

/** The name of an event in every store. */
const GONE = 'gone';

async function namesAt(store: Store, positions: readonly Position[]): Promise<string[]> {
  const stored = await store.log.read(positions);
  return stored.map((one) =>
    one === undefined ? GONE : `${one.source}/${one.event.messageId} of ${one.event.receivedAt}`,
  );
}

async function settle(life: Life, step: Extract<Step, { kind: 'settle' }>, now: Monotonic): Promise<unknown> {
  const names = [...life.held.keys()].sort();
  const results: DeliveryResult[] = [];
  for (const { nth, way } of step.results) {
    const name = names[nth % Math.max(1, names.length)];
    const holding = name === undefined ? undefined : life.held.get(name);
    if (name === undefined || holding === undefined) continue;
    life.held.delete(name);
    results.push(resultOf(holding, way, now));
  }
  const first = await life.store.queue.settle(results);
  const second = step.twice ? await life.store.queue.settle(results) : undefined;
  return { first, second, results: results.length };
}

function resultOf(holding: Holding, way: Way, now: Monotonic): DeliveryResult {
  if (way.kind === 'delivered') return delivered(holding);
  if (way.kind === 'dead') return dead(holding, way.reason);
  if (way.kind === 'dropped') return dropped(holding, way.note, now);
  if (way.kind === 'hand back') return handedBack(holding, now + way.slots * SLOT + 1);
  const next: Partial<Delivery> = { firstFailedAt: holding.delivery.firstFailedAt ?? now };
  const mask =
    way.endpoints === 0 ? {} : { endpoints: way.endpoints, settingsVersion: 1 + (way.endpoints % 3) };
  return retried(holding, now + way.slots * SLOT + 1, { ...next, ...mask });
}

/** Enqueues a replay, and then a slice that was enqueued before, which changes nothing. */
async function owe(
  life: Life,
  { destination, nth }: Extract<Step, { kind: 'owe' }>,
  now: Monotonic,
): Promise<unknown> {
  const { log, queue: backlog, history } = life.store;
  const from = START + nth * SLOT;
  const positions: Position[] = [];
  for (let next: Position | undefined = 0; next !== undefined; ) {
    const found: PositionPage = await log.find({ from, to: from + SLOT, oldestFirst: true }, next);
    positions.push(...found.positions);
    next = found.next;
  }
  const origin = `r${++life.origins}`;
  const slice = { ...{ origin, destinations: [destination], positions, now }, from: 0, to: 1 };
  const owings = [await backlog.enqueue(slice), await backlog.enqueue(slice), await history.progress(origin)];
  return { names: await namesAt(life.store, positions), owings };
}

async function find(
  { store, origins }: Life,
  { what, nth }: Extract<Step, { kind: 'find' }>,
  now: Monotonic,
): Promise<unknown> {
  const from = START + nth * SLOT;
  const queries = {
    user: { userId: userOf(nth) },
    messageId: { messageId: nameOf(nth) },
    slot: { from, to: from + 2 * SLOT },
  };
  const positions = await findAll(store, queries[what]);
  const histories = await store.history.read(positions);
  return {
    names: await namesAt(store, positions),
    histories: histories.map((one) => told(one, now)).map(origins === 0 ? (one) => one : withoutChoice),
  };
}

/** Adds the dead letters, sorted here: an adapter may list those that died together in any order. */
async function revive(
  { store }: Life,
  { destination, reason }: Extract<Step, { kind: 'revive' }>,
  now: Monotonic,
): Promise<unknown> {
  const query = { destinations: [destination], ...(reason === undefined ? {} : { reason }) };
  const revived = await reviveAll(store, query, now);
  const letters = await allDead(store, { destinations: [destination] });
  const names = await namesAt(
    store,
    letters.map(({ position }) => position),
  );
  const told = letters.map(
    ({ state, reason, note, at }, nth) => `${names[nth]}: ${state} ${reason} ${note} at ${at}`,
  );
  return { revived, dead: told.sort() };
}

/** For an event owed to one destination several times, the adapter chooses which delivery it reports. */
function withoutChoice({ deliveries, skipped }: ReturnType<typeof told>): unknown {
  const ends = deliveries?.map(({ destination, attempts, state }) => ({
    ...{ destination, attempts, isPending: state === 'pending' || state === 'retrying' },
  }));
  return { deliveries: ends, skipped };
}

/** A history in words that are the same for every adapter. */
function told(history: EventHistory | undefined, now: Monotonic) {
  const deliveries = history?.deliveries.map(({ nextAttemptAt, ...rest }) => ({
    ...rest,
    due: slotOf(nextAttemptAt, now),
  }));
  return { deliveries, skipped: history?.skipped };
}

/**
 * Drops the held deliveries of erased events: they have no holder any more, and their results change nothing.
 */
async function erase(life: Life, user: string): Promise<unknown> {
  const events = await eraseUser(life.store, user);
  const held = [...life.held];
  const stored = await life.store.log.read(held.map(([, { delivery }]) => delivery.position));
  const gone = held.filter((_, place) => stored[place] === undefined);
  for (const [name] of gone) life.held.delete(name);
  const late = await life.store.queue.settle(gone.map(([, holding]) => delivered(holding)));
  return { events, late, gone: gone.map(([name]) => name).sort() };
}

async function restart(life: Life): Promise<unknown> {
  life.store = await life.reopen(life.store);
  const adopted = await life.store.queue.recoverOrphans();
  const held = life.held.size;
  life.held.clear();
  return { adopted, held };
}

/** Ledger and lanes, without the destinations and sources nothing was ever counted for. */
async function booksOf(store: Store, now: Monotonic): Promise<Sight> {
  const { sources, destinations } = await store.queue.ledger();
  const lanes = await store.queue.stats();
  return {
    events: (await store.log.size()).events,
    sources: counted(sources),
    destinations: counted(destinations),
    lanes: counted(
      lanes.map(({ destination, held, onDisk, retrying, nextDueAt }) => {
        const due = slotOf(nextDueAt, now);
        return [destination, { held, onDisk, retrying, ...(due === undefined ? {} : { due }) }];
      }),
    ),
  };
}

function counted(entries: Iterable<readonly [number, object]>): Sight {
  const isAnything = (value: unknown) =>
    typeof value === 'object' ? Object.keys(value ?? {}).length > 0 : value;
  return Object.fromEntries([...entries].filter(([, counts]) => Object.values(counts).some(isAnything)));
}

/** The slot in which a delivery is handed out: two adapters may round differently, but not across slots. */
function slotOf(dueAt: Monotonic | undefined, now: Monotonic): string | undefined {
  if (dueAt === undefined) return undefined;
  return dueAt <= now ? 'now' : `slot ${Math.ceil((dueAt - START) / SLOT)}`;
}
