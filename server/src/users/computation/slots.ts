import type { Json } from '../../model/json.ts';
import { type Duration, HOUR, type Time } from '../../model/time.ts';
import type { ByteReader, ByteWriter } from '../identity/byte-codec.ts';
import {
  accepts,
  addReduction,
  addSample,
  emptyReduction,
  type Reduction,
  type ReductionKind,
  readReduction,
  reducedValue,
  type Sample,
  writeReduction,
} from './reductions.ts';

/**
 * The state of a profile for one aggregate. Equal aggregates of several definitions share one slot. A state
 * is a function of the set of events that were added to it, whatever their order and the merges between them.
 *
 * A window drops events that are older than the newest one by more than the window's length: they can never
 * count again.
 */
export type SlotState = Reduction | TimesState | BucketsState;

/** Kind of a slot: its window and its reduction. */
export type SlotShape =
  | { readonly window: 'none'; readonly reduction: ReductionKind }
  /**
   * A count in a window that moves by the millisecond. With `buckets` it goes on in whole hours beyond `keep`
   * events.
   */
  | { readonly window: 'times'; readonly within: Duration; readonly keep: number; readonly buckets: boolean }
  | { readonly window: 'buckets'; readonly within: Duration; readonly reduction: ReductionKind };

/**
 * The newest times, ascending, at most `keep` of them. They decide exactly whether fewer than that lie in the
 * window.
 */
interface TimesState {
  readonly kind: 'times';
  readonly within: Duration;
  readonly keep: number;
  times: Time[];
  /** Counts everything; absent when the times suffice. */
  readonly buckets: BucketsState | undefined;
}

/** A reduction for each hour that has events, ascending. */
interface BucketsState {
  readonly kind: 'buckets';
  readonly within: Duration;
  readonly reduction: ReductionKind;
  buckets: Bucket[];
}

interface Bucket {
  /** Whole hours since 1970. */
  readonly number: number;
  readonly state: Reduction;
}

/** Stored by index, so new kinds go to the end. */
const REDUCTION_KINDS = [
  'count',
  'sum',
  'min',
  'max',
  'first',
  'last',
  'mode',
  'unique',
  'unique_count',
] as const satisfies readonly ReductionKind[];
const TIMES = REDUCTION_KINDS.length;
const TIMES_AND_BUCKETS = TIMES + 1;
const BUCKETS = TIMES + 2;

const STORED_AS = Object.fromEntries(REDUCTION_KINDS.map((kind, i) => [kind, i])) as Record<
  ReductionKind,
  number
>;

export function emptySlot(shape: SlotShape): SlotState {
  switch (shape.window) {
    case 'none':
      return emptyReduction(shape.reduction);
    case 'times': {
      const { within, keep } = shape;
      const buckets = shape.buckets ? emptyBuckets(within, 'count') : undefined;
      return { kind: 'times', within, keep, times: [], buckets };
    }
    case 'buckets':
      return emptyBuckets(shape.within, shape.reduction);
  }
}

/** Tells whether an event with this sample counts in such a slot. */
export function isCounted(shape: SlotShape, sample: Sample): boolean {
  return accepts(shape.window === 'times' ? 'count' : shape.reduction, sample);
}

/** Adds a sample that `isCounted` admits. */
export function addToSlot(slot: SlotState, sample: Sample): void {
  if (slot.kind === 'times') {
    insertTime(slot.times, sample.at);
    if (slot.times.length > slot.keep || slot.times[0]! + slot.within <= slot.times.at(-1)!) trimTimes(slot);
    if (slot.buckets !== undefined) addToSlot(slot.buckets, sample);
  } else if (slot.kind === 'buckets') {
    addSample(bucketOf(slot, Math.floor(sample.at / HOUR)), sample);
    trimBuckets(slot);
  } else addSample(slot, sample);
}

/**
 * The slot of a profile made of two. May change and return `a`; `b` stays as it is. Both are slots of one
 * number and so of one shape.
 */
export function mergeSlot(a: SlotState, b: SlotState): SlotState {
  if (a.kind === 'times' && b.kind === 'times') {
    for (const time of b.times) insertTime(a.times, time);
    trimTimes(a);
    if (a.buckets !== undefined && b.buckets !== undefined) mergeSlot(a.buckets, b.buckets);
  } else if (a.kind === 'buckets' && b.kind === 'buckets') {
    for (const { number, state } of b.buckets) addReduction(bucketOf(a, number), state);
    trimBuckets(a);
  } else if (a.kind !== 'times' && a.kind !== 'buckets' && b.kind !== 'times' && b.kind !== 'buckets') {
    addReduction(a, b);
  }
  return a;
}

/**
 * The value of a slot at a time; undefined when no event has one. Of a count that knows only its newest
 * times, at most their number.
 */
export function slotValue(slot: SlotState, now: Time, asAverage = false): Json | undefined {
  if (slot.kind === 'times') {
    const inWindow = slot.times.length - firstInWindow(slot, now);
    if (slot.buckets === undefined || inWindow < slot.keep) return inWindow;
    return slotValue(slot.buckets, now) as number;
  }
  if (slot.kind !== 'buckets') return reducedValue(slot, asAverage);
  const oldest = oldestBucket(slot.within, now);
  const total = emptyReduction(slot.reduction);
  for (let i = slot.buckets.length - 1; i >= 0 && slot.buckets[i]!.number >= oldest; i--) {
    addReduction(total, slot.buckets[i]!.state);
  }
  return reducedValue(total, asAverage);
}

/** The next time at which an event leaves the window, if none comes. */
export function nextLeaving(slot: SlotState, now: Time): Time | undefined {
  if (slot.kind === 'times') {
    const oldest = slot.times[firstInWindow(slot, now)];
    const exact = oldest === undefined ? undefined : oldest + slot.within;
    if (slot.buckets === undefined) return exact;
    const next = nextLeaving(slot.buckets, now);
    return exact === undefined || (next !== undefined && next < exact) ? next : exact;
  }
  if (slot.kind !== 'buckets') return undefined;
  const oldest = oldestBucket(slot.within, now);
  const bucket = slot.buckets.find(({ number }) => number >= oldest);
  return bucket === undefined ? undefined : (bucket.number + 1 + Math.ceil(slot.within / HOUR)) * HOUR;
}

/**
 * The next time at which a test of an exact count changes its result, if no event comes. It looks at the
 * newest times alone and so is for slots without buckets.
 */
export function nextFlip(slot: SlotState, now: Time, test: (count: number) => boolean): Time | undefined {
  if (slot.kind !== 'times') return nextLeaving(slot, now);
  const first = firstInWindow(slot, now);
  const before = test(slot.times.length - first);
  for (let i = first; i < slot.times.length; i++) {
    // Several events of one time leave together.
    if (slot.times[i] === slot.times[i + 1]) continue;
    if (test(slot.times.length - i - 1) !== before) return slot.times[i]! + slot.within;
  }
  return undefined;
}

export function writeSlot(writer: ByteWriter, slot: SlotState): void {
  if (slot.kind === 'times') {
    writer.varint(slot.buckets === undefined ? TIMES : TIMES_AND_BUCKETS);
    writer.varint(slot.within);
    writer.varint(slot.keep);
    writer.varint(slot.times.length);
    for (let i = 0; i < slot.times.length; i++) {
      if (i === 0) writer.time(slot.times[0]!);
      else writer.varint(slot.times[i]! - slot.times[i - 1]!);
    }
    if (slot.buckets !== undefined) writeBuckets(writer, slot.buckets);
  } else if (slot.kind === 'buckets') {
    writer.varint(BUCKETS);
    writer.varint(slot.within);
    writer.varint(STORED_AS[slot.reduction]);
    writeBuckets(writer, slot);
  } else {
    writer.varint(STORED_AS[slot.kind]);
    writeReduction(writer, slot);
  }
}

/** Reads what `writeSlot` wrote. Throws a `RangeError` for other bytes. */
export function readSlot(reader: ByteReader): SlotState {
  const stored = reader.varint();
  if (stored === TIMES || stored === TIMES_AND_BUCKETS) {
    const within = reader.varint();
    const keep = reader.varint();
    const times: Time[] = [];
    for (let left = reader.varint(); left > 0; left--) {
      times.push(times.length === 0 ? reader.time() : times.at(-1)! + reader.varint());
    }
    const buckets = stored === TIMES ? undefined : emptyBuckets(within, 'count');
    if (buckets !== undefined) readBuckets(reader, buckets);
    return { kind: 'times', within, keep, times, buckets };
  }
  if (stored === BUCKETS) {
    const within = reader.varint();
    const state = emptyBuckets(within, reductionKind(reader.varint()));
    readBuckets(reader, state);
    return state;
  }
  return readReduction(reader, reductionKind(stored));
}

function emptyBuckets(within: Duration, reduction: ReductionKind): BucketsState {
  return { kind: 'buckets', within, reduction, buckets: [] };
}

function reductionKind(stored: number): ReductionKind {
  const kind = REDUCTION_KINDS[stored];
  if (kind === undefined) throw new RangeError(`unknown kind ${stored} of a slot`);
  return kind;
}

function writeBuckets(writer: ByteWriter, { buckets }: BucketsState): void {
  writer.varint(buckets.length);
  let last: number | undefined;
  for (const { number, state } of buckets) {
    if (last === undefined) writer.time(number);
    else writer.varint(number - last);
    last = number;
    writeReduction(writer, state);
  }
}

function readBuckets(reader: ByteReader, into: BucketsState): void {
  for (let left = reader.varint(); left > 0; left--) {
    const last = into.buckets.at(-1)?.number;
    const number = last === undefined ? reader.time() : last + reader.varint();
    into.buckets.push({ number, state: readReduction(reader, into.reduction) });
  }
}

/** Inserts a time. The search begins at the end, because late events are few. */
function insertTime(times: Time[], at: Time): void {
  let place = times.length;
  while (place > 0 && times[place - 1]! > at) place--;
  if (place === times.length) times.push(at);
  else times.splice(place, 0, at);
}

function trimTimes(slot: TimesState): void {
  const { times, keep, within } = slot;
  let first = Math.max(0, times.length - keep);
  const start = (times.at(-1) ?? 0) - within;
  while (first < times.length && times[first]! <= start) first++;
  if (first > 0) times.splice(0, first);
}

/** Index of the oldest time in the window. A time beyond `now` counts. */
function firstInWindow({ times, within }: TimesState, now: Time): number {
  const start = now - within;
  let first = times.length;
  while (first > 0 && times[first - 1]! > start) first--;
  return first;
}

/**
 * Number of the oldest bucket in the window: a bucket leaves when the youngest event that it may have is too
 * old.
 */
function oldestBucket(within: Duration, now: Time): number {
  return Math.floor(now / HOUR) - Math.ceil(within / HOUR);
}

function bucketOf({ buckets, reduction }: BucketsState, number: number): Reduction {
  let place = buckets.length;
  while (place > 0 && buckets[place - 1]!.number > number) place--;
  const there = buckets[place - 1];
  if (there?.number === number) return there.state;
  const state = emptyReduction(reduction);
  buckets.splice(place, 0, { number, state });
  return state;
}

function trimBuckets(slot: BucketsState): void {
  const { buckets, within } = slot;
  const newest = buckets.at(-1)?.number ?? 0;
  const oldest = newest - Math.ceil(within / HOUR);
  let first = 0;
  while (first < buckets.length && buckets[first]!.number < oldest) first++;
  if (first > 0) buckets.splice(0, first);
}
