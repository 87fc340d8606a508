import { expect } from 'vitest';
import type { Attempt, Decision, Delivery } from '../../src/model/delivery.ts';
import type { Duration, Monotonic } from '../../src/model/time.ts';
import { SECOND } from '../../src/model/time.ts';
import type {
  ClaimedDelivery,
  DeliveryResult,
  HeldDelivery,
  QueueStats,
} from '../../src/ports/delivery-queue.ts';
import type { AppendResult, Batch } from '../../src/ports/event-log.ts';
import type { Store } from '../../src/ports/store.ts';
import { CRM, idsAt, owedBatch, events as someEvents } from './batches.ts';
import { START } from './harness.ts';

/** More than any test stores. */
export const ALL = 1_000_000;

/** Later than anything in a test is due. */
export const MUCH_LATER: Monotonic = START + 1000 * 24 * 3600 * SECOND;

/** A delivery in the hands of the test. */
export interface Holding extends ClaimedDelivery {
  readonly destination: number;
}

/** The holdings of the caller of `append`, from its answer: one per held delivery, in the batch's order. */
export function heldFrom(batch: Batch, answer: AppendResult): Holding[] {
  return batch.owed.flatMap(({ destination, indexes }, place) => {
    const set = answer.held[place];
    if (set === undefined) return [];
    return indexes.flatMap((index) => {
      const position = answer.positions[index];
      return position === undefined ? [] : [{ destination, set, delivery: { position, rounds: 0 } }];
    });
  });
}

/** Appends so many new events, all held for one destination. */
export async function hold(store: Store, count: number, prefix = 'm'): Promise<Holding[]> {
  const batch = owedBatch(someEvents(count, prefix), 'held');
  return heldFrom(batch, await store.log.append(batch));
}

/** Appends so many new events, all parked for one destination and due at `receivedAt`. */
export async function park(store: Store, count: number, prefix = 'm', receivedAt = START): Promise<void> {
  await store.log.append(owedBatch(someEvents(count, prefix), 'parked', { receivedAt }));
}

/** Claims for `CRM`. */
export async function claim(store: Store, now: Monotonic, max = ALL): Promise<Holding[]> {
  const { deliveries } = await store.queue.claim(CRM, max, now);
  return deliveries.map((held) => ({ ...held, destination: CRM }));
}

/** The messageIds of these deliveries, sorted. */
export async function idsOf(store: Store, holdings: readonly HeldDelivery[]): Promise<string[]> {
  const ids = await idsAt(
    store,
    holdings.map((held) => held.delivery.position),
  );
  return ids.map(String).sort();
}

/** `<prefix>0`, `<prefix>1`, … sorted as `idsOf` sorts. */
export function ids(count: number, prefix = 'm'): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}${index}`).sort();
}

export function delivered(holding: Holding): DeliveryResult {
  return result(holding, { kind: 'delivered' });
}

/** The same with what the endpoint answered to the request that failed. */
export function answered(result: DeliveryResult, answer: string): DeliveryResult {
  return { ...result, attempts: result.attempts.map((attempt) => ({ ...attempt, answer })) };
}

export function dead(holding: Holding, reason = 'status_400'): DeliveryResult {
  return result(holding, { kind: 'dead', reason });
}

/** A delivery for which the type of its destination sent nothing. */
export function dropped(holding: Holding, note?: string, at: Monotonic = START + SECOND): DeliveryResult {
  const drop = { kind: 'dropped', reason: 'not_applicable', at } as const;
  return { ...result(holding, note === undefined ? drop : { ...drop, note }), attempts: [] };
}

/** A delivery that failed once more, to be retried at `at`; `next` overrides the state for its next round. */
export function retried(holding: Holding, at: Monotonic, next: Partial<Delivery> = {}): DeliveryResult {
  const { position, rounds } = holding.delivery;
  return result(holding, { kind: 'retry', at, next: { position, rounds: rounds + 1, ...next } });
}

/** A delivery that was not tried: unchanged, to be claimed again at `at`. */
export function handedBack(holding: Holding, at: Monotonic): DeliveryResult {
  return { ...result(holding, { kind: 'retry', at, next: holding.delivery }), attempts: [] };
}

function result(holding: Holding, decision: Decision): DeliveryResult {
  const { set, destination, delivery } = holding;
  const attempts = [decision.kind === 'delivered' ? ACCEPTED : FAILED];
  return { set, destination, position: delivery.position, attempts, decision };
}

const ACCEPTED: Attempt = {
  endpoint: 'https://crm.example/in',
  startedAt: START,
  latencyMs: 12,
  outcome: { kind: 'accepted', reason: 'status_204', status: 204 },
};

const FAILED: Attempt = {
  endpoint: 'https://crm.example/in',
  startedAt: START,
  latencyMs: 34,
  outcome: { kind: 'retryable', reason: 'status_503', status: 503, notBefore: START + SECOND },
  answer: 'Überlastet, try later',
};

/** An adapter may hand out a retry this much later than asked, so that it can merge sets; never earlier. */
export function latest(at: Monotonic, settledAt: Monotonic = START): Monotonic {
  return at + latenessOf(at - settledAt);
}

function latenessOf(delay: Duration): Duration {
  return Math.max(SECOND, Math.ceil(delay / 16));
}

/** The queue statistics of one destination; zeros when nothing is pending for it. */
export async function laneOf(store: Store, destination = CRM): Promise<QueueStats> {
  const lanes = await store.queue.stats();
  return (
    lanes.find((lane) => lane.destination === destination) ?? { destination, held: 0, onDisk: 0, retrying: 0 }
  );
}

/** How many deliveries of `CRM` are held and how many are on disk. */
export async function expectLane(store: Store, held: number, onDisk: number): Promise<void> {
  expect(await laneOf(store)).toMatchObject({ held, onDisk });
}

/** Settles and expects that every result counted. */
export async function settle(store: Store, results: readonly DeliveryResult[]): Promise<void> {
  expect(await store.queue.settle(results)).toEqual({ ignored: 0 });
}
