import { describe, expect, it } from 'vitest';
import type { Monotonic } from '../../src/model/time.ts';
import { HOUR, MINUTE } from '../../src/model/time.ts';
import type { Store } from '../../src/ports/store.ts';
import { batch, CRM, countsOfDestination, events, owed, WAREHOUSE } from './batches.ts';
import type { Subject } from './harness.ts';
import { START } from './harness.ts';
import {
  claim,
  delivered,
  expectLane,
  heldFrom,
  hold,
  ids,
  idsOf,
  laneOf,
  MUCH_LATER,
  park,
  retried,
  settle,
} from './holdings.ts';

const OVER = 'retry_window_over';

/** Expires slice after slice until no delivery is left to expire; resolves to their number. */
async function expireAll(store: Store, before: Monotonic, destination = CRM): Promise<number> {
  let buried = 0;
  for (;;) {
    const slice = await store.queue.expire(destination, before, OVER);
    if (slice === 0) return buried;
    buried += slice;
  }
}

/** ports/delivery-queue.ts: `expire`. */
export function expireConformance(subject: Subject): void {
  describe('expire', () => {
    buries(subject);
    spares(subject);
    takesApart(subject);
  });
}

function buries(subject: Subject): void {
  it('buries what was parked before a time and never tried, with the reason', async () => {
    await park(subject.store, 4, 'old', START);
    await park(subject.store, 3, 'new', START + HOUR);
    expect(await expireAll(subject.store, START + 1)).toBe(4);
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject({
      owed: 7,
      pending: 3,
      dead: { [OVER]: 4 },
    });
    expect(await idsOf(subject.store, await claim(subject.store, MUCH_LATER))).toEqual(ids(3, 'new'));
  });

  it('buries what failed for the first time before it, whenever its next try is due', async () => {
    const holdings = await hold(subject.store, 4);
    const [soon, late, young, younger] = holdings;
    await settle(subject.store, [
      retried(soon!, START + MINUTE, { firstFailedAt: START - HOUR }),
      retried(late!, START + HOUR, { firstFailedAt: START - HOUR }),
      retried(young!, START + MINUTE, { firstFailedAt: START }),
      retried(younger!, START + HOUR, { firstFailedAt: START }),
    ]);
    expect(await expireAll(subject.store, START)).toBe(2);
    expect(await idsOf(subject.store, await claim(subject.store, MUCH_LATER))).toEqual(['m2', 'm3']);
  });

  it('counts a delivery that was given back untried from when it is due', async () => {
    const [old, young] = await hold(subject.store, 2);
    await settle(subject.store, [
      retried(old!, START - HOUR, { rounds: 0 }),
      retried(young!, START, { rounds: 0 }),
    ]);
    expect(await expireAll(subject.store, START)).toBe(1);
    expect(await idsOf(subject.store, await claim(subject.store, MUCH_LATER))).toEqual(['m1']);
  });

  it('counts from the same time after a crash, for what was held too', async () => {
    await park(subject.store, 2, 'parked', START);
    await hold(subject.store, 3, 'held');
    const [tried] = await hold(subject.store, 1, 'tried');
    await settle(subject.store, [retried(tried!, START + HOUR, { firstFailedAt: START })]);
    await subject.restart();
    expect(await expireAll(subject.store, START)).toBe(0);
    expect(await expireAll(subject.store, START + 1)).toBe(6);
    await expectLane(subject.store, 0, 0);
  });

  it('buries for good', async () => {
    await park(subject.store, 5);
    await expireAll(subject.store, START + 1);
    await subject.restart();
    expect(await claim(subject.store, MUCH_LATER)).toEqual([]);
    expect(await expireAll(subject.store, MUCH_LATER)).toBe(0);
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject({ dead: { [OVER]: 5 } });
  });

  it('buries thousands of sets slice by slice, and others are served in between', async () => {
    for (let n = 0; n < 300; n++) await park(subject.store, 20, `s${n}-`, START + n * 2000);
    await park(subject.store, 5, 'last', START + HOUR);
    let slices = 0;
    let buried = 0;
    for (;;) {
      const [slice, lane] = await Promise.all([
        subject.store.queue.expire(CRM, START + HOUR, OVER),
        laneOf(subject.store),
      ]);
      expect(lane.held).toBe(0);
      if (slice === 0) break;
      slices += 1;
      buried += slice;
      expect(slice).toBeLessThan(6000);
    }
    expect(buried).toBe(6000);
    expect(slices).toBeGreaterThan(1);
    await expectLane(subject.store, 0, 5);
  });
}

function spares(subject: Subject): void {
  it('spares what is held, parked before or not', async () => {
    await park(subject.store, 6);
    const claimed = await claim(subject.store, START, 4);
    expect(await expireAll(subject.store, MUCH_LATER)).toBe(2);
    await expectLane(subject.store, 4, 0);
    await settle(subject.store, claimed.map(delivered));
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject({
      delivered: 4,
      dead: { [OVER]: 2 },
    });
  });

  it('spares what another destination is owed, of the same events too', async () => {
    const { log } = subject.store;
    await log.append(batch(events(3), { owed: [owed(CRM, 'parked', 3), owed(WAREHOUSE, 'parked', 3)] }));
    expect(await expireAll(subject.store, MUCH_LATER)).toBe(3);
    expect(await countsOfDestination(subject.store, WAREHOUSE)).toMatchObject({ pending: 3, dead: {} });
  });

  it('spares what is due or failed at that very time', async () => {
    await park(subject.store, 2, 'p', START);
    const [one] = await hold(subject.store, 1);
    await settle(subject.store, [retried(one!, START + HOUR, { firstFailedAt: START })]);
    expect(await expireAll(subject.store, START)).toBe(0);
    await expectLane(subject.store, 0, 3);
  });

  it('finds nothing where nothing is', async () => {
    expect(await subject.store.queue.expire(CRM, MUCH_LATER, OVER)).toBe(0);
  });
}

/**
 * Deliveries that wait together have first failures of their own, and the oldest may have left its set
 * before.
 */
function takesApart(subject: Subject): void {
  it('takes the old out of a set and leaves the young, in their place', async () => {
    const holdings = await hold(subject.store, 10);
    await settle(
      subject.store,
      holdings.map((one, n) => retried(one, START + HOUR, { firstFailedAt: START + n * MINUTE })),
    );
    expect(await expireAll(subject.store, START + 4 * MINUTE)).toBe(4);
    expect(await claim(subject.store, START + HOUR - 1)).toEqual([]);
    const left = await claim(subject.store, MUCH_LATER);
    expect(await idsOf(subject.store, left)).toEqual(['m4', 'm5', 'm6', 'm7', 'm8', 'm9']);
    for (const { delivery } of left) {
      expect(delivery).toMatchObject({ rounds: 1, firstFailedAt: expect.any(Number) });
    }
  });

  it('leaves the rest of a set alone whose oldest delivery was claimed before', async () => {
    const holdings = await hold(subject.store, 3);
    await settle(
      subject.store,
      holdings.map((one, n) => retried(one, START + 1, { firstFailedAt: START + n * HOUR })),
    );
    const [first] = await claim(subject.store, START + MINUTE, 1);
    // In either case, of the two left, those that failed within the first half hour expire.
    const before = START + HOUR / 2;
    const isOld = (first!.delivery.firstFailedAt ?? 0) < before;
    expect(await expireAll(subject.store, before)).toBe(isOld ? 0 : 1);
    await expectLane(subject.store, 1, isOld ? 2 : 1);
  });

  it('leaves the rest of a set alone whose oldest delivery was settled before a crash', async () => {
    const holdings = await hold(subject.store, 3);
    await settle(
      subject.store,
      holdings.map((one, n) => retried(one, START + 1, { firstFailedAt: START + n * HOUR })),
    );
    const claimed = await claim(subject.store, START + MINUTE);
    const oldest = claimed.find(({ delivery }) => delivery.firstFailedAt === START);
    await settle(subject.store, [delivered(oldest!)]);
    await subject.restart();
    expect(await expireAll(subject.store, START + HOUR / 2)).toBe(0);
    await expectLane(subject.store, 0, 2);
    expect(await expireAll(subject.store, START + HOUR + 1)).toBe(1);
  });

  it('goes on behind sets in which nothing is old any more', async () => {
    // The old delivery of each of many sets is delivered; an old one waits behind them.
    const count = 80;
    const holdings: Awaited<ReturnType<typeof hold>> = [];
    for (let n = 0; n < count; n++) {
      const [old, young] = await hold(subject.store, 2, `s${n}-`);
      await settle(subject.store, [
        retried(old!, START + n * MINUTE, { firstFailedAt: START - HOUR }),
        retried(young!, START + n * MINUTE, { firstFailedAt: START + HOUR }),
      ]);
    }
    for (;;) {
      const part = await claim(subject.store, START + count * MINUTE);
      if (part.length === 0) break;
      holdings.push(...part);
    }
    const old = holdings.filter(({ delivery }) => delivery.firstFailedAt! < START);
    await settle(subject.store, old.map(delivered));
    await subject.restart();
    const one = batch(events(1, 'behind'), { owed: [owed(CRM, 'held', 1)] });
    const [behind] = heldFrom(one, await subject.store.log.append(one));
    await settle(subject.store, [retried(behind!, START + HOUR, { firstFailedAt: START - HOUR / 2 })]);
    expect(await expireAll(subject.store, START)).toBe(1);
    await expectLane(subject.store, 0, count);
  });
}
