import { createHash } from 'node:crypto';
import type { Event, Position } from '../../model/event.ts';
import { type Json, type JsonObject, ownValue } from '../../model/json.ts';
import type { Time } from '../../model/time.ts';
import { type Clock, nextTurn } from '../../ports/clock.ts';
import type { StoredEvent } from '../../ports/event-log.ts';
import type { LogView } from '../../ports/store-view.ts';
import type { RegulationRequests } from '../../regulations/contract.ts';
import { Semaphore } from '../paginate.ts';
import {
  type Absence,
  type ComparisonRequest,
  type CountedApart,
  type Difference,
  type DifferenceExample,
  SIDES,
  type Side,
  type SourceComparison,
  TooManyUnmatched,
} from './contract.ts';
import { differencesOf, type EventPair, RETRIES_OVER, type RulesInForce } from './rules.ts';

interface ComparisonDependencies {
  readonly log: Pick<LogView, 'find' | 'read'>;
  /** Whether calls of this user are refused. */
  readonly isSuppressed: (userId: string) => Promise<boolean>;
  readonly now: () => Time;
  /** Resolves when it is the turn of such work; rejects when nobody waits for its end any more. */
  readonly turn: () => Promise<void>;
}

/** Compares one pair of sources after the other. */
export class Comparer {
  readonly #parts: ComparerParts;
  readonly #one = new Semaphore(1);

  constructor(parts: ComparerParts) {
    this.#parts = parts;
  }

  /** Resolves when no earlier comparison runs and this one has ended; rejects when nobody waits for it. */
  readonly compare = (request: ComparisonRequest, gone: AbortSignal): Promise<SourceComparison> => {
    const { log, clock, regulations } = this.#parts;
    const isSuppressed = async (userId: string) =>
      (await regulations.suppression(userId, 'user')) !== undefined;
    const turn = async () => {
      await nextTurn(clock);
      gone.throwIfAborted();
    };
    return this.#one.run(() => compareSources(request, { log, isSuppressed, now: () => clock.now(), turn }));
  };
}

interface ComparerParts {
  readonly log: Pick<LogView, 'find' | 'read'>;
  readonly clock: Pick<Clock, 'now' | 'turn'>;
  readonly regulations: Pick<RegulationRequests, 'suppression'>;
}

/** Bytes of calls that may wait for those of the other side, as they are stored. */
const MOST_UNMATCHED_BYTES = 64 * 1024 * 1024;

/** Memory that a call takes beside its bytes. */
const CALL_BYTES = 500;

const EXAMPLES = 3;
/** Groups that are told. */
const MOST_GROUPS = 200;
/** Groups that are counted. Names of fields may be anything. */
const MOST_COUNTED = 10_000;
const PAGE = 256;

/**
 * Compares what two sources have of the same calls. It reads both in the order of their arrival, side by
 * side, and keeps the calls whose partner has not come yet. Those that are left in the end are looked for by
 * their messageIds outside the range, and then by their contents.
 */
async function compareSources(
  request: ComparisonRequest,
  dependencies: ComparisonDependencies,
): Promise<SourceComparison> {
  const run = new ComparisonRun(request, dependencies);
  await run.match();
  await run.settleUnmatched();
  return run.result();
}

class ComparisonRun {
  readonly #request: ComparisonRequest;
  readonly #dependencies: ComparisonDependencies;
  readonly #tally: Tally;
  readonly #waiting: Readonly<Record<Side, UnmatchedCalls>> = {
    there: new UnmatchedCalls(),
    here: new UnmatchedCalls(),
  };
  #waitingBytes = 0;

  constructor(request: ComparisonRequest, dependencies: ComparisonDependencies) {
    this.#request = request;
    this.#dependencies = dependencies;
    this.#tally = new Tally(request.rules);
  }

  /** Reads both sides, always that which is behind. */
  async match(): Promise<void> {
    const { there, here } = this.#request;
    const sides = { there: this.#eventsOf(there), here: this.#eventsOf(here) };
    const next = { there: await sides.there.next(), here: await sides.here.next() };
    while (next.there.done !== true || next.here.done !== true) {
      const side = sideToRead(next);
      this.#take(side, next[side].value as Call);
      next[side] = await sides[side].next();
    }
  }

  async *#eventsOf(source: number): AsyncGenerator<Call, undefined> {
    const { log, turn } = this.#dependencies;
    const { from, to } = this.#request;
    const query = { from, to, like: { source }, oldestFirst: true as const };
    for (let place: Position | undefined; ; ) {
      await turn();
      const { positions, next } = await log.find(query, place);
      for (let at = 0; at < positions.length; at += PAGE) {
        await turn();
        const stored = await log.read(positions.slice(at, at + PAGE));
        for (const one of stored) if (this.#isWanted(one, source)) yield callOf(one);
      }
      if (next === undefined) return undefined;
      place = next;
    }
  }

  #isWanted(stored: StoredEvent | undefined, source: number): stored is StoredEvent {
    if (stored === undefined) this.#tally.unreadable++;
    return stored !== undefined && stored.source === source && stored.event.type !== 'delete';
  }

  #take(side: Side, call: Call): void {
    const partner = this.#waiting[otherOf(side)].take(call.event.messageId);
    if (partner !== undefined) {
      this.#waitingBytes -= partner.bytes;
      this.#tally.pair(pairOf(side, call.event, partner.event));
      return;
    }
    this.#waiting[side].add(call);
    this.#waitingBytes += call.bytes;
    if (this.#waitingBytes > MOST_UNMATCHED_BYTES) throw new TooManyUnmatched();
  }

  /** Calls whose partner is not in the range: it may have come before or after, or is not there. */
  async settleUnmatched(): Promise<void> {
    for (const side of SIDES)
      for (const event of this.#waiting[side].events()) {
        const partner = await this.#findOutside(event.messageId, this.#request[otherOf(side)]);
        if (partner === undefined) continue;
        this.#waiting[side].take(event.messageId);
        this.#tally.pair(pairOf(side, event, partner));
      }
    if (this.#request.rules.has('messageIds')) this.#matchByContents();
    for (const side of SIDES)
      for (const event of this.#waiting[side].events()) await this.#tellUnmatched(side, event);
  }

  async #findOutside(messageId: string, source: number): Promise<Event | undefined> {
    const { log, turn } = this.#dependencies;
    await turn();
    const { positions } = await log.find({ messageId });
    const found = await log.read(positions);
    return found.find((one) => one?.source === source && one.event.messageId === messageId)?.event;
  }

  #matchByContents(): void {
    const byContents = Map.groupBy(this.#waiting.there.events(), contentsOf);
    for (const here of this.#waiting.here.events()) {
      const there = byContents.get(contentsOf(here))?.pop();
      if (there === undefined) continue;
      this.#waiting.here.take(here.messageId);
      this.#waiting.there.take(there.messageId);
      this.#tally.pair({ there: { ...there, messageId: here.messageId }, here });
    }
  }

  async #tellUnmatched(side: Side, event: Event): Promise<void> {
    const { now, isSuppressed } = this.#dependencies;
    const { rules } = this.#request;
    const missing = otherOf(side);
    if (rules.has('kinds')) {
      if (isComputed(event)) return this.#tally.apart('computed');
      const { userId } = event;
      if (missing === 'here' && userId !== undefined && (await isSuppressed(userId)))
        return this.#tally.apart('suppressed');
    }
    const isRecent = Date.parse(event.receivedAt) > now() - RETRIES_OVER;
    if (rules.has('waiting') && isRecent) this.#tally.waiting++;
    else this.#tally.absent(missing, event);
  }

  result(): SourceComparison {
    return this.#tally.result();
  }
}

/** A call with about the memory that it takes. */
interface Call {
  readonly event: Event;
  readonly bytes: number;
}

/**
 * Calls of one side that wait for their partners. A source may have a messageId twice, where its dedupe
 * window was over in between.
 */
class UnmatchedCalls {
  readonly #byId = new Map<string, Call[]>();

  add(call: Call): void {
    const { messageId } = call.event;
    const same = this.#byId.get(messageId);
    if (same === undefined) this.#byId.set(messageId, [call]);
    else same.push(call);
  }

  /** Takes the first call with this messageId out. */
  take(messageId: string): Call | undefined {
    const same = this.#byId.get(messageId);
    const call = same?.shift();
    if (same?.length === 0) this.#byId.delete(messageId);
    return call;
  }

  /** All of them now, in the order of their arrival. */
  events(): Event[] {
    return [...this.#byId.values()].flatMap((calls) => calls.map(({ event }) => event));
  }
}

function callOf({ event, line }: StoredEvent): Call {
  return { event, bytes: CALL_BYTES + (line === undefined ? 0 : line.to - line.from) };
}

function sideToRead(next: Readonly<Record<Side, IteratorResult<Call, undefined>>>): Side {
  if (next.there.done === true) return 'here';
  if (next.here.done === true) return 'there';
  return next.there.value.event.receivedAt <= next.here.value.event.receivedAt ? 'there' : 'here';
}

function otherOf(side: Side): Side {
  return side === 'there' ? 'here' : 'there';
}

function pairOf(side: Side, event: Event, partner: Event): EventPair {
  return side === 'there' ? { there: event, here: partner } : { there: partner, here: event };
}

/** Whether an audience or computed trait made the event, here or there. */
function isComputed({ messageId, context }: Event): boolean {
  return messageId.startsWith('personas_') || ownValue(context, 'personas') !== undefined;
}

/** A text that is the same for two events of one call, whatever messageIds they were given. */
function contentsOf(event: Event): string {
  const { type, userId, anonymousId, previousId, groupId, event: action, name } = event;
  const time = event.originalTimestamp ?? event.timestamp;
  const contents = sorted([event.properties, event.traits, event.integrations]);
  return createHash('sha256')
    .update(JSON.stringify([type, userId, anonymousId, previousId, groupId, action, name, time, contents]))
    .digest('base64');
}

/** A value with the keys of its objects in order, and without null. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value as JsonObject).filter(([, one]) => one !== null);
  return entries.sort(([one], [other]) => (one < other ? -1 : 1)).map(([key, one]) => [key, sorted(one)]);
}

/** Counters of a comparison. */
class Tally {
  readonly #rules: RulesInForce;
  readonly #differences = new Map<string, Difference & { count: number; examples: DifferenceExample[] }>();
  readonly #absences = new Map<string, Absence & { count: number; messageIds: string[] }>();
  readonly #missing: Record<Side, number> = { there: 0, here: 0 };
  readonly #apart: Record<CountedApart, number> = { computed: 0, suppressed: 0, protocols: 0 };
  #equal = 0;
  #different = 0;
  #isCut = false;
  waiting = 0;
  unreadable = 0;

  constructor(rules: RulesInForce) {
    this.#rules = rules;
  }

  pair(pair: EventPair): void {
    const all = differencesOf(pair, this.#rules);
    const fields = this.#rules.has('kinds') ? all.filter((field) => !isOfPlan(field)) : all;
    if (fields.length === 0) {
      this.#equal++;
      if (all.length > 0) this.#apart.protocols++;
      return;
    }
    this.#different++;
    for (const field of fields) this.#note(field, pair);
  }

  #note(field: string, { there, here }: EventPair): void {
    const event = labelOf(here);
    const group = this.#group(this.#differences, `${event}\0${field}`, () => ({
      ...{ event, field, count: 0, examples: [] },
    }));
    if (group === undefined) return;
    group.count++;
    if (group.examples.length < EXAMPLES) {
      const { messageId } = here;
      group.examples.push({ messageId, there: valueAt(there, field), here: valueAt(here, field) });
    }
  }

  absent(missing: Side, found: Event): void {
    this.#missing[missing]++;
    const event = labelOf(found);
    const group = this.#group(this.#absences, `${missing}\0${event}`, () => ({
      ...{ event, missing, count: 0, messageIds: [] },
    }));
    if (group === undefined) return;
    group.count++;
    if (group.messageIds.length < EXAMPLES) group.messageIds.push(found.messageId);
  }

  apart(kind: CountedApart): void {
    this.#apart[kind]++;
  }

  #group<Group>(groups: Map<string, Group>, key: string, make: () => Group): Group | undefined {
    let group = groups.get(key);
    if (group !== undefined) return group;
    if (groups.size >= MOST_COUNTED) {
      this.#isCut = true;
      return undefined;
    }
    group = make();
    groups.set(key, group);
    return group;
  }

  result(): SourceComparison {
    const most = <Group extends { readonly count: number }>(groups: ReadonlyMap<string, Group>) =>
      [...groups.values()].sort((one, other) => other.count - one.count).slice(0, MOST_GROUPS);
    return {
      ...{ equal: this.#equal, different: this.#different, missing: { ...this.#missing } },
      ...{ waiting: this.waiting, apart: { ...this.#apart }, unreadable: this.unreadable },
      ...{ differences: most(this.#differences), absences: most(this.#absences) },
      isCut: this.#isCut || this.#differences.size > MOST_GROUPS || this.#absences.size > MOST_GROUPS,
    };
  }
}

/** Whether a tracking plan of the other service adds this field to a call. */
function isOfPlan(field: string): boolean {
  return field === 'context.protocols' || field.startsWith('context.protocols.');
}

/** Type and name. A name may be as long as a call. */
function labelOf({ type, event, name }: Event): string {
  const label = event ?? name;
  return label === undefined ? type : `${type} ${label.slice(0, 200)}`;
}

/** The value of a field whose path `differencesOf` has told: a key may have dots in it. */
function valueAt(event: Event, path: string): Json | undefined {
  let value: Json | undefined = event as JsonObject;
  for (let rest = path; rest !== '' && typeof value === 'object' && value !== null; ) {
    const keys: string[] = Object.keys(value);
    const key = keys.find((one) => rest === one || rest.startsWith(`${one}.`));
    if (key === undefined) return undefined;
    value = (value as JsonObject)[key];
    rest = rest.slice(key.length + 1);
  }
  return value;
}
