import type { Position } from '../../model/event.ts';
import { MINUTE, type Time } from '../../model/time.ts';
import { REMEMBERED } from './batches.ts';
import type { ChunkEvents } from './chunk-codec.ts';
import { type ChunkFacts, type Chunks, MAX_EVENTS, SEALED } from './chunks.ts';
import { UnwritableChunks } from './damage.ts';
import type { Marks } from './marks.ts';

/** A chunk is worth merging until it holds this many events. */
const FULL = MAX_EVENTS / 2;

/** Bytes of JSON in one merged chunk, so that reading one event of it stays quick. */
const MOST_JSON = 1024 * 1024;

/** Small chunks wait this long for neighbours; after that they are merged with what there is. */
const PATIENCE: Time = 60 * MINUTE;

/** Facts looked at in one slice: mostly a few are enough; where every call came alone, it takes all of these. */
const FEW = 32;
const MANY = MAX_EVENTS;

/**
 * Merges neighbouring small chunks into one: single calls then take as little space as batches, since compression needs
 * company, and a search reads one row where it would read hundreds. Positions stay; only rows change.
 */
export class Sealing {
  readonly #chunks: Chunks;
  readonly #marks: Marks;

  constructor(chunks: Chunks, marks: Marks) {
    this.#chunks = chunks;
    this.#marks = marks;
  }

  /** Does one slice inside the caller's transaction. False when there is nothing to merge now. */
  step(now: Time): boolean {
    const end = this.#chunks.firstOfBatches(REMEMBERED);
    let facts = this.#nextFacts(end);
    let group = nextGroup(facts, end, now);
    // Chunks that are large already are passed over together: each would otherwise cost reading all these facts.
    let passed: ChunkFacts | undefined;
    while (group.length === 1 && facts.length > 1) {
      passed = group[0];
      facts = facts.slice(1);
      group = nextGroup(facts, end, now);
    }
    if (group.length > 1) this.#merge(group);
    const last = group.at(-1) ?? passed;
    if (last === undefined) return false;
    this.#marks.sealedTo = Math.max(this.#marks.sealedTo, last.first + last.n);
    return true;
  }

  #nextFacts(end: Position): readonly ChunkFacts[] {
    const { sealedTo } = this.#marks;
    const few = this.#chunks.factsFrom(sealedTo, FEW);
    const isEnough = few.length < FEW || groupOf(few, end).length < FEW;
    return isEnough ? few : this.#chunks.factsFrom(sealedTo, MANY);
  }

  #merge(group: readonly ChunkFacts[]): void {
    const first: Position = group[0]!.first;
    const chunks = group.map((facts) => this.#chunks.at(facts.first)).filter((chunk) => chunk !== undefined);
    // One that cannot be read stays as it is, and its neighbours with it: what is left of it may still be of use to somebody.
    if (chunks.length < group.length) return;
    const n = chunks.reduce((sum, chunk) => sum + chunk.n, 0);
    const words = (part: 'sources' | 'plans' | 'keys' | 'users') =>
      concat(
        Uint32Array,
        chunks.map((chunk) => chunk[part]),
      );
    const merged: ChunkEvents = {
      n,
      lines: Buffer.concat(chunks.flatMap(({ body }, nth) => (nth === 0 ? [body] : [LINE_FEED, body]))),
      times: concat(
        Float64Array,
        chunks.map((chunk) => chunk.times),
      ),
      ...{ sources: words('sources'), plans: words('plans'), keys: words('keys'), users: words('users') },
    };
    try {
      for (const chunk of chunks) this.#chunks.delete(chunk);
      this.#chunks.put(first, merged, SEALED);
    } catch (error) {
      throw error instanceof UnwritableChunks ? new UnwritableChunks(first, first + n, error) : error;
    }
  }
}

const LINE_FEED = Uint8Array.of(10);

/** The chunks to be merged now; none while more may come that would go with them. */
function nextGroup(facts: readonly ChunkFacts[], end: Position, now: Time): ChunkFacts[] {
  const group = groupOf(facts, end);
  const complete = group.length < facts.length && (facts[group.length]?.first ?? end) < end;
  const events = group.reduce((sum, chunk) => sum + chunk.n, 0);
  const isDue = complete || events >= FULL || (group[0]?.at ?? now) <= now - PATIENCE;
  return isDue ? group : [];
}

/** The chunks to be merged next: neighbours that fit into one together. A large chunk stands alone. */
function groupOf(facts: readonly ChunkFacts[], end: Position): ChunkFacts[] {
  const group: ChunkFacts[] = [];
  let events = 0;
  let json = 0;
  for (const chunk of facts) {
    events += chunk.n;
    json += chunk.json;
    // Together they are let go of when the youngest is old enough, so they must be about as old.
    const together = group.length === 0 || Math.abs(chunk.until - group[0]!.at) <= PATIENCE;
    const fits = events <= MAX_EVENTS && json <= MOST_JSON && together;
    const last = group.at(-1);
    // What lies between them may be damaged and cannot be seen; merged, what is behind it would move.
    const isNext = last === undefined || chunk.first === last.first + last.n;
    if (chunk.first >= end || !isNext || (group.length > 0 && (!fits || chunk.isDamaged))) break;
    group.push(chunk);
    if (chunk.isDamaged) break;
  }
  return group;
}

function concat<Words extends Uint32Array | Float64Array>(
  make: new (length: number) => Words,
  parts: readonly Words[],
): Words {
  const whole = new make(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part as never, at);
    at += part.length;
  }
  return whole;
}
