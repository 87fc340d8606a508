import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest';
import { DAY, HOUR } from '../../src/model/time.ts';
import { SettableClock } from '../support/clock-shim/settable-clock.ts';
import { type Chance, chanceOf } from '../support/disk-faults/random.ts';
import { makePlace, oneDestination, type Place } from '../support/program.ts';
import { freePort } from '../support/receiver.ts';
import { roundsOf, SEED } from '../support/runs.ts';
import { audit, deadOf, lost } from './books.ts';
import { Calls } from './calls.ts';
import { Endpoint, OLDEST_REPEAT } from './endpoint.ts';
import { endAll, start } from './instance.ts';
import { largest, passed } from './passed.ts';
import { Traffic } from './traffic.ts';

const STEPS = [HOUR, -HOUR, DAY, -DAY];

describe.runIf(inject('clockShim') !== '')('a wall clock that is set in the middle of load', () => {
  let place: Place;
  let endpoint: Endpoint;
  let clock: SettableClock;
  let calls: Calls;

  beforeEach(async () => {
    calls = new Calls('clock');
    endpoint = new Endpoint(await freePort(), chanceOf(SEED), calls);
    place = makePlace(oneDestination([`http://127.0.0.1:${endpoint.port}/in`]));
    clock = new SettableClock();
  });
  afterEach(async () => {
    await endAll();
    await endpoint.stop();
    clock.remove();
    place.remove();
  });

  it('loses nothing, holds nothing up, ends no window, and repeats no more than a kill does', async () => {
    let steps = 0;
    for (const { nth, seed, chance } of roundsOf('clock', { gate: 2, long: 40 })) {
      const by = STEPS[nth % STEPS.length]!;
      await setDuring(by, chance);
      steps++;
      // Every other time it is set back to where it was while no program runs, and otherwise in the middle of
      // the next.
      if (nth % 2 === 0) clock.step(-by);
      console.log(
        `clock ${nth}, seed ${seed}: set by ${by / HOUR} h, ${calls.acknowledged.size} acknowledged`,
      );
    }
    expect(clock.attached).toBeGreaterThan(0);
    await settleEverything();
    const books = await audit(place.data);
    const { byCrash, oldest, unexplained } = endpoint.repeats;
    expect(lost(calls.acknowledged, books)).toEqual([]);
    expect(unexplained).toEqual([]);
    expect(oldest).toBeLessThan(OLDEST_REPEAT);
    // Each event is stored once, also when it was sent again after a day that never passed.
    expect(books.source.accepted).toBe(calls.made);
    expect(books.destination).toMatchObject({
      owed: calls.made,
      pending: 0,
      delivered: endpoint.accepted.size,
    });
    expect(deadOf(books.destination)).toBe(endpoint.refused.size);
    passed('clock', {
      steps,
      acknowledged: calls.acknowledged.size,
      'duplicates, most per crash': largest(byCrash.values()),
      'oldest repeated, answers before the crash': oldest,
    });
  });

  /** Sets the clock during an outage, brings the endpoint back, and kills the program at work. */
  async function setDuring(by: number, chance: Chance): Promise<void> {
    await endpoint.be('down');
    const instance = await start(place, { env: clock.env });
    const traffic = new Traffic(instance.url, { calls, chance, connections: chance.between(2, 8) });
    const { size } = calls.acknowledged;
    await traffic.until(() => calls.acknowledged.size >= size + 300);
    clock.step(by);
    await traffic.until(() => calls.acknowledged.size >= size + 600);
    await endpoint.be('up');
    await endpoint.drain(calls.acknowledged);
    // It looks once a second, and a round may end sooner.
    await traffic.until(() => instance.said().includes('clock.stepped'));
    await traffic.until(() => traffic.inFlight > 0);
    await instance.kill();
    endpoint.crashed();
    await traffic.stop();
    expect(traffic.wrong).toEqual([]);
  }

  async function settleEverything(): Promise<void> {
    const last = await start(place, { env: clock.env });
    const next = () => (calls.open > 0 ? calls.retry(100) : undefined);
    const traffic = new Traffic(last.url, { calls, chance: chanceOf(SEED), connections: 2, next });
    await traffic.ended();
    expect(traffic.wrong).toEqual([]);
    expect(calls.acknowledged.size).toBe(calls.made);
    await endpoint.drain(calls.acknowledged);
    expect(await last.stop()).toMatchObject({ code: 0 });
  }
});
