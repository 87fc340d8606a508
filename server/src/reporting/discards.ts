import { defined, type Json } from '../model/json.ts';
import { maskSecret } from '../model/secrets.ts';
import type { Source } from '../model/settings.ts';
import { isoTime, SECOND, type Time } from '../model/time.ts';
import {
  addChanges,
  type DiscardedCall,
  type DiscardSampler,
  type IngestCounters,
  type ValueChanges,
} from '../ports/telemetry.ts';
import type { DiscardSample, UnattributedCalls } from './contract.ts';

/**
 * In-memory counters of calls without a source, and of changed values and requests over the rate limit by
 * source. They start at zero with every start and are no part of the ledger. Reasons and codes come from
 * `spec/errors.json` and never from a client, so their number is bounded.
 */
export class IngestTotals implements IngestCounters {
  readonly #discarded = new Map<string, number>();
  readonly #refused = new Map<string, number>();
  readonly #changes = new Map<string, ValueChanges>();
  readonly #rateLimited = new Map<string, number>();
  readonly #publicCalls = new Map<string, number>();

  discarded(reasons: Readonly<Record<string, number>>): void {
    for (const reason in reasons) addCount(this.#discarded, reason, reasons[reason]!);
  }

  refused(code: string): void {
    addCount(this.#refused, code, 1);
  }

  changed(source: string, changes: ValueChanges): void {
    this.#changes.set(source, addChanges(this.#changes.get(source), changes));
  }

  rateLimited(source: string): void {
    addCount(this.#rateLimited, source, 1);
  }

  publicCalls(source: string, calls: number): void {
    addCount(this.#publicCalls, source, calls);
  }

  /** By the name of the source. */
  publicCallsBySource(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#publicCalls);
  }

  /** By the name of the source. */
  rateLimitedRequests(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#rateLimited);
  }

  /** By the name of the source. */
  changedValues(): Readonly<Record<string, ValueChanges>> {
    return Object.fromEntries(this.#changes);
  }

  /** Drops samples that contain erased text. */
  forget(mentions: (text: string) => boolean): void {
    for (const [source, { counts, unreadableTime = '' }] of this.#changes)
      if (mentions(unreadableTime)) this.#changes.set(source, { counts });
  }

  read(): UnattributedCalls {
    return {
      discarded: Object.fromEntries(this.#discarded),
      refused: Object.fromEntries(this.#refused),
    };
  }
}

function addCount(counts: Map<string, number>, name: string, n: number): void {
  counts.set(name, (counts.get(name) ?? 0) + n);
}

/** Names of fields that hold a write key, in lower case and letters only. */
const KEY_FIELD_NAMES: readonly string[] = ['writekey', 'apikey', 'authorization'];

/** A shorter key is masked only where it is a whole text, because inside a text it may be part of a word. */
const MIN_SEARCHED_LENGTH = 8;

/** Write keys are ASCII. */
const ASCII = 128;

type WriteKeyOwner = Pick<Source, 'writeKeys'>;

/**
 * Writes calls with their write keys masked: the values of fields named like one, and the keys of sources
 * anywhere in a text. `sources` returns the same array while the sources are the same.
 */
export class WriteKeyRedactor {
  readonly #sources: () => readonly WriteKeyOwner[];
  #index: WriteKeyIndex = { sources: undefined, whole: new Set(), inside: new WriteKeyMatcher([]) };

  constructor(sources: () => readonly WriteKeyOwner[]) {
    this.#sources = sources;
  }

  /** The call as compact JSON. Throws a `RangeError` when it is nested too deep. */
  stringify(call: Json): string {
    const { whole, inside } = this.#currentIndex();
    const text = JSON.stringify(call, (name, value: Json) => {
      if (value !== null && isKeyName(name)) return hintOf(value);
      return typeof value === 'string' && whole.has(value) ? hintOf(value) : value;
    });
    return inside.redact(text);
  }

  #currentIndex(): WriteKeyIndex {
    const sources = this.#sources();
    if (sources !== this.#index.sources) this.#index = indexOf(sources);
    return this.#index;
  }
}

interface WriteKeyIndex {
  readonly sources: readonly WriteKeyOwner[] | undefined;
  readonly whole: ReadonlySet<string>;
  readonly inside: WriteKeyMatcher;
}

function indexOf(sources: readonly WriteKeyOwner[]): WriteKeyIndex {
  const keys = sources.flatMap(({ writeKeys }) => writeKeys);
  const long = keys
    .filter(({ length }) => length >= MIN_SEARCHED_LENGTH)
    .map((key) => JSON.stringify(key).slice(1, -1));
  return { sources, whole: new Set(keys), inside: new WriteKeyMatcher(long) };
}

/** Finds many keys in JSON in one pass. A regular expression of them takes seconds to compile. */
class WriteKeyMatcher {
  readonly #keys = new Set<string>();
  /**
   * The lengths of keys by their first characters; the longest first, because one key may begin with another.
   */
  readonly #lengths = new Map<string, number[]>();
  /** 1 where a key begins with these two characters; saves most lookups in the map. */
  readonly #starts = new Uint8Array(ASCII * ASCII);

  /** `keys` as JSON writes them, without the quotes. */
  constructor(keys: readonly string[]) {
    for (const key of keys) {
      this.#keys.add(key);
      const start = key.slice(0, MIN_SEARCHED_LENGTH);
      const lengths = this.#lengths.get(start) ?? [];
      if (!lengths.includes(key.length)) lengths.push(key.length);
      this.#lengths.set(
        start,
        lengths.sort((one, other) => other - one),
      );
      this.#starts[key.charCodeAt(0) * ASCII + key.charCodeAt(1)] = 1;
    }
  }

  redact(json: string): string {
    if (this.#keys.size === 0) return json;
    let masked = '';
    let done = 0;
    for (let at = 0; at < json.length; at++) {
      const key = this.#keyAt(json, at);
      if (key === undefined) continue;
      masked += json.slice(done, at) + hintOf(JSON.parse(`"${key}"`));
      done = at + key.length;
      at = done - 1;
    }
    return masked + json.slice(done);
  }

  #keyAt(json: string, at: number): string | undefined {
    const [one, other] = [json.charCodeAt(at), json.charCodeAt(at + 1)];
    if (one >= ASCII || other >= ASCII || this.#starts[one * ASCII + other] !== 1) return undefined;
    const lengths = this.#lengths.get(json.slice(at, at + MIN_SEARCHED_LENGTH)) ?? [];
    const length = lengths.find((length) => this.#keys.has(json.slice(at, at + length)));
    return length === undefined ? undefined : json.slice(at, at + length);
  }
}

function isKeyName(name: string): boolean {
  // A longer name is not in the list, whatever its signs.
  return name.length <= 20 && KEY_FIELD_NAMES.includes(name.toLowerCase().replace(/[^a-z]/g, ''));
}

/** Shows four characters of a long key, enough to recognise it and too few to guess it. */
function hintOf(value: Json): string {
  return typeof value === 'string' ? `…${maskSecret(value).hint ?? ''}` : '…';
}

/** Samples of each source and reason: enough to see a pattern. */
const SAMPLES_PER_REASON = 5;

/** The same limit as for the answers of endpoints. spec/specification.md, "Timeout". */
const MAX_CALL_LENGTH = 4096;

/**
 * Most characters of all samples. Beyond it, the group that has gone longest without a new sample is dropped.
 */
const MAX_CHARACTERS = 2 * 1024 * 1024;

/** The least time between two samples of a full group, because formatting a call costs time. */
const MIN_SAMPLE_INTERVAL = SECOND;

interface SampleGroup {
  readonly source: string | undefined;
  readonly reason: string;
  /** The oldest first. */
  readonly samples: { readonly at: Time; readonly call: string; readonly cut: boolean }[];
}

/**
 * The last discarded calls of every source and reason. They are in memory only, because they are personal
 * data that was never accepted, and are lost on restart. Their number and size are bounded.
 */
export class DiscardSamples implements DiscardSampler {
  /** By source and reason; the group that got the latest sample is last. */
  readonly #groups = new Map<string, SampleGroup>();
  #characters = 0;
  readonly #redactor: WriteKeyRedactor;

  constructor(redactor: WriteKeyRedactor) {
    this.#redactor = redactor;
  }

  add({ source, reason, at, call }: DiscardedCall): void {
    const key = JSON.stringify([reason, source]);
    const kept = this.#groups.get(key) ?? { source, reason, samples: [] };
    const last = kept.samples.at(-1);
    if (
      kept.samples.length === SAMPLES_PER_REASON &&
      last !== undefined &&
      at - last.at < MIN_SAMPLE_INTERVAL
    )
      return;
    const sample = { at, ...this.#excerpt(call) };
    kept.samples.push(sample);
    this.#characters += sample.call.length;
    if (kept.samples.length > SAMPLES_PER_REASON) this.#characters -= kept.samples.shift()!.call.length;
    this.#groups.delete(key);
    this.#groups.set(key, kept);
    this.#evict();
  }

  /** The latest first. */
  read(): readonly DiscardSample[] {
    return [...this.#groups.values()]
      .flatMap(({ source, reason, samples }) => samples.map((sample) => ({ source, reason, ...sample })))
      .toSorted((a, b) => b.at - a.at)
      .map(({ source, at, ...rest }) => ({
        ...defined({ source }),
        ...rest,
        at: isoTime(at),
      }));
  }

  /** Drops samples that contain erased text. */
  forget(mentions: (text: string) => boolean): void {
    for (const [key, group] of this.#groups) {
      const samples = group.samples.filter(({ call }) => !mentions(call));
      for (const { call } of group.samples) this.#characters -= call.length;
      for (const { call } of samples) this.#characters += call.length;
      if (samples.length === 0) this.#groups.delete(key);
      else this.#groups.set(key, { ...group, samples });
    }
  }

  #excerpt(call: () => Json): { call: string; cut: boolean } {
    try {
      const text = this.#redactor.stringify(call());
      return { call: text.slice(0, MAX_CALL_LENGTH), cut: text.length > MAX_CALL_LENGTH };
    } catch {
      // Nested too deep; the sample has only its reason.
      return { call: '', cut: true };
    }
  }

  #evict(): void {
    for (const [key, { samples }] of this.#groups) {
      if (this.#characters <= MAX_CHARACTERS) return;
      for (const { call } of samples) this.#characters -= call.length;
      this.#groups.delete(key);
    }
  }
}
