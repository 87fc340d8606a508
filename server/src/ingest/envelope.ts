import type catalogue from '../../../spec/errors.json';
import type { CallType } from '../model/event.ts';
import { isObject, type Json, type JsonObject } from '../model/json.ts';
import { DAY, HOUR, MINUTE, SECOND, type Time } from '../model/time.ts';
import type { IngestRequest } from '../ports/ingest.ts';
import type { ClockErrorCounts } from '../ports/telemetry.ts';

/** Why a call is not accepted: the name in the ledger, and the answer to a request with this call alone. */
export type DiscardReason = keyof typeof catalogue.discard;

/** Why a whole request is refused. */
export type RefusalCode = keyof typeof catalogue.request | DiscardReason;

/** Everything that the calls of one request share. */
export interface Envelope {
  readonly type: CallType | 'batch';
  readonly receivedAt: Time;
  readonly receivedAtText: string;
  /** Merged into each call of the batch. */
  readonly context: JsonObject | undefined;
  readonly integrations: JsonObject | undefined;
  /** For calls without their own; `NaN` when there is none. */
  readonly sentAt: Time;
  readonly sentAtText: string | undefined;
  readonly newMessageId: () => string;
  readonly peer: IngestRequest['peer'];
  readonly numbers: NumberLiterals;
  /** Counts of the calls read so far. */
  readonly clock: { -readonly [Count in keyof ClockErrorCounts]: ClockErrorCounts[Count] };
}

export interface RequestText {
  readonly request: IngestRequest;
  /** The body as a string. */
  readonly text: string;
  readonly newMessageId: () => string;
}

/** The envelope of a single call, which shares nothing with others. */
export function singleEnvelope({ request, text, newMessageId }: RequestText): Envelope {
  return {
    type: request.type,
    receivedAt: request.receivedAt,
    receivedAtText: formatTime(request.receivedAt),
    context: undefined,
    integrations: undefined,
    sentAt: Number.NaN,
    sentAtText: undefined,
    newMessageId,
    peer: request.peer,
    numbers: new NumberLiterals(text),
    clock: { unparseable: 0, skewed: 0 },
  };
}

/** The envelope of a batch, or why it is wrong. `timestamp` and `messageId` of a batch mean nothing and are not read. */
export function batchEnvelope(body: JsonObject, request: RequestText): Envelope | DiscardReason {
  const { context = null, integrations = null, sentAt = null } = body;
  if (context !== null && !isObject(context)) return 'context_not_object';
  if (integrations !== null && !isObject(integrations)) return 'integrations_not_object';
  const time = sentAt === null ? Number.NaN : readTime(sentAt);
  const single = singleEnvelope(request);
  return {
    ...single,
    context: context ?? undefined,
    integrations: integrations ?? undefined,
    sentAt: time,
    sentAtText: Number.isNaN(time) ? undefined : formatTime(time),
    clock: { unparseable: sentAt !== null && Number.isNaN(time) ? 1 : 0, skewed: 0 },
  };
}

/** The fields with an id. */
export type IdField = 'userId' | 'anonymousId' | 'previousId' | 'groupId' | 'messageId';

const ID_FIELDS: ReadonlySet<string> = new Set<IdField>([
  'userId',
  'anonymousId',
  'previousId',
  'groupId',
  'messageId',
]);

/**
 * The numbers of a body as they were written. `JSON.parse` rounds integers beyond 2^53, which would make one user of two whose
 * 64-bit ids differ in the last digits. Such ids are rare: the body is parsed a second time only when one is met, and only once.
 */
export class NumberLiterals {
  readonly #text: string;
  #ids: Map<unknown, Map<string, string>> | undefined;
  #root: Json = null;
  /** The index in `batch` of the call being read; −1 when the body itself is the call. */
  index = -1;

  constructor(text: string) {
    this.#text = text;
  }

  /** Decimal digits of an integer id of the call at `index`; undefined when it is written with a fraction or an exponent. */
  digitsOf(field: IdField): string | undefined {
    this.#ids ??= this.#read();
    return this.#ids.get(this.#call())?.get(field);
  }

  #call(): Json | undefined {
    if (this.index < 0 || !isObject(this.#root)) return this.#root;
    const { batch } = this.#root;
    return Array.isArray(batch) ? batch[this.index] : undefined;
  }

  #read(): Map<unknown, Map<string, string>> {
    const ids = new Map<unknown, Map<string, string>>();
    try {
      this.#root = JSON.parse(
        this.#text,
        function (this: unknown, key, value, ...[context]: { source?: string }[]) {
          if (isIdField(key) && typeof value === 'number' && /^-?\d+$/.test(context?.source ?? '')) {
            ids.set(this, (ids.get(this) ?? new Map()).set(key, context?.source));
          }
          return value;
        },
      );
    } catch {
      // The body was parsed before: it is now nested too deep for the reviver. Its large ids stay unread.
      ids.clear();
    }
    return ids;
  }
}

function isIdField(key: string): boolean {
  return ID_FIELDS.has(key);
}

/** The years 0000 to 9999, which four digits can write. */
const EARLIEST: Time = -62_167_219_200_000;
const LATEST: Time = 253_402_300_799_999;

/** Longer texts are no times. The limit keeps the pattern below cheap for every text. */
const LONGEST_TEXT = 64;

/**
 * ISO 8601 as clients write it: months and days of one digit (`2015-2-02` stands in Segment's documentation), any number of
 * fractional digits, offsets with and without a colon, a blank instead of `T`, or a date alone. spec/specification.md,
 * "Timestamp formats".
 */
const WRITTEN =
  /^(\d{4})-(\d{1,2})-(\d{1,2})(?:[Tt ](\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d+))?)? ?(Z|z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?)?$/;

const ZERO = 48;
const DASH = 45;
const COLON = 58;
const DOT = 46;
const UPPER_T = 84;
const UPPER_Z = 90;

/** Larger than every limit it is compared with. */
const NOT_DIGITS = 100_000;

/**
 * Reads a client's time. A number is milliseconds since 1970, a text is ISO 8601, and a text without a zone is UTC. `NaN` when it
 * cannot be read or its year does not have four digits.
 */
export function readTime(value: Json): Time {
  if (typeof value === 'string') {
    const time = readCanonical(value);
    return Number.isNaN(time) ? readWritten(value) : time;
  }
  return typeof value === 'number' ? withinRange(Math.floor(value)) : Number.NaN;
}

/** Reads exactly `YYYY-MM-DDTHH:mm:ss.sssZ`, which most clients send and which we write; `NaN` for anything else. */
export function readCanonical(text: string): Time {
  if (text.length !== CANONICAL_LENGTH) return Number.NaN;
  for (let at = 0; at < CANONICAL_LENGTH; at++) {
    // A larger unit, stored in a byte, would look like another character.
    const unit = text.charCodeAt(at);
    characters[at] = unit < 128 ? unit : 0;
  }
  return readCharacters(characters);
}

const CANONICAL_LENGTH = 24;
const characters = new Uint8Array(CANONICAL_LENGTH);

function readCharacters(text: Uint8Array): Time {
  if (
    text[4] !== DASH ||
    text[7] !== DASH ||
    text[10] !== UPPER_T ||
    text[13] !== COLON ||
    text[16] !== COLON ||
    text[19] !== DOT ||
    text[23] !== UPPER_Z
  ) {
    return Number.NaN;
  }
  const year = twoDigits(text, 0) * 100 + twoDigits(text, 2);
  const day = daysSinceEpoch(year, twoDigits(text, 5), twoDigits(text, 8));
  const hour = twoDigits(text, 11);
  const minute = twoDigits(text, 14);
  const second = twoDigits(text, 17);
  const millis = twoDigits(text, 20) * 10 + digit(text, 22);
  if (hour > 23 || minute > 59 || second > 59 || millis > 999) return Number.NaN;
  return day * DAY + hour * HOUR + minute * MINUTE + second * SECOND + millis;
}

/** Seconds may be 60, as in a leap second, which becomes the first second of the next minute. */
function readWritten(text: string): Time {
  const parts = text.length > LONGEST_TEXT ? null : WRITTEN.exec(text.trim());
  if (parts === null) return Number.NaN;
  const day = daysSinceEpoch(Number(parts[1]), Number(parts[2]), Number(parts[3]));
  const hour = Number(parts[4] ?? 0);
  const minute = Number(parts[5] ?? 0);
  const second = Number(parts[6] ?? 0);
  if (hour > 23 || minute > 59 || second > 60) return Number.NaN;
  const millis = Number((parts[7] ?? '').slice(0, 3).padEnd(3, '0'));
  const time = day * DAY + hour * HOUR + minute * MINUTE + second * SECOND + millis;
  return withinRange(time - offsetOf(parts[8]));
}

/** The offset in milliseconds, positive east of Greenwich; `NaN` when it is none. */
function offsetOf(zone: string | undefined): number {
  if (zone === undefined || !/^[+-]/.test(zone)) return 0;
  const hours = Number(zone.slice(1, 3));
  const minutes = Number(zone.slice(3).replace(':', ''));
  if (hours > 23 || minutes > 59) return Number.NaN;
  return (zone.startsWith('-') ? -1 : 1) * (hours * HOUR + minutes * MINUTE);
}

function withinRange(time: Time): Time {
  return time >= EARLIEST && time <= LATEST ? time : Number.NaN;
}

function digit(text: Uint8Array, at: number): number {
  const value = text[at]! - ZERO;
  return value >= 0 && value <= 9 ? value : NOT_DIGITS;
}

function twoDigits(text: Uint8Array, at: number): number {
  return digit(text, at) * 10 + digit(text, at + 1);
}

/**
 * Whole days since 1970-01-01 in the Gregorian calendar; `NaN` for a day that does not exist. Years are counted from March: the
 * leap day is then the last of its year, and the first day of a month follows from a linear formula.
 */
function daysSinceEpoch(year: number, month: number, day: number): number {
  if (year > 9999 || month < 1 || month > 12 || day < 1 || day > daysIn(month, year)) return Number.NaN;
  const marchYear = month > 2 ? year : year - 1;
  const dayOfYear = Math.floor((153 * (month > 2 ? month - 3 : month + 9) + 2) / 5) + day - 1;
  const leapDays = Math.floor(marchYear / 4) - Math.floor(marchYear / 100) + Math.floor(marchYear / 400);
  return marchYear * 365 + leapDays + dayOfYear - 719_468;
}

function daysIn(month: number, year: number): number {
  if (month === 2) return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28;
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31;
}

/**
 * Cached texts of the last day and the last second written: most events are of one second, and even a historical import goes
 * day by day. `toISOString` for every time would cost a fifth of receiving a call.
 */
let lastDay = Number.NaN;
let lastDate = '';
let lastSecond = Number.NaN;
let lastPrefix = '';
const TWO_DIGITS = Array.from({ length: 60 }, (_, n) => String(n).padStart(2, '0'));
const MILLIS = Array.from({ length: 1000 }, (_, n) => `${String(n).padStart(3, '0')}Z`);

/** Writes `YYYY-MM-DDTHH:mm:ss.sssZ`; `time` is a whole number between the years 0000 and 9999. */
export function formatTime(time: Time): string {
  const second = Math.floor(time / SECOND);
  if (second !== lastSecond) {
    const day = Math.floor(time / DAY);
    if (day !== lastDay) {
      lastDate = new Date(day * DAY).toISOString().slice(0, 11);
      lastDay = day;
    }
    const ofDay = second - day * (DAY / SECOND);
    const minute = Math.floor(ofDay / 60);
    const hour = Math.floor(minute / 60);
    lastPrefix = `${lastDate}${TWO_DIGITS[hour]}:${TWO_DIGITS[minute - hour * 60]}:${TWO_DIGITS[ofDay - minute * 60]}.`;
    lastSecond = second;
  }
  return lastPrefix + MILLIS[time - second * SECOND];
}

/**
 * When something happened by our clock: `original`, moved by how much the client's clock was off when it sent the call. A
 * difference below a second is the network and not the clock: correcting it would shift every historical time.
 * `NaN` when the two clocks are more than 24 hours apart, because the client's own time is then worth more than the corrected
 * one, and when the result would leave the years that four digits can write.
 * spec/specification.md, "Time".
 */
export function correctedTime(original: Time, sentAt: Time, receivedAt: Time): Time {
  const correction = receivedAt - sentAt;
  if (Math.abs(correction) < SECOND) return original;
  return Math.abs(correction) > DAY ? Number.NaN : withinRange(original + correction);
}
