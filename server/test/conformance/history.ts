import { describe, expect, it } from 'vitest';
import { HOUR, MINUTE } from '../../src/model/time.ts';
import type { DeliveryHistory, DeliveryResult, EventHistory } from '../../src/ports/delivery-queue.ts';
import { batch, CRM, event, events, owed, positionsOf, skipped, WAREHOUSE } from './batches.ts';
import type { Subject } from './harness.ts';
import { START } from './harness.ts';
import {
  claim,
  dead,
  delivered,
  type Holding,
  heldFrom,
  hold,
  latest,
  park,
  retried,
  settle,
} from './holdings.ts';
import { erase, FOR_EVER, keepUp } from './upkeep.ts';

const ACCEPTED = { kind: 'accepted', reason: 'status_204', status: 204 };
const FAILED = { kind: 'retryable', reason: 'status_503', status: 503 };

/** ports/delivery-queue.ts. */
export function historyConformance(subject: Subject): void {
  const of = async (position: number): Promise<EventHistory> =>
    (await subject.store.history.read([position]))[0]!;
  const delivery = async (holding: Holding): Promise<DeliveryHistory> => {
    const { deliveries } = await of(holding.delivery.position);
    return deliveries.find(({ destination }) => destination === holding.destination)!;
  };

  describe('history', () => {
    it('says who was to get an event and who was not, each in its place of a mixed batch', async () => {
      const mixed = batch(events(4), {
        owed: [owed(WAREHOUSE, 'parked', [0, 3]), owed(CRM, 'parked', [0, 1])],
        skipped: [skipped(CRM, 'integrations', [3]), skipped(WAREHOUSE, 'filtered', [1])],
      });
      const positions = positionsOf(await subject.store.log.append(mixed));
      const seen = await subject.store.history.read(positions);
      expect(seen.map((one) => one?.deliveries.map(({ destination }) => destination))).toEqual([
        [CRM, WAREHOUSE],
        [CRM],
        [],
        [WAREHOUSE],
      ]);
      expect(seen.map((one) => one?.skipped)).toEqual([
        [],
        [{ destination: WAREHOUSE, reason: 'filtered' }],
        [],
        [{ destination: CRM, reason: 'integrations' }],
      ]);
    });

    it('names a thousand destinations of one event, and as many that do not get it', async () => {
      // Numbers that say nothing twice: what is written of them does not become short.
      const numbers = Array.from({ length: 1000 }, (_, nth) => 10_000 + ((nth * 7919) % 90_000));
      const some = batch(events(2), {
        owed: numbers.map((destination) => owed(destination, 'parked', [0])),
        skipped: numbers.map((destination) => skipped(destination, `reason_${destination}`, [1])),
      });
      const [first, second] = await subject.store.history.read(
        positionsOf(await subject.store.log.append(some)),
      );
      const sorted = numbers.toSorted((one, other) => one - other);
      const inOrder = (found: readonly { readonly destination: number }[] | undefined) =>
        found?.map(({ destination }) => destination).toSorted((one, other) => one - other);
      expect(inOrder(first?.deliveries)).toEqual(sorted);
      expect(inOrder(second?.skipped)).toEqual(sorted);
    });

    it('keeps places where duplicates were left out', async () => {
      await subject.store.log.append(batch(events(1)));
      const again = batch(events(3), { owed: [owed(CRM, 'parked', [0, 1])], skipped: [] });
      const { positions } = await subject.store.log.append(again);
      const seen = await subject.store.history.read([positions[1]!, positions[2]!]);
      expect(seen.map((one) => one?.deliveries.length)).toEqual([1, 0]);
    });

    it('keeps what was accepted without a status, as by a destination that is no endpoint of HTTP', async () => {
      const [one] = await hold(subject.store, 1);
      const result = delivered(one!);
      const outcome = { kind: 'accepted', reason: 'accepted' } as const;
      const attempts = result.attempts.map((attempt) => ({ ...attempt, endpoint: 'events.jsonl', outcome }));
      await settle(subject.store, [{ ...result, attempts }]);
      expect(await delivery(one!)).toMatchObject({
        ...{ state: 'delivered', attempts: [{ endpoint: 'events.jsonl' }] },
      });
      expect((await delivery(one!)).attempts[0]!.outcome).toEqual(outcome);
    });

    it('follows a delivery from hand to disk and back to its end, with every request made', async () => {
      const [one] = await hold(subject.store, 1);
      expect(await delivery(one!)).toEqual({ destination: CRM, state: 'pending', attempts: [] });
      const at = START + HOUR;
      await settle(subject.store, [retried(one!, at)]);
      const waiting = await delivery(one!);
      expect(waiting).toMatchObject({ state: 'retrying', attempts: [{ outcome: FAILED }] });
      expect(waiting.attempts[0]).toMatchObject({
        ...{ endpoint: 'https://crm.example/in', startedAt: START, latencyMs: 34 },
        answer: 'Überlastet, try later',
      });
      expect(waiting.nextAttemptAt).toBeGreaterThanOrEqual(at);
      const [again] = await claim(subject.store, latest(at));
      expect(await delivery(one!)).not.toHaveProperty('nextAttemptAt');
      await settle(subject.store, [delivered(again!)]);
      const outcomes = async () => (await delivery(one!)).attempts.map(({ outcome }) => outcome);
      expect(await delivery(one!)).toMatchObject({ state: 'delivered' });
      expect(await outcomes()).toEqual([FAILED, ACCEPTED]);
      await subject.restart();
      expect(await outcomes()).toEqual([FAILED, ACCEPTED]);
    });

    it('says why a delivery is dead', async () => {
      const [one] = await hold(subject.store, 1);
      await settle(subject.store, [dead(one!, 'status_400')]);
      expect(await delivery(one!)).toMatchObject({ state: 'dead', reason: 'status_400' });
      await park(subject.store, 3, 'p', START);
      await subject.store.queue.expire(CRM, START + 1, 'retry_window_over');
      const { positions } = await subject.store.log.find({ messageId: 'p1' });
      expect((await of(positions[0]!)).deliveries).toEqual([
        { destination: CRM, state: 'dead', reason: 'retry_window_over', attempts: [] },
      ]);
    });

    it('tells apart the deliveries of one event', async () => {
      const both = batch(events(1), { owed: [owed(CRM, 'held', 1), owed(WAREHOUSE, 'parked', 1)] });
      const answer = await subject.store.log.append(both);
      const position = positionsOf(answer)[0]!;
      const held = { set: answer.held[0]!, destination: CRM, delivery: { position, rounds: 0 } };
      await settle(subject.store, [delivered(held)]);
      const { deliveries } = await of(position);
      expect(deliveries.map(({ state, attempts }) => [state, attempts.length])).toEqual([
        ['delivered', 1],
        ['pending', 0],
      ]);
    });

    it('tells apart requests to many destinations, settled together, and finds them', async () => {
      const { log, queue } = subject.store;
      // Lanes have high ids, and one destination gets many events where the others get one.
      const ids = [...Array.from({ length: 40 }, (_, n) => 100 + n), 7 + 4 * 2 ** 24];
      const of = batch(events(ids.length + 20), {
        owed: [
          ...ids.map((id, n) => owed(id, 'held', [n])),
          owed(
            CRM,
            'held',
            Array.from({ length: 20 }, (_, n) => ids.length + n),
          ),
        ],
      });
      const answer = await log.append(of);
      const [first] = positionsOf(answer);
      await queue.enqueue({
        origin: 'r',
        destinations: [WAREHOUSE],
        positions: [first!],
        from: 0,
        to: 9,
        now: START,
      });
      const replayed = await queue.claim(WAREHOUSE, 10, START);
      const holdings = [
        ...heldFrom(of, answer),
        ...replayed.deliveries.map((held) => ({ ...held, destination: WAREHOUSE })),
      ];
      const attemptTo = (destination: number) => ({
        endpoint: `https://d${destination}.example/in`,
        startedAt: START + (destination % 1000) * 10,
        latencyMs: destination % 100,
        outcome: ACCEPTED,
      });
      const results = holdings.map((held) => ({
        ...delivered(held),
        attempts: [attemptTo(held.destination)] as DeliveryResult['attempts'],
      }));
      await settle(subject.store, results);
      const expectAll = async () => {
        for (const held of holdings) {
          const { state, attempts } = await delivery(held);
          expect([state, attempts]).toEqual(['delivered', [attemptTo(held.destination)]]);
        }
        const range = { from: START - HOUR, to: START + HOUR };
        const like = { owedTo: [WAREHOUSE], isDelivered: true } as const;
        expect((await subject.store.log.find({ ...range, like })).positions).toContain(first);
      };
      await expectAll();
      await subject.restart();
      await expectAll();
    });

    it('keeps the times and the latency of thousands settled together', async () => {
      const holdings = await hold(subject.store, 3000);
      const results = holdings.map((holding, n) => {
        const result = delivered(holding);
        const attempts = result.attempts.map((one) => ({ ...one, startedAt: START + n, latencyMs: n / 10 }));
        return { ...result, attempts };
      });
      await settle(subject.store, results.toReversed());
      await keepUp(subject.store, START + 2 * HOUR, FOR_EVER);
      for (const n of [0, 1, 1499, 2999]) {
        const { attempts } = await delivery(holdings[n]!);
        expect(attempts).toEqual([
          {
            ...{ endpoint: 'https://crm.example/in', startedAt: START + n, latencyMs: n / 10 },
            outcome: ACCEPTED,
          },
        ]);
      }
    });

    it('is the same after small chunks were merged', async () => {
      const positions: number[] = [];
      for (let n = 0; n < 80; n++) {
        const parts = n % 2 === 0 ? { owed: [owed(CRM, 'parked', 1)] } : {};
        positions.push(...positionsOf(await subject.store.log.append(batch([event(`s${n}`)], parts))));
      }
      await keepUp(subject.store, START + 3 * HOUR, FOR_EVER);
      const seen = await subject.store.history.read(positions);
      expect(seen.map((one) => one?.deliveries.length)).toEqual(positions.map((_, n) => (n + 1) % 2));
    });

    it('knows nothing of an event that is gone or never was', async () => {
      const [one] = positionsOf(await subject.store.log.append(batch([event('m', 1, { userId: 'gone' })])));
      await erase(subject.store, 'gone');
      expect(await subject.store.history.read([one!, one! + 1000])).toEqual([undefined, undefined]);
    });

    it('knows dead letters as long as their events are kept', async () => {
      const [one] = await hold(subject.store, 1);
      await settle(subject.store, [dead(one!)]);
      await subject.store.log.append(batch(events(1, 'young'), { receivedAt: START + 10 * MINUTE }));
      await keepUp(subject.store, START + 10 * MINUTE, { events: 5 * MINUTE, deadLetters: HOUR });
      expect(await delivery(one!)).toMatchObject({ state: 'dead', attempts: [{ outcome: FAILED }] });
    });
  });
}
