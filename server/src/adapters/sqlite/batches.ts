import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Origin } from './chunk-codec.ts';
import { unlessDamaged } from './damage.ts';

/** How many batches are remembered of those with a chunk, and how many of the others. Chunks that carry their answers are not sealed. */
export const REMEMBERED = 64;

/**
 * The answers to the last batches, written by the same transaction: whoever did not hear an answer may send the batch
 * again and changes nothing by it. They stand in the rows of the chunks themselves, so remembering costs no page; only a
 * batch that left no chunk behind needs a row of its own.
 */
export class Batches {
  readonly #putEmpty: StatementSync;
  readonly #dropEmpty: StatementSync;
  /** As `appended.ts` writes them. */
  readonly #ofChunks = new Map<string, string>();
  readonly #ofNone = new Map<string, string>();
  #emptyNumber = 0;

  constructor(database: DatabaseSync) {
    this.#putEmpty = database.prepare('insert into empty_batch(number, batch, answer) values (?, ?, ?)');
    this.#dropEmpty = database.prepare('delete from empty_batch where number <= ?');
    const empty = database.prepare('select number, batch, answer from empty_batch order by number');
    for (const { number, batch, answer } of empty.all() as unknown as Row[]) {
      this.#ofNone.set(batch, answer);
      this.#emptyNumber = number;
    }
    const last = database.prepare(
      'select batch, answer from chunk where batch is not null order by first desc limit ?',
    );
    const answered = unlessDamaged(() => last.all(REMEMBERED) as unknown as Row[]) ?? [];
    for (const { batch, answer } of answered.reverse()) {
      this.#ofChunks.set(batch, answer);
    }
  }

  answerTo(id: string): string | undefined {
    return this.#ofChunks.get(id) ?? this.#ofNone.get(id);
  }

  /** The chunk that carried an answer goes before the batch is forgotten. */
  keep({ batch, answer }: Origin): void {
    if (this.#ofChunks.has(batch)) this.#putEmpty.run(++this.#emptyNumber, batch, answer);
  }

  /** `stored`: whether the answer went into a chunk's row. */
  remember(id: string, answer: string, stored: boolean): void {
    if (!stored) {
      this.#putEmpty.run(++this.#emptyNumber, id, answer);
      this.#dropEmpty.run(this.#emptyNumber - REMEMBERED);
    }
    const answers = stored ? this.#ofChunks : this.#ofNone;
    answers.set(id, answer);
    if (answers.size > REMEMBERED) answers.delete(answers.keys().next().value!);
  }
}

interface Row {
  number: number;
  batch: string;
  answer: string;
}
