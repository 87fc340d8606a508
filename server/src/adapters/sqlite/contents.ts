import { randomBytes } from 'node:crypto';
import type { DatabaseSync } from 'node:sqlite';
import type { Position } from '../../model/event.ts';
import type { Duration, Time } from '../../model/time.ts';
import type { Result, SetId, Settled } from '../../ports/backlog.ts';
import type { Appended } from '../../ports/event-log.ts';
import { Batches, write } from './batches.ts';
import { Chunks, lineOf } from './chunks.ts';
import { lineStarts } from './codec.ts';
import { Counters } from './counters.ts';
import { Dedupe } from './dedupe.ts';
import { Failures } from './failures.ts';
import { Pending } from './pending.ts';
import type { AppendMessage, LedgerMessage, ReadMessage, SettleMessage } from './protocol.ts';
import { Records } from './records.ts';

/**
 * Everything in one open file, and what each operation does to it inside the caller's transaction. Its memory follows
 * the transaction step by step; when a transaction fails, throw the object away and make a new one from the file.
 */
export class Contents {
  readonly records: Records;
  readonly #chunks: Chunks;
  readonly #dedupe: Dedupe;
  readonly #pending: Pending;
  readonly #counters: Counters;
  readonly #failures: Failures;
  readonly #batches: Batches;

  constructor(database: DatabaseSync, options: ContentsOptions) {
    this.records = new Records(database);
    this.#chunks = new Chunks(database);
    this.#dedupe = new Dedupe(this.#chunks, options.dedupeWindow);
    this.#pending = new Pending(database, options.epoch);
    this.#counters = new Counters(database);
    this.#failures = new Failures(database);
    this.#batches = new Batches(database);
  }

  append(message: AppendMessage): Appended {
    const known = this.#batches.answerTo(message.batch);
    if (known !== undefined) return known;
    const places = this.#dedupe.place(message, this.#chunks.next);
    const answer: Appended = {
      positions: Array.from(places, (place) => (place < 0 ? undefined : place)),
      held: message.owed.map((owed) => this.#owe(owed, places, message.receivedAt)),
    };
    for (const { destination, reason, indexes } of message.skipped) {
      const n = positionsOf(indexes, places).length;
      this.#counters.add('destination', destination, `skipped:${reason}`, n);
    }
    this.#count(message, places);
    const kept = keep(message, places);
    if (kept.n > 0) this.#chunks.append(kept, { batch: message.batch, answer: write(answer) });
    this.#batches.remember(message.batch, answer, kept.n > 0);
    return answer;
  }

  #owe(owed: AppendMessage['owed'][number], places: Float64Array, receivedAt: Time): SetId | undefined {
    const positions = positionsOf(owed.indexes, places);
    if (positions.length === 0) return undefined;
    this.#counters.add('destination', owed.destination, 'owed', positions.length);
    if (owed.held) return this.#pending.bearHeld(owed.destination, positions, receivedAt);
    this.#pending.bearParked(owed.destination, positions, receivedAt);
    return undefined;
  }

  #count(message: AppendMessage, places: Float64Array): void {
    for (let index = 0; index < places.length; ) {
      const source = message.sources[index]!;
      const duplicate = places[index]! < 0;
      const from = index;
      while (index < places.length && message.sources[index] === source && places[index]! < 0 === duplicate)
        index++;
      this.#counters.add('source', source, duplicate ? 'duplicates' : 'accepted', index - from);
    }
    for (const { source, calls, discarded } of message.received) {
      this.#counters.add('source', source, 'received', calls);
      for (const [reason, n] of Object.entries(discarded))
        this.#counters.add('source', source, `discarded:${reason}`, n);
    }
  }

  settle({ delivered, others }: SettleMessage): Settled {
    const touched = new Set<SetId>();
    const successes = new Map<number, number>();
    let ignored = 0;
    for (let at = 0; at < delivered.length; at += 3) {
      const [set, position, destination] = [delivered[at]!, delivered[at + 1]!, delivered[at + 2]!];
      if (!this.#pending.take({ set, position, destination })) ignored++;
      else {
        touched.add(set);
        successes.set(destination, (successes.get(destination) ?? 0) + 1);
      }
    }
    for (const [destination, n] of successes) this.#counters.add('destination', destination, 'delivered', n);
    const waiting = new Map<string, Extract<Result['decision'], { kind: 'retry' }>[]>();
    for (const result of others) {
      if (!this.#pending.take(result)) ignored++;
      else {
        touched.add(result.set);
        this.#conclude(result, waiting);
      }
    }
    for (const [key, decisions] of waiting) {
      const [destination, due] = key.split('/').map(Number) as [number, number];
      this.#pending.wait(
        destination,
        due,
        decisions.map((decision) => decision.next),
      );
    }
    this.#pending.writeTouched(touched);
    return { ignored };
  }

  #conclude(result: Result, waiting: Map<string, Extract<Result['decision'], { kind: 'retry' }>[]>): void {
    const { decision, destination } = result;
    this.#failures.keepAttempts(result);
    if (decision.kind === 'delivered') this.#counters.add('destination', destination, 'delivered', 1);
    else if (decision.kind === 'dead') {
      this.#counters.add('destination', destination, `dead:${decision.reason}`, 1);
      this.#failures.bury(result, decision.reason);
    } else {
      const key = `${destination}/${Pending.dueStep(decision.at)}`;
      const group = waiting.get(key);
      if (group) group.push(decision);
      else waiting.set(key, [decision]);
    }
  }

  claim(destination: number, max: number, now: number): ReturnType<Pending['claim']> {
    return this.#pending.claim(destination, max, now);
  }

  adopt(): number {
    return this.#pending.adopt();
  }

  lanes(): ReturnType<Pending['lanes']> {
    return this.#pending.lanes();
  }

  ledger(): LedgerMessage {
    return { counters: this.#counters.all(), pending: this.#pending.sums() };
  }

  read(positions: Float64Array): ReadMessage {
    const lines: Uint8Array[] = [];
    const sources = new Uint32Array(positions.length);
    for (let index = 0; index < positions.length; index++) {
      const position = positions[index]!;
      const chunk = this.#chunks.at(position);
      if (index > 0) lines.push(LINE_FEED);
      if (chunk === undefined) continue;
      lines.push(lineOf(chunk, position));
      sources[index] = chunk.sources[position - chunk.first]!;
    }
    // A buffer of its own, because it is given away to the other thread.
    return { lines: new Uint8Array(Buffer.concat(lines)), sources };
  }

  /** Last step of a transaction: what it adds to the ledger, and its number. */
  seal(): void {
    this.#counters.write();
  }

  /** How many transactions this file has seen; tells after a failed commit whether it happened. */
  get commits(): number {
    return this.#counters.commits;
  }
}

export interface ContentsOptions {
  /** Number of this start of the program; what an earlier one held is not ours. */
  readonly epoch: number;
  readonly dedupeWindow: Duration;
}

const LINE_FEED = Uint8Array.of(10);

/** Called once per start: numbers it, and makes the secret of the key hash at the very first one. */
export function beginEpoch(database: DatabaseSync): { epoch: number; keySecret: Uint8Array } {
  database.exec('begin immediate');
  database
    .prepare(`insert into installation(name, value) values ('key_secret', ?) on conflict do nothing`)
    .run(randomBytes(8));
  database.exec(
    `insert into installation(name, value) values ('epoch', 1) on conflict do update set value = value + 1`,
  );
  database.exec('commit');
  const read = database.prepare('select value from installation where name = ?');
  const { value: epoch } = read.get('epoch') as { value: number };
  const { value: keySecret } = read.get('key_secret') as { value: Uint8Array };
  return { epoch, keySecret };
}

function positionsOf(indexes: Uint32Array, places: Float64Array): Position[] {
  const positions: Position[] = [];
  for (const index of indexes) {
    if (places[index]! >= 0) positions.push(places[index]!);
  }
  return positions;
}

/** The batch without its duplicates; mostly the batch itself. */
function keep(message: AppendMessage, places: Float64Array): Parameters<Chunks['append']>[0] {
  const { receivedAt: at, events: n, lines, sources, keys } = message;
  if (!places.includes(-1)) return { at, n, lines, sources, keys };
  const starts = lineStarts(lines, n);
  const kept = [...places.keys()].filter((index) => places[index]! >= 0);
  const parts = kept.flatMap((index, nth) => {
    const line = lines.subarray(starts[index]!, starts[index + 1]! - 1);
    return nth === 0 ? [line] : [LINE_FEED, line];
  });
  return {
    at,
    n: kept.length,
    lines: Buffer.concat(parts),
    sources: Uint32Array.from(kept, (index) => sources[index]!),
    keys: Uint32Array.from(kept.flatMap((index) => [keys[index * 2]!, keys[index * 2 + 1]!])),
  };
}
