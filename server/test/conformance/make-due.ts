import { describe, expect, it } from 'vitest';
import { HOUR, MINUTE } from '../../src/model/time.ts';
import { batch, CRM, events, owed, WAREHOUSE } from './batches.ts';
import type { Subject } from './harness.ts';
import { START } from './harness.ts';
import {
  claim,
  delivered,
  expectLane,
  type Holding,
  handedBack,
  heldFrom,
  hold,
  ids,
  idsOf,
  laneOf,
  latest,
  park,
  retried,
  settle,
} from './holdings.ts';

/** ports/delivery-queue.ts: `makeDue`. */
export function makeDueConformance(subject: Subject): void {
  describe('makeDue', () => {
    it('makes due what waits for its next try, however long that would have been, and counts it', async () => {
      const holdings = await hold(subject.store, 6);
      await settle(
        subject.store,
        holdings.map((one, n) => retried(one, START + (n + 1) * HOUR)),
      );
      expect(await claim(subject.store, START + MINUTE)).toEqual([]);
      expect(await subject.store.queue.makeDue(CRM, START + MINUTE)).toBe(6);
      expect((await laneOf(subject.store)).nextDueAt).toBe(START + MINUTE);
      expect(await idsOf(subject.store, await claim(subject.store, START + MINUTE))).toEqual(ids(6));
    });

    it('makes due again what was handed back untried, in whatever order, with what is known of it', async () => {
      const holdings = await hold(subject.store, 40);
      const known = { rounds: 0, firstFailedAt: START - HOUR };
      // A worker hands deliveries back in its queue's order, beside those that have just failed.
      const [tried, dated, ...untried] = holdings.toReversed();
      const dating = { ...dated!, delivery: { ...dated!.delivery, ...known } };
      await settle(subject.store, [
        retried(tried!, START),
        ...[dating, ...untried].map((one) => handedBack(one, START)),
      ]);
      const seen: Holding[] = [];
      while (seen.length < holdings.length) {
        await subject.restart();
        await subject.store.queue.recoverOrphans();
        const slice = await claim(subject.store, latest(START), 7);
        expect(slice.length).toBeGreaterThan(0);
        seen.push(...slice);
        await settle(subject.store, slice.map(delivered));
      }
      expect(await idsOf(subject.store, seen)).toEqual(ids(40));
      const ofPosition = new Map(seen.map(({ delivery }) => [delivery.position, delivery]));
      expect(ofPosition.get(tried!.delivery.position)).toMatchObject({ rounds: 1 });
      expect(ofPosition.get(dated!.delivery.position)).toMatchObject(known);
    });

    it('keeps what the next round must know', async () => {
      const known = { rounds: 7, firstFailedAt: START - HOUR, endpoints: 0b10, settingsVersion: 3 };
      const [one] = await hold(subject.store, 1);
      await settle(subject.store, [retried(one!, START + HOUR, known)]);
      await subject.store.queue.makeDue(CRM, START);
      const [again] = await claim(subject.store, START);
      expect(again?.delivery).toEqual({ position: one!.delivery.position, ...known });
    });

    it('does not count or move what is due already: it still goes first', async () => {
      await park(subject.store, 2, 'old', START);
      const [one] = await hold(subject.store, 1, 'waiting');
      await settle(subject.store, [retried(one!, START + HOUR)]);
      expect(await subject.store.queue.makeDue(CRM, START + 10 * MINUTE)).toBe(1);
      expect((await laneOf(subject.store)).nextDueAt).toBe(START);
      await park(subject.store, 1, 'new', START + 20 * MINUTE);
      const order: string[] = [];
      for (let n = 0; n < 4; n++) {
        order.push(...(await idsOf(subject.store, await claim(subject.store, START + HOUR, 1))));
      }
      expect(order.slice(0, 2).sort()).toEqual(['old0', 'old1']);
      expect(order.slice(2)).toEqual(['waiting0', 'new0']);
    });

    it('leaves alone what is held, and what another destination waits for', async () => {
      const { log, queue: backlog } = subject.store;
      const one = batch(events(4), {
        owed: [owed(CRM, 'held', [0, 1]), owed(WAREHOUSE, 'held', [2, 3])],
      });
      const holdings = heldFrom(one, await log.append(one));
      const [first, second, ...others] = holdings;
      await settle(
        subject.store,
        [first!, ...others].map((held) => retried(held, START + HOUR)),
      );
      expect(await backlog.makeDue(CRM, START)).toBe(1);
      await expectLane(subject.store, 1, 1);
      expect((await backlog.claim(WAREHOUSE, 10, START)).deliveries).toEqual([]);
      await settle(subject.store, [delivered(second!)]);
    });

    it('finds nothing where nothing waits', async () => {
      expect(await subject.store.queue.makeDue(CRM, START)).toBe(0);
      await park(subject.store, 3);
      await hold(subject.store, 3, 'h');
      expect(await subject.store.queue.makeDue(CRM, START)).toBe(0);
      await expectLane(subject.store, 3, 3);
    });

    it('does not hold up what fails afterwards: it waits for its own time', async () => {
      const at = START + HOUR;
      const [one, two] = await hold(subject.store, 2);
      await settle(subject.store, [retried(one!, at)]);
      await subject.store.queue.makeDue(CRM, START);
      await settle(subject.store, [retried(two!, at)]);
      expect(await idsOf(subject.store, await claim(subject.store, START))).toEqual(['m0']);
      expect(await idsOf(subject.store, await claim(subject.store, latest(at)))).toEqual(['m1']);
    });

    it('survives a crash', async () => {
      const [one] = await hold(subject.store, 1);
      await settle(subject.store, [retried(one!, START + HOUR)]);
      await subject.store.queue.makeDue(CRM, START);
      await subject.restart();
      expect(await claim(subject.store, START)).toHaveLength(1);
    });
  });
}
