import type { Json } from '../../model/json.ts';
import type { Time } from '../../model/time.ts';
import type { ByteReader, ByteWriter } from '../identity/byte-codec.ts';
import { addBillionths, type Billionths, fromBillionths, toBillionths } from './decimal.ts';

/**
 * The state that an aggregate keeps instead of its events. It is a function of the set of events alone: the
 * order of arrival and merges of profiles in between do not change it (spec/specification.md, "Computed
 * traits").
 */
export type Reduction =
  | { readonly kind: 'count'; events: number }
  /** For sums and averages. */
  | { readonly kind: 'sum'; numbers: number; sum: Billionths }
  | { readonly kind: 'min' | 'max'; value: number | undefined }
  | { readonly kind: 'first' | 'last'; value: Sighting | undefined }
  | FrequencyTable
  /** The least values, ascending. */
  | { readonly kind: 'unique'; values: Plain[] }
  /** The least hashes of values, ascending. */
  | { readonly kind: 'unique_count'; hashes: number[] };

export type ReductionKind = Reduction['kind'];

/**
 * Counts of each value, the values ascending. Empty for good once there were more than `MAX_FREQUENCIES`
 * values.
 */
interface FrequencyTable {
  readonly kind: 'mode';
  values: Plain[];
  counts: number[];
  isOverfull: boolean;
}

/**
 * A value with the time and messageId of its event. At equal times the greater messageId is the later event.
 */
interface Sighting {
  readonly at: Time;
  readonly messageId: string;
  readonly value: Plain;
}

/** A value that a list, a frequency table, or a first or last value may have. */
export type Plain = string | number | boolean;

/** The contribution of one event to a reduction. */
export interface Sample {
  readonly at: Time;
  readonly messageId: string;
  /** The property that is reduced. */
  readonly value: Json | undefined;
}

/**
 * Longest list of different values. It keeps the least ones, because the first ones would depend on the order
 * of arrival.
 */
export const MAX_UNIQUE = 100;
/** With more different values than this there is no most frequent one. */
export const MAX_FREQUENCIES = 200;
/**
 * Up to this many different values their number is exact; beyond, it is estimated with a standard error of
 * some 6 %.
 */
export const MAX_HASHES = 256;
/** Longest text that is kept, in UTF-16 units. */
export const MAX_TEXT = 1000;

export function emptyReduction(kind: ReductionKind): Reduction {
  switch (kind) {
    case 'count':
      return { kind, events: 0 };
    case 'sum':
      return { kind, numbers: 0, sum: 0 };
    case 'min':
    case 'max':
    case 'first':
    case 'last':
      return { kind, value: undefined };
    case 'mode':
      return { kind, values: [], counts: [], isOverfull: false };
    case 'unique':
      return { kind, values: [] };
    case 'unique_count':
      return { kind, hashes: [] };
  }
}

/**
 * Tells whether an event with this sample counts: a reduction of numbers takes numbers, the others texts,
 * numbers and booleans.
 */
export function accepts(kind: ReductionKind, { value }: Sample): boolean {
  switch (kind) {
    case 'count':
      return true;
    case 'sum':
    case 'min':
    case 'max':
      return typeof value === 'number' && Math.abs(value) < 1e21;
    default:
      return isPlain(value);
  }
}

/** Adds a sample that `accepts` admits. */
export function addSample(to: Reduction, { at, messageId, value }: Sample): void {
  switch (to.kind) {
    case 'count':
      to.events++;
      break;
    case 'sum':
      to.numbers++;
      to.sum = addBillionths(to.sum, toBillionths(value as number) ?? 0);
      break;
    case 'min':
    case 'max':
      takeExtreme(to, value as number);
      break;
    case 'first':
    case 'last':
      takeSighting(to, { at, messageId: messageId.toWellFormed(), value: withoutSign(value as Plain) });
      break;
    case 'mode':
      addFrequency(to, withoutSign(value as Plain), 1);
      break;
    case 'unique':
      insertLeast(to.values, withoutSign(value as Plain), MAX_UNIQUE);
      break;
    case 'unique_count':
      insertLeast(to.hashes, hashOf(withoutSign(value as Plain)), MAX_HASHES);
      break;
  }
}

/**
 * Adds what `from` counted to `to`. `from` stays as it is. Both must be of one kind; otherwise nothing is
 * added.
 */
export function addReduction(to: Reduction, from: Reduction): void {
  if (to.kind === 'count' && from.kind === 'count') to.events += from.events;
  else if (to.kind === 'sum' && from.kind === 'sum') {
    to.numbers += from.numbers;
    to.sum = addBillionths(to.sum, from.sum);
  } else if (to.kind === 'mode' && from.kind === 'mode') {
    if (from.isOverfull) overfill(to);
    for (let i = 0; i < from.values.length; i++) addFrequency(to, from.values[i]!, from.counts[i]!);
  } else if (to.kind === 'unique' && from.kind === 'unique') {
    for (const value of from.values) insertLeast(to.values, value, MAX_UNIQUE);
  } else if (to.kind === 'unique_count' && from.kind === 'unique_count') {
    for (const hash of from.hashes) insertLeast(to.hashes, hash, MAX_HASHES);
  } else if ((to.kind === 'min' || to.kind === 'max') && from.kind === to.kind) {
    if (from.value !== undefined) takeExtreme(to, from.value);
  } else if ((to.kind === 'first' || to.kind === 'last') && from.kind === to.kind) {
    if (from.value !== undefined) takeSighting(to, from.value);
  }
}

/** The value of a reduction; undefined when no event has one. `avg` and `sum` share a reduction. */
export function reducedValue(reduction: Reduction, asAverage = false): Json | undefined {
  switch (reduction.kind) {
    case 'count':
      return reduction.events;
    case 'sum':
      if (reduction.numbers === 0) return undefined;
      return asAverage ? average(reduction.sum, reduction.numbers) : fromBillionths(reduction.sum);
    case 'min':
    case 'max':
      return reduction.value;
    case 'first':
    case 'last':
      return reduction.value?.value;
    case 'mode':
      return mostFrequent(reduction);
    case 'unique':
      return reduction.values.length === 0 ? undefined : [...reduction.values];
    case 'unique_count':
      return differentValues(reduction.hashes);
  }
}

export function writeReduction(writer: ByteWriter, reduction: Reduction): void {
  switch (reduction.kind) {
    case 'count':
      writer.varint(reduction.events);
      break;
    case 'sum':
      writer.varint(reduction.numbers);
      writer.json(typeof reduction.sum === 'bigint' ? String(reduction.sum) : reduction.sum);
      break;
    case 'min':
    case 'max':
      writer.json(reduction.value ?? null);
      break;
    case 'first':
    case 'last':
      writer.json(reduction.value?.value ?? null);
      if (reduction.value === undefined) break;
      writer.time(reduction.value.at);
      writer.text(reduction.value.messageId);
      break;
    case 'mode':
      writer.varint(reduction.isOverfull ? 1 : 0);
      writeList(writer, reduction.values, (value) => writer.json(value));
      for (const count of reduction.counts) writer.varint(count);
      break;
    case 'unique':
      writeList(writer, reduction.values, (value) => writer.json(value));
      break;
    case 'unique_count':
      writeList(writer, reduction.hashes, (hash) => writer.varint(hash));
      break;
  }
}

/** Reads what `writeReduction` wrote of a reduction of this kind. */
export function readReduction(reader: ByteReader, kind: ReductionKind): Reduction {
  switch (kind) {
    case 'count':
      return { kind, events: reader.varint() };
    case 'sum': {
      const numbers = reader.varint();
      const sum = reader.json() as number | string;
      return { kind, numbers, sum: typeof sum === 'string' ? BigInt(sum) : sum };
    }
    case 'min':
    case 'max':
      return { kind, value: (reader.json() as number | null) ?? undefined };
    case 'first':
    case 'last': {
      const value = reader.json() as Plain | null;
      if (value === null) return { kind, value: undefined };
      return { kind, value: { at: reader.time(), messageId: reader.text(), value } };
    }
    case 'mode': {
      const isOverfull = reader.varint() === 1;
      const values = readList(reader, () => reader.json() as Plain);
      return { kind, isOverfull, values, counts: values.map(() => reader.varint()) };
    }
    case 'unique':
      return { kind, values: readList(reader, () => reader.json() as Plain) };
    case 'unique_count':
      return { kind, hashes: readList(reader, () => reader.varint()) };
  }
}

function writeList<T>(writer: ByteWriter, values: readonly T[], write: (value: T) => void): void {
  writer.varint(values.length);
  for (const value of values) write(value);
}

function readList<T>(reader: ByteReader, read: () => T): T[] {
  const values: T[] = [];
  for (let left = reader.varint(); left > 0; left--) values.push(read());
  return values;
}

function isPlain(value: Json | undefined): value is Plain {
  if (typeof value === 'string') return value.length <= MAX_TEXT;
  return typeof value === 'number' || typeof value === 'boolean';
}

/** Turns minus zero into zero: JSON has only one zero, and both are the same value. */
function withoutSign(value: Plain): Plain {
  return Object.is(value, -0) ? 0 : value;
}

function takeExtreme(to: Reduction & { kind: 'min' | 'max' }, value: number): void {
  if (to.value === undefined || (to.kind === 'min' ? value < to.value : value > to.value)) {
    to.value = value || 0;
  }
}

function takeSighting(to: Reduction & { kind: 'first' | 'last' }, sighting: Sighting): void {
  const order = to.value === undefined ? undefined : compareSightings(sighting, to.value);
  if (order === undefined || (to.kind === 'first' ? order < 0 : order > 0)) to.value = sighting;
}

/** Earlier first. The value decides between two sources that used one messageId at one time. */
function compareSightings(a: Sighting, b: Sighting): number {
  if (a.at !== b.at) return a.at - b.at;
  if (a.messageId !== b.messageId) return a.messageId < b.messageId ? -1 : 1;
  return comparePlain(a.value, b.value);
}

/** Booleans, then numbers by size, then texts by UTF-16 units. */
function comparePlain(a: Plain, b: Plain): number {
  if (a === b) return 0;
  if (typeof a === typeof b) return a < b ? -1 : 1;
  return typeof a < typeof b ? -1 : 1;
}

function addFrequency(table: FrequencyTable, value: Plain, times: number): void {
  if (table.isOverfull) return;
  const at = placeOf(table.values, value);
  if (table.values[at] === value) table.counts[at]! += times;
  else if (table.values.length >= MAX_FREQUENCIES) overfill(table);
  else {
    table.values.splice(at, 0, value);
    table.counts.splice(at, 0, times);
  }
}

function overfill(table: FrequencyTable): void {
  table.isOverfull = true;
  table.values = [];
  table.counts = [];
}

/** The value seen most often, and at least twice; of several such values the least. */
function mostFrequent({ values, counts }: FrequencyTable): Plain | undefined {
  let best = -1;
  for (let i = 0; i < counts.length; i++) if (counts[i]! >= 2 && counts[i]! > (counts[best] ?? 0)) best = i;
  return values[best];
}

/** Puts a value in its place of an ascending list of different values that keeps the `most` least ones. */
function insertLeast<T extends Plain>(values: T[], value: T, most: number): void {
  const at = placeOf(values, value);
  if (at >= most || values[at] === value) return;
  values.splice(at, 0, value);
  if (values.length > most) values.pop();
}

/** Index of the first value of an ascending list that is not below this one. */
function placeOf(values: readonly Plain[], value: Plain): number {
  let from = 0;
  let to = values.length;
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (comparePlain(values[middle]!, value) < 0) from = middle + 1;
    else to = middle;
  }
  return from;
}

const HASH_RANGE = 2 ** 53;

/**
 * Counts the hashes while there is room for all of them. Afterwards estimates: the greatest kept hash shows
 * how densely they lie.
 */
function differentValues(hashes: readonly number[]): number {
  if (hashes.length < MAX_HASHES) return hashes.length;
  return Math.round((MAX_HASHES - 1) / ((hashes.at(-1)! + 1) / HASH_RANGE));
}

/** An evenly spread number of 53 bits. Stored profiles depend on it: it never changes. */
function hashOf(value: Plain): number {
  const text = `${typeof value} ${value}`;
  let a = 0x9e3779b9;
  let b = 0x7f4a7c15;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    a = Math.imul(a ^ unit, 0x01000193);
    b = Math.imul(b + unit, 0x5bd1e995) ^ (b >>> 15);
  }
  return (scatter(a ^ (b >>> 7)) & 0x1fffff) * 2 ** 32 + scatter(b + Math.imul(a, 0x2545f491));
}

/** Spreads every bit over all 32. */
function scatter(value: number): number {
  value = Math.imul(value ^ (value >>> 16), 0x7feb352d);
  value = Math.imul(value ^ (value >>> 15), 0x846ca68b);
  return (value ^ (value >>> 16)) >>> 0;
}

function average(sum: Billionths, numbers: number): number {
  const scale = numbers * 1e9;
  if (typeof sum === 'number' && Number.isSafeInteger(scale)) return sum / scale;
  return fromBillionths(sum) / numbers;
}
