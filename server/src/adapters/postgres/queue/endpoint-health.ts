import type { DestinationHealth } from '../../../ports/delivery-queue.ts';
import type { Database, Statement, Transaction } from '../database.ts';

const ALL: Statement = {
  name: 'endpoint_health.all',
  text: 'select destination, endpoints from endpoint_health order by destination',
};

const PUT: Statement = {
  name: 'endpoint_health.put',
  text: `insert into endpoint_health(destination, endpoints) select * from unnest($1::int[], $2::text[])
    on conflict (destination) do update set endpoints = excluded.endpoints`,
};

const DROP: Statement = {
  name: 'endpoint_health.drop',
  text: 'delete from endpoint_health where destination = any($1::int[])',
};

/** See `EndpointHealthStore.load`. */
export async function loadHealth(database: Database): Promise<DestinationHealth[]> {
  const rows = await database.read((read) => read.rows<{ destination: number; endpoints: string }>(ALL));
  return rows.flatMap(({ destination, endpoints }) => {
    // The health is for people only: a damaged row must not keep a server from starting.
    try {
      return [{ destination, endpoints: JSON.parse(endpoints) }];
    } catch {
      return [];
    }
  });
}

/**
 * Writes the health of endpoints, one JSON document a destination. The last of several for one destination
 * counts.
 */
export function saveHealth(transaction: Transaction, healths: readonly DestinationHealth[]): void {
  const last = new Map(healths.map((health) => [health.destination, health.endpoints]));
  const sorted = [...last].sort(([a], [b]) => a - b);
  const dropped = sorted
    .filter(([, endpoints]) => endpoints.length === 0)
    .map(([destination]) => destination);
  if (dropped.length > 0) transaction.later(DROP, [dropped]);
  const kept = sorted.filter(([, endpoints]) => endpoints.length > 0);
  if (kept.length > 0)
    transaction.later(PUT, [
      kept.map(([destination]) => destination),
      kept.map(([, endpoints]) => JSON.stringify(endpoints)),
    ]);
}
