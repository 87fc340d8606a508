import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { DestinationHealth } from '../../../ports/delivery-queue.ts';

/** The health of endpoints, one JSON document a destination. Written now and then, read at a start. */
export class EndpointHealthTable {
  readonly #all: StatementSync;
  readonly #put: StatementSync;
  readonly #drop: StatementSync;

  constructor(database: DatabaseSync) {
    this.#all = database.prepare('select destination, endpoints from endpoint_health order by destination');
    this.#put = database.prepare(
      'insert into endpoint_health(destination, endpoints) values (?, ?) on conflict do update set endpoints = excluded.endpoints',
    );
    this.#drop = database.prepare('delete from endpoint_health where destination = ?');
  }

  load(): DestinationHealth[] {
    const rows = this.#all.all() as unknown as { destination: number; endpoints: string }[];
    return rows.flatMap(({ destination, endpoints }) => {
      // The health is for people only: a damaged row must not keep a server from starting.
      try {
        return [{ destination, endpoints: JSON.parse(endpoints) }];
      } catch {
        return [];
      }
    });
  }

  save(healths: readonly DestinationHealth[]): undefined {
    for (const { destination, endpoints } of healths) {
      if (endpoints.length === 0) this.#drop.run(destination);
      else this.#put.run(destination, JSON.stringify(endpoints));
    }
  }
}
