import type { Position } from '../../model/event.ts';
import type { Likeness } from '../../ports/event-log.ts';
import type { AcceptedAttempts } from './accepted.ts';
import type { Chunk } from './chunk-codec.ts';
import { lineOf } from './chunks.ts';
import type { Failures } from './failures.ts';
import type { PendingFacts } from './pending-facts.ts';
import type { Plans } from './plans.ts';

/** Where it is written what became of events. */
export interface LikenessParts {
  readonly plans: Plans;
  readonly accepted: AcceptedAttempts;
  readonly failures: Failures;
  readonly pending: PendingFacts;
}

/** What is known of the events of a chunk without their JSON. */
export type ChunkNumbers = Pick<Chunk, 'first' | 'n' | 'sources' | 'plans'>;

/**
 * Tells which events of a chunk may be like what is sought, without parsing them: by their sources, by the bytes of their
 * JSON, and by what is written of their deliveries. Lines are as `JSON.stringify` writes them (`Batch.events`), so a field
 * with its value stands in them in one form only. Nested fields of the same name make it say "perhaps", and nothing worse.
 */
export class LikenessTest {
  readonly #like: Likeness;
  readonly #parts: LikenessParts;
  /** Of each, one has to be in the line. */
  readonly #needles: readonly (readonly Buffer[])[];
  readonly #lanes: ReadonlySet<number>;
  /** Lanes that are owed by the plan of this number. */
  readonly #owedByPlan = new Map<number, readonly number[]>();

  constructor(like: Likeness, parts: LikenessParts) {
    this.#like = like;
    this.#parts = parts;
    this.#needles = needlesOf(like);
    this.#lanes = new Set(like.owedTo);
  }

  /** Marks the events that may be like this, by all but their JSON; `undefined` when there are none. */
  marked(chunk: ChunkNumbers): Uint8Array | undefined {
    const { source, owedTo } = this.#like;
    const marks = owedTo === undefined ? new Uint8Array(chunk.n).fill(1) : this.#owed(chunk);
    if (source !== undefined) {
      for (let index = 0; index < chunk.n; index++) if (chunk.sources[index] !== source) marks[index] = 0;
    }
    return marks.includes(1) ? marks : undefined;
  }

  /** Takes away the marks of the events whose JSON says that they are not like this. */
  readLines(chunk: Chunk, marks: Uint8Array): void {
    const [first, ...others] = this.#needles;
    if (first === undefined) return;
    const found = new Uint8Array(chunk.n);
    for (const needle of first) markLinesWith(needle, chunk, found);
    for (let index = 0; index < chunk.n; index++) {
      if (marks[index] === 0) continue;
      const line = found[index] === 0 ? undefined : lineOf(chunk, chunk.first + index);
      const hasAll = line !== undefined && others.every((any) => any.some((needle) => line.includes(needle)));
      if (!hasAll) marks[index] = 0;
    }
  }

  #owed(chunk: ChunkNumbers): Uint8Array {
    const byLane = this.#owedByLane(chunk);
    if (this.#like.isDelivered) for (const [lane, marks] of byLane) this.#leaveDelivered(lane, chunk, marks);
    const any = new Uint8Array(chunk.n);
    for (const marks of byLane.values()) {
      for (let index = 0; index < chunk.n; index++) if (marks[index] === 1) any[index] = 1;
    }
    return any;
  }

  /** Of each lane asked for the events that it is or was owed: by their plans, or once more. */
  #owedByLane({ first, n, plans }: ChunkNumbers): Map<number, Uint8Array> {
    const byLane = new Map<number, Uint8Array>();
    const mark = (lane: number, position: Position) => {
      if (!this.#lanes.has(lane)) return;
      const marks = byLane.get(lane) ?? new Uint8Array(n);
      byLane.set(lane, marks);
      marks[position - first] = 1;
    };
    for (let index = 0; index < n; index++) {
      for (const lane of this.#lanesOfPlan(plans[index]!)) mark(lane, first + index);
    }
    const { accepted, failures, pending } = this.#parts;
    const isComplete = (lane: number) => byLane.get(lane)?.includes(0) === false;
    const others = new Set([...this.#lanes].filter((lane) => !isComplete(lane)));
    accepted.visitBetween(first, first + n, others, mark);
    failures.visitBetween(first, first + n, others, mark);
    if (this.#like.isDelivered !== true) pending.visitAgainBetween(first, first + n, mark);
    return byLane;
  }

  #lanesOfPlan(number: number): readonly number[] {
    const known = this.#owedByPlan.get(number);
    if (known !== undefined) return known;
    const lanes = this.#parts.plans.get(number).owed.filter((lane) => this.#lanes.has(lane));
    this.#owedByPlan.set(number, lanes);
    return lanes;
  }

  #leaveDelivered(lane: number, { first, n }: ChunkNumbers, marks: Uint8Array): void {
    const { failures, pending } = this.#parts;
    const unmark = (position: Position) => {
      marks[position - first] = 0;
    };
    failures.visitDead(lane, first, first + n, unmark);
    if (marks.includes(1)) pending.visitBetween(lane, first, first + n, unmark);
  }
}

function needlesOf({ type, anonymousId, event }: Likeness): Buffer[][] {
  const needles: Buffer[][] = [];
  // The rarest first: only the lines that have it are asked for the others.
  if (anonymousId !== undefined) needles.push([field('anonymousId', JSON.stringify(anonymousId))]);
  if (event !== undefined) {
    const value = event.endsWith('*') ? beginning(event.slice(0, -1)) : JSON.stringify(event);
    needles.push([field('event', value), field('name', value)]);
  }
  if (type !== undefined) needles.push([field('type', JSON.stringify(type))]);
  return needles;
}

function field(name: string, value: string): Buffer {
  return Buffer.from(`"${name}":${value}`);
}

/** As the text begins in JSON. Half of a character is written in another way than the whole, so it is left out. */
function beginning(text: string): string {
  const whole = /[\ud800-\udbff]$/.test(text) ? text.slice(0, -1) : text;
  return JSON.stringify(whole).slice(0, -1);
}

function markLinesWith(needle: Buffer, { body, starts, n }: Chunk, marks: Uint8Array): void {
  let line = 0;
  for (let at = body.indexOf(needle); at >= 0; at = body.indexOf(needle, starts[line]!)) {
    while (starts[line + 1]! <= at) line++;
    marks[line] = 1;
    line++;
    if (line === n) return;
  }
}
