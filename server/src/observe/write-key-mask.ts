import type { Json } from '../model/json.ts';
import { maskOf } from '../model/secrets.ts';
import type { Source } from '../model/source.ts';

/** What a write key is called by clients, and by people who put one where it does not belong; without case and signs. */
const NAMES: readonly string[] = ['writekey', 'apikey', 'authorization'];

/** A shorter key is masked where it is all of a text; inside of others it may be part of any word. */
const LONG = 8;

/** Keys have no other characters. */
const ASCII = 128;

type Keyed = Pick<Source, 'writeKeys'>;

/**
 * Writes calls without write keys: neither the value of a field that is named like one, nor a key of a source, wherever it stands.
 * `sources` gives those there are now, and the same array as long as they are the same.
 */
export class WriteKeyMask {
  readonly #sources: () => readonly Keyed[];
  #known: Known = { sources: undefined, whole: new Set(), inside: new LongKeys([]) };

  constructor(sources: () => readonly Keyed[]) {
    this.#sources = sources;
  }

  /** The call as compact JSON. Throws where it is nested too deep to be written. */
  json(call: Json): string {
    const { whole, inside } = this.#knownNow();
    const text = JSON.stringify(call, (name, value: Json) => {
      if (value !== null && isKeyName(name)) return hintOf(value);
      return typeof value === 'string' && whole.has(value) ? hintOf(value) : value;
    });
    return inside.masked(text);
  }

  #knownNow(): Known {
    const sources = this.#sources();
    if (sources !== this.#known.sources) this.#known = knownOf(sources);
    return this.#known;
  }
}

interface Known {
  readonly sources: readonly Keyed[] | undefined;
  readonly whole: ReadonlySet<string>;
  readonly inside: LongKeys;
}

function knownOf(sources: readonly Keyed[]): Known {
  const keys = sources.flatMap(({ writeKeys }) => writeKeys);
  const long = keys.filter(({ length }) => length >= LONG).map((key) => JSON.stringify(key).slice(1, -1));
  return { sources, whole: new Set(keys), inside: new LongKeys(long) };
}

/** Finds keys anywhere in JSON, in one pass however many there are. A regular expression of them takes seconds to be made. */
class LongKeys {
  readonly #keys = new Set<string>();
  /** By the first characters of keys, the lengths there are; the longest first, as one key may begin with another. */
  readonly #lengths = new Map<string, number[]>();
  /** 1 where a key begins with these two characters, so that most places need no look at the map. */
  readonly #starts = new Uint8Array(ASCII * ASCII);

  /** As JSON writes them. */
  constructor(keys: readonly string[]) {
    for (const key of keys) {
      this.#keys.add(key);
      const start = key.slice(0, LONG);
      const lengths = this.#lengths.get(start) ?? [];
      if (!lengths.includes(key.length)) lengths.push(key.length);
      this.#lengths.set(
        start,
        lengths.sort((one, other) => other - one),
      );
      this.#starts[key.charCodeAt(0) * ASCII + key.charCodeAt(1)] = 1;
    }
  }

  masked(json: string): string {
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
    const lengths = this.#lengths.get(json.slice(at, at + LONG)) ?? [];
    const length = lengths.find((length) => this.#keys.has(json.slice(at, at + length)));
    return length === undefined ? undefined : json.slice(at, at + length);
  }
}

function isKeyName(name: string): boolean {
  // A longer one with all its signs is no name for a key.
  return name.length <= 20 && NAMES.includes(name.toLowerCase().replace(/[^a-z]/g, ''));
}

/** Four characters tell which key it is, where it is long enough not to be guessed from them. */
function hintOf(value: Json): string {
  return typeof value === 'string' ? `…${maskOf(value).hint ?? ''}` : '…';
}
