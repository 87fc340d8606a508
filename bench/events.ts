import { randomUUID } from 'node:crypto';
import type { NewEvent } from '../server/src/ports/event-log.ts';

/** Different events that the benchmarks of the store draw from. */
export const POOL = 20_000;

/** About 600 bytes, as much alike as real events are. */
function event(n: number): NewEvent {
  const messageId = randomUUID();
  const properties = {
    orderId: randomUUID(),
    total: n / 7,
    currency: ['USD', 'EUR', 'GBP'][n % 3],
    products: [
      {
        productId: n * 31,
        sku: `${n % 977}-${n % 89}`,
        name: ['Monopoly', 'Uno', 'Chess', 'Go'][n % 4],
        price: n % 100,
      },
      {
        productId: n * 37,
        sku: `${n % 577}-${n % 83}`,
        name: ['Risk', 'Taboo', 'Clue', 'Jenga'][n % 4],
        price: n % 50,
      },
    ],
  };
  const context = {
    library: { name: 'analytics-node', version: '3.1.0' },
    ip: `203.0.${n % 256}.${(n * 7) % 256}`,
  };
  const times = {
    timestamp: new Date(1.7e12 + n * 77).toISOString(),
    receivedAt: new Date(1.7e12 + n * 78).toISOString(),
  };
  const json = JSON.stringify({
    ...{ messageId, type: 'track', channel: 'server', userId: `user-${n % 5000}`, event: 'Order Completed' },
    ...{ properties, context, integrations: {}, ...times },
  });
  return { source: 1, messageId, json };
}

/** The pool again and again, with new ids each time. */
export function* events(): Generator<NewEvent> {
  const pool = Array.from({ length: POOL }, (_, n) => event(n));
  for (;;) {
    for (const { source, messageId, json } of pool) {
      const id = randomUUID();
      yield { source, messageId: id, json: json.replace(messageId, id) };
    }
  }
}

export function take(source: Generator<NewEvent>, n: number): NewEvent[] {
  return Array.from({ length: n }, () => source.next().value as NewEvent);
}
