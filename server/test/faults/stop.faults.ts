import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { chanceOf } from '../support/disk-faults/random.ts';
import { makePlace, oneDestination, type Place } from '../support/program.ts';
import { freePort } from '../support/receiver.ts';
import { roundsOf, SEED } from '../support/runs.ts';
import { audit, deadOf, lost, releaseAll } from './books.ts';
import { Calls } from './calls.ts';
import { Endpoint, type Mood } from './endpoint.ts';
import { endAll, launch, start } from './instance.ts';
import { passed } from './passed.ts';
import { everythingAccepted } from './recovery.ts';
import { Traffic } from './traffic.ts';
import { lasting } from './waiting.ts';

const CONNECTIONS = 8;

describe('a program', () => {
  let place: Place;
  let endpoint: Endpoint;

  beforeEach(async () => {
    endpoint = new Endpoint(await freePort(), chanceOf(SEED));
    place = makePlace(oneDestination([`http://127.0.0.1:${endpoint.port}/in`]));
  });

  afterEach(async () => {
    await endAll();
    await endpoint.stop();
    place.remove();
  });

  it('told to stop under load ends in order: nothing is lost and nothing delivered twice', async () => {
    const calls = new Calls('stop');
    const tally = { rounds: 0, slowest: 0 };
    const moods: readonly Mood[] = ['up', 'slow', 'failing', 'down'];
    for (const { nth, seed, chance } of roundsOf('stop', { gate: 2, long: 40 })) {
      await endpoint.be(moods[nth % moods.length]!);
      const live = await start(place);
      const traffic = new Traffic(live.url, { calls, chance, connections: CONNECTIONS });
      const before = calls.acknowledged.size;
      await traffic.until(() => calls.acknowledged.size > before + 50);
      await lasting(chance.between(0, 400));
      expect(traffic.inFlight).toBeGreaterThan(0);
      const { code, ms } = await live.stop();
      await traffic.stop();
      expect(code, live.said()).toBe(0);
      expect(traffic.wrong).toEqual([]);
      tally.rounds++;
      tally.slowest = Math.max(tally.slowest, ms);
      console.log(
        `stop ${nth}, seed ${seed}: endpoint ${moods[nth % moods.length]}, ended in ${Math.round(ms)} ms`,
      );
    }
    await endpoint.be('up');
    const last = await start(place);
    await everythingAccepted(last.url, calls);
    await last.stop();
    await releaseAll(place.data);
    const drain = await start(place);
    await endpoint.drain(calls.acknowledged);
    expect(await drain.stop()).toMatchObject({ code: 0 });

    const books = await audit(place.data);
    const { source, destination } = books;
    const missing = lost(calls.acknowledged, books);
    expect(missing).toEqual([]);
    // The endpoint knows of no crash: every delivery that came twice counts as unexplained.
    expect(endpoint.repeats.unexplained).toEqual([]);
    expect(source.accepted).toBe(calls.made);
    expect(destination).toMatchObject({ owed: calls.made, pending: 0, delivered: endpoint.accepted.size });
    expect(deadOf(destination)).toBe(endpoint.refused.size);
    passed('stop', {
      rounds: tally.rounds,
      acknowledged: calls.acknowledged.size,
      lost: missing.length,
      'delivered twice': endpoint.repeats.unexplained.length,
      'slowest, ms': Math.round(tally.slowest),
    });
  });

  it('refuses a data folder that another one works on, and leaves that one alone', async () => {
    await endpoint.be('up');
    const calls = new Calls('second');
    const first = await start(place);
    const traffic = new Traffic(first.url, { calls, chance: chanceOf(SEED), connections: CONNECTIONS });
    for (let nth = 0; nth < 3; nth++) {
      const before = calls.acknowledged.size;
      const second = launch(place);
      expect(await second.ready, 'a second program on one data folder').toBeUndefined();
      expect(await second.ended).toBe(1);
      expect(second.said()).toMatch(
        new RegExp(`in use by another running Millrace \\(process ${first.pid}\\)`),
      );
      await traffic.until(() => calls.acknowledged.size > before + 10);
    }
    await traffic.stop();
    expect(traffic.wrong).toEqual([]);
    expect([...traffic.statuses.keys()]).toEqual([200]);
    await endpoint.drain(calls.acknowledged);
    expect(await first.stop()).toMatchObject({ code: 0 });
    const books = await audit(place.data);
    expect(lost(calls.acknowledged, books)).toEqual([]);
    expect(endpoint.repeats.unexplained).toEqual([]);
    passed('two programs on one folder', { rounds: 3, acknowledged: calls.acknowledged.size, lost: 0 });
  });
});
