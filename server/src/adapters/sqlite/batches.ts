import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Appended } from '../../ports/event-log.ts';

/** How many batches are remembered. */
const REMEMBERED = 64;

/**
 * The answers to the last batches, written by the same transaction: whoever did not hear an answer may send the batch
 * again and changes nothing by it.
 */
export class Batches {
  readonly #put: StatementSync;
  readonly #answers = new Map<string, Appended>();
  #number = 0;

  constructor(database: DatabaseSync) {
    this.#put = database.prepare(
      'insert or replace into batch(slot, number, id, answer) values (?, ?, ?, ?)',
    );
    const rows = database.prepare('select number, id, answer from batch order by number');
    for (const { number, id, answer } of rows.all() as unknown as {
      number: number;
      id: string;
      answer: string;
    }[]) {
      this.#answers.set(id, read(answer));
      this.#number = number;
    }
  }

  answerTo(id: string): Appended | undefined {
    return this.#answers.get(id);
  }

  remember(id: string, answer: Appended): void {
    this.#number++;
    this.#put.run(this.#number % REMEMBERED, this.#number, id, write(answer));
    this.#answers.set(id, answer);
    if (this.#answers.size > REMEMBERED) this.#answers.delete(this.#answers.keys().next().value!);
  }
}

/** Mostly the positions follow each other from the first on, and two numbers say it. JSON knows no `undefined`: null. */
function write({ positions, held }: Appended): string {
  const first = positions[0];
  const gapless = first !== undefined && positions.every((position, index) => position === first + index);
  return JSON.stringify({ positions: gapless ? { first, n: positions.length } : positions, held });
}

function read(text: string): Appended {
  const { positions, held } = JSON.parse(text) as {
    positions: { first: number; n: number } | (number | null)[];
    held: (number | null)[];
  };
  return {
    positions: Array.isArray(positions)
      ? positions.map((position) => position ?? undefined)
      : Array.from({ length: positions.n }, (_, index) => positions.first + index),
    held: held.map((set) => set ?? undefined),
  };
}
