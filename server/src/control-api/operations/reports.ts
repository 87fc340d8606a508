import * as z from 'zod';
import { type ApiOperation, defineOperation } from '../operation.ts';

/** What can be said about the server without changing it. */
export interface Reports {
  ledger(): Promise<object>;
  overview(): Promise<object>;
  discards(): Promise<object>;
  trace(messageId: string, source?: string): Promise<object>;
}

const countsByReason = z.record(z.string(), z.int());

const ledgerFields = {
  sources: z.record(
    z.string(),
    z.object({ received: z.int(), accepted: z.int(), discarded: countsByReason, duplicates: z.int() }),
  ),
  destinations: z.record(
    z.string(),
    z.object({
      ...{ owed: z.int(), delivered: z.int(), pending: z.int(), dead: countsByReason, erased: z.int() },
      ...{ skipped: countsByReason, balance: z.int() },
    }),
  ),
  balanced: z.boolean(),
  differences: z.array(z.looseObject({ difference: z.int() })),
};

const discardSchema = z.object({
  source: z.string().exactOptional(),
  reason: z.string(),
  at: z.string(),
  call: z.string(),
  cut: z.boolean(),
});

/** How one endpoint does. */
export const endpointFields = {
  endpoint: z.string(),
  state: z.enum(['healthy', 'failing']),
  since: z.string().exactOptional(),
  lastError: z
    .object({
      at: z.string(),
      reason: z.string(),
      status: z.int().exactOptional(),
      answer: z.string().exactOptional(),
    })
    .exactOptional(),
};

const laneSchema = z.object({
  state: z.enum(['healthy', 'failing', 'paused', 'disabled']),
  held: z.int(),
  onDisk: z.int(),
  retrying: z.int(),
  oldestPendingAt: z.string().exactOptional(),
  oldestKeptUntil: z.string().exactOptional(),
  nextDueAt: z.string().exactOptional(),
  nextProbeAt: z.string().exactOptional(),
  failingSince: z.string().exactOptional(),
  lastError: z.object({ reason: z.string(), endpoint: z.string(), at: z.string() }).exactOptional(),
  endpoints: z.array(z.object(endpointFields)),
});

const overviewSchema = z.object({
  at: z.string(),
  startedAt: z.string(),
  ...ledgerFields,
  lanes: z.record(z.string(), laneSchema),
  callsOfNoSource: z.object({
    discarded: countsByReason,
    refused: countsByReason,
    clock: z.object({ unparseable: z.int(), skewed: z.int() }),
  }),
  discards: z.array(discardSchema),
  log: z.object({
    events: z.int(),
    bytes: z.int(),
    oldestAt: z.string().exactOptional(),
    damage: z
      .object({ events: z.int(), deliveries: z.int(), foundAt: z.string().exactOptional() })
      .exactOptional()
      .meta({ description: 'What was stored and cannot be read any more; absent while everything can.' }),
  }),
});

export const attemptSchema = z.object({
  endpoint: z.string(),
  startedAt: z.string(),
  latencyMs: z.number(),
  outcome: z.enum(['accepted', 'retryable', 'refused']),
  reason: z.string(),
  status: z.int().exactOptional(),
  answer: z.string().exactOptional(),
});

const tracedDeliverySchema = z.object({
  id: z.string(),
  destination: z.string(),
  state: z.enum(['pending', 'retrying', 'delivered', 'dead']),
  reason: z.string().exactOptional(),
  nextAttemptAt: z.string().exactOptional(),
  attempts: z.array(attemptSchema),
});

/** One event of one source, one that cannot be read any more, or a call that was discarded. See `TracedCall`. */
export const tracedCallSchema = z.union([
  z.object({
    source: z.string(),
    receivedAt: z.string(),
    verdict: z.literal('accepted'),
    event: z.looseObject({ messageId: z.string() }),
    deliveries: z.array(tracedDeliverySchema),
    skipped: z.array(z.object({ destination: z.string(), reason: z.string() })),
  }),
  z.object({ verdict: z.literal('damaged'), deliveries: z.array(tracedDeliverySchema) }),
  z.object({
    source: z.string().exactOptional(),
    receivedAt: z.string(),
    verdict: z.literal('discarded'),
    reason: z.string(),
    call: z.string(),
  }),
]);

export function reportOperations(readings: Reports): ApiOperation[] {
  return [
    defineOperation({
      ...{ method: 'GET', path: 'ledger', role: 'viewer' },
      summary: 'Shows the sums of every source and destination, and whether they come out',
      answer: z.object(ledgerFields),
      run: () => readings.ledger(),
    }),
    defineOperation({
      ...{ method: 'GET', path: 'status', role: 'viewer' },
      summary: 'Shows what somebody on call wants to see at once',
      answer: overviewSchema,
      run: () => readings.overview(),
    }),
    defineOperation({
      ...{ method: 'GET', path: 'discards', role: 'viewer', isInMemory: true },
      summary: 'Shows the last discarded calls of every source and reason',
      answer: z.object({ data: z.array(discardSchema) }),
      run: () => readings.discards(),
    }),
    defineOperation({
      ...{ method: 'GET', path: 'events/:messageId', role: 'viewer' },
      summary: "Shows an event's whole life: received, planned, every attempt, what happens next",
      query: z.object({ source: z.string().exactOptional() }),
      answer: z.object({ data: z.array(tracedCallSchema) }),
      run: ({ names, query }) => readings.trace(names['messageId'] ?? '', query.source),
    }),
  ];
}
