import type { Position } from '../../model/event.ts';
import type { Time } from '../../model/time.ts';
import type { Found } from '../../ports/event-log.ts';
import { type Chunks, lineOf } from './chunks.ts';
import { messageId } from './dedupe.ts';
import type { KeyHash } from './key-hash.ts';
import type { Keys } from './keys.ts';

/** Chunks looked at in one slice, so that commits wait a few milliseconds at most. */
const SLICE_CHUNKS = 256;

/** Finds events. Every hash is verified against the event itself. */
export class Search {
  readonly #chunks: Chunks;
  readonly #keys: Keys;
  readonly #hash: KeyHash;

  constructor(chunks: Chunks, keys: Keys, hash: KeyHash) {
    this.#chunks = chunks;
    this.#keys = keys;
    this.#hash = hash;
  }

  /** All events of these sources with this messageId. */
  byMessageId(id: string, sources: Iterable<number>): Position[] {
    const found = new Set<Position>();
    const words = new Uint32Array(2);
    for (const source of sources) {
      this.#hash(source, id, words, 0);
      this.#keys.some(words[0]!, words[1]!, Number.NEGATIVE_INFINITY, (position) => {
        const chunk = this.#chunks.at(position);
        if (chunk === undefined || chunk.sources[position - chunk.first] !== source) return false;
        const line = lineOf(chunk, position);
        if (line.length > 0 && messageId(line) === id) found.add(position);
        return false;
      });
    }
    return [...found].sort((a, b) => b - a);
  }

  /** Events of a user below a position. */
  byUserId(id: string, below: Position): Found {
    const words = new Uint32Array(2);
    this.#hash(0, id, words, 0);
    const positions: Position[] = [];
    let looked = 0;
    let next = below;
    for (const { first, n, users } of this.#chunks.usersBelow(below)) {
      if (looked++ === SLICE_CHUNKS) return { positions, next };
      next = first;
      for (let index = n - 1; index >= 0; index--) {
        const position = first + index;
        if (users[index * 2] !== words[0] || users[index * 2 + 1] !== words[1] || position >= below) continue;
        if (this.#userAt(position) === id) positions.push(position);
      }
    }
    return { positions };
  }

  /** Events that arrived from `from` (inclusive) to `to` (exclusive), below a position. */
  byTime(from: Time, to: Time, below: Position): Found {
    const facts = this.#chunks.factsBetween(from, to, below);
    const positions: Position[] = [];
    for (const { first, n } of facts.slice(0, SLICE_CHUNKS)) {
      const chunk = this.#chunks.at(first)!;
      for (let index = n - 1; index >= 0; index--) {
        const [position, at] = [first + index, chunk.times[index]!];
        if (position >= below || at < from || at >= to || lineOf(chunk, position).length === 0) continue;
        positions.push(position);
      }
    }
    return facts.length > SLICE_CHUNKS ? { positions, next: facts[SLICE_CHUNKS - 1]!.first } : { positions };
  }

  #userAt(position: Position): string | undefined {
    const chunk = this.#chunks.at(position);
    const line = chunk && lineOf(chunk, position);
    if (line === undefined || line.length === 0) return undefined;
    return (JSON.parse(line.toString()) as { userId?: string }).userId;
  }
}
