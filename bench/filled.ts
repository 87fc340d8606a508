import { randomUUID } from 'node:crypto';
import { openSqliteStore, type SqliteStore } from '../server/src/adapters/sqlite/store.ts';
import { DAY } from '../server/src/model/time.ts';
import type { Batch, NewEvent } from '../server/src/ports/event-log.ts';
import { destination } from './millrace.ts';

const BATCH = 500;
/** Batches under way at once. */
const UNDER_WAY = 3;
/** One event in so many is still pending, wherever in the log. */
const PENDING_EVERY = 10_000;
const TYPES = ['track', 'track', 'track', 'track', 'page', 'identify'] as const;
const FOR_EVER = { events: Number.MAX_SAFE_INTEGER, deadLetters: Number.MAX_SAFE_INTEGER };

/** Facts about a filled data folder. */
export interface Filled {
  /** A few ids from all over the log. */
  readonly messageIds: readonly string[];
  /** Arrival of the first event and of the last. */
  readonly from: number;
  readonly to: number;
}

/**
 * Fills a data folder with events of 600 bytes that arrived during the last day, all owed to one destination:
 * most of them delivered, one in ten thousand pending. The user `few` has 5 of them, `many` 20,000, and every
 * other one 20.
 */
export async function fill(folder: string, events: number): Promise<Filled> {
  const store = await openSqliteStore({ folder });
  const { sources, destinations } = await store.settings.apply({
    sources: [
      { name: 'bench', writeKeys: ['bench'], enabled: true, mode: 'standard', whenDisabled: 'refuse' },
    ],
    destinations: [{ ...destination('9'), enabled: false }],
  });
  const ids = { source: sources[0]!.id, destination: destinations[0]!.id };
  const to = Date.now();
  const from = to - DAY;
  const messageIds: string[] = [];
  let next = 0;
  const loop = async () => {
    while (next < events) {
      const first = next;
      next += BATCH;
      const at = Math.floor(from + (first / events) * DAY);
      const batch = Array.from({ length: BATCH }, (_, n) => event(first + n, { events, at, ...ids }));
      if ((first / BATCH) % Math.ceil(events / BATCH / 100) === 0) messageIds.push(batch[7]!.messageId);
      await append(store, batch, { first, at, ...ids });
      while (await store.log.maintain(at, FOR_EVER, 20));
    }
  };
  await Promise.all(Array.from({ length: UNDER_WAY }, loop));
  await store.stop();
  return { messageIds, from, to };
}

interface Born {
  readonly at: number;
  readonly source: number;
  readonly destination: number;
}

async function append(
  { log, queue: backlog }: SqliteStore,
  events: NewEvent[],
  { first, at, source, destination }: Born & { readonly first: number },
): Promise<void> {
  const indexes = [...events.keys()];
  const isPending = (index: number) => (first + index) % PENDING_EVERY === PENDING_EVERY - 1;
  const batch: Batch = {
    ...{ id: `fill-${first}`, receivedAt: at, events },
    plans: [{ owed: [{ id: destination }], skipped: [] }],
    planIndexes: indexes.map(() => 0),
    owed: [
      { destination, state: 'held', indexes: indexes.filter((index) => !isPending(index)) },
      { destination, state: 'parked', indexes: indexes.filter(isPending) },
    ],
    received: [{ source, calls: events.length, discarded: {} }],
  };
  const { positions, held } = await log.append(batch);
  const attempt = {
    ...{ endpoint: 'http://127.0.0.1:9/in', startedAt: at + 2, latencyMs: 3 },
    outcome: { kind: 'accepted', reason: 'status_200', status: 200 } as const,
  };
  const delivered = indexes.filter((index) => !isPending(index));
  await backlog.settle(
    delivered.map((index) => ({
      ...{ set: held[0]!, destination, position: positions[index]!, attempts: [attempt] },
      decision: { kind: 'delivered' },
    })),
  );
}

function event(n: number, { events, at, source }: Born & { readonly events: number }): NewEvent {
  const messageId = randomUUID();
  const type = TYPES[n % TYPES.length]!;
  const userId = userOf(n, events);
  const receivedAt = new Date(at).toISOString();
  const json = JSON.stringify({
    ...{ messageId, type, channel: 'server', userId },
    ...(type === 'track' ? { event: n % 997 === 0 ? 'Refund Requested' : 'Order Completed' } : {}),
    properties: {
      ...{ orderId: randomUUID(), total: n / 7, currency: ['USD', 'EUR', 'GBP'][n % 3] },
      products: [
        { productId: n * 31, sku: `${n % 977}-${n % 89}`, name: ['Monopoly', 'Uno'][n % 2], price: n % 100 },
        { productId: n * 37, sku: `${n % 577}-${n % 83}`, name: ['Risk', 'Taboo'][n % 2], price: n % 50 },
      ],
    },
    context: {
      library: { name: 'analytics-node', version: '3.1.0' },
      ip: `203.0.${n % 256}.${(n * 7) % 256}`,
    },
    ...{ integrations: {}, timestamp: receivedAt, receivedAt },
  });
  return { source, messageId, userId, json };
}

function userOf(n: number, events: number): string {
  if (n % Math.floor(events / 5) === 11) return 'few';
  if (n % Math.max(1, Math.floor(events / 20_000)) === 13) return 'many';
  return `user-${Math.floor((n * 7919) % (events / 20))}`;
}
