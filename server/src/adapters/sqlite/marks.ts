import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Position } from '../../model/event.ts';

/** How far maintenance has come; kept with the rest, so that a restart goes on where it was. */
export class Marks {
  readonly #put: StatementSync;
  #sealedTo: Position;
  #retainedFrom: Position;

  constructor(database: DatabaseSync) {
    const get = database.prepare('select value from installation where name = ?');
    const read = (name: string) => (get.get(name) as { value: number } | undefined)?.value ?? 0;
    this.#put = database.prepare(
      'insert into installation(name, value) values (?, ?) on conflict do update set value = excluded.value',
    );
    this.#sealedTo = read('sealed_to');
    this.#retainedFrom = read('retained_from');
  }

  /** Chunks below are merged. */
  get sealedTo(): Position {
    return this.#sealedTo;
  }

  set sealedTo(position: Position) {
    this.#sealedTo = position;
    this.#put.run('sealed_to', position);
  }

  /** Events below are past their retention; what is left of them is kept for its dead letters. */
  get retainedFrom(): Position {
    return this.#retainedFrom;
  }

  set retainedFrom(position: Position) {
    this.#retainedFrom = position;
    this.#put.run('retained_from', position);
    if (this.#sealedTo < position) this.sealedTo = position;
  }
}
