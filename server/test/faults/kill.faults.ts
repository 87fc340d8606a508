import { writeFileSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import { chanceOf } from '../support/disk-faults/random.ts';
import { makePlace, oneDestination, type Place } from '../support/program.ts';
import { freePort } from '../support/receiver.ts';
import { type Round, roundsOf, SEED } from '../support/runs.ts';
import { audit, auditCopy, deadOf, lost, releaseAll } from './books.ts';
import { Calls } from './calls.ts';
import { Endpoint, MOODS, OLDEST_REPEAT } from './endpoint.ts';
import { endAll, launch, start } from './instance.ts';
import { largest, passed } from './passed.ts';
import { Traffic } from './traffic.ts';
import { lasting } from './waiting.ts';

const MOST_CONNECTIONS = 12;

/** Most calls that a life takes before the moment comes at which it is killed. */
const MOST_CALLS = 400;

/** Number of rounds per audit: the audit of a killed program's folder takes longer than a round. */
const AUDIT_EVERY = 10;

describe('a program killed at any moment', () => {
  let config: string;
  let place: Place;
  let endpoint: Endpoint;

  afterEach(async () => {
    await endAll();
    await endpoint.stop();
    place.remove();
  });

  it('loses nothing it has acknowledged, and repeats only what it sent last', async () => {
    const calls = new Calls('kill');
    endpoint = new Endpoint(await freePort(), chanceOf(SEED), calls);
    config = oneDestination([`http://127.0.0.1:${endpoint.port}/in`]);
    place = makePlace(config);
    const tally = { rounds: 0, midTraffic: 0, starting: 0, stopping: 0 };

    for (const round of roundsOf('kill', { gate: 4, long: 200 })) {
      const mood = round.chance.one(MOODS);
      await endpoint.be(mood);
      const before = calls.acknowledged.size;
      const moment = await liveAndDie(round, calls);
      tally.rounds++;
      tally[moment.kind]++;
      const acknowledged = calls.acknowledged.size - before;
      console.log(
        `kill ${round.nth}, seed ${round.seed}: endpoint ${mood}, ${moment.said}, ${acknowledged} acknowledged`,
      );
      if (round.nth % AUDIT_EVERY === 0) {
        expect(lost(calls.acknowledged, await auditCopy(place.data))).toEqual([]);
      }
    }
    // The kills must have interrupted traffic; the checks above mean nothing otherwise.
    expect(tally.midTraffic).toBeGreaterThan(tally.rounds * 0.6);
    expect(calls.acknowledged.size).toBeGreaterThan(tally.rounds * 10);

    await settleEverything(calls);
    const books = await audit(place.data);
    const { source, destination } = books;
    expect(lost(calls.acknowledged, books)).toEqual([]);
    const { byCrash, oldest, unexplained } = endpoint.repeats;
    expect(unexplained).toEqual([]);
    expect(oldest).toBeLessThan(OLDEST_REPEAT);
    // Each event was sent until it was acknowledged, and is stored once in spite of the kills.
    expect(source.accepted).toBe(calls.made);
    expect(destination).toMatchObject({ owed: calls.made, pending: 0, delivered: endpoint.accepted.size });
    expect(deadOf(destination)).toBe(endpoint.refused.size);
    passed('kill', {
      rounds: tally.rounds,
      acknowledged: calls.acknowledged.size,
      lost: lost(calls.acknowledged, books).length,
      'duplicates, most per crash': largest(byCrash.values()),
      'killed while starting': tally.starting,
      'while stopping': tally.stopping,
      'oldest repeated, answers before the crash': oldest,
    });
  });

  /** One life of the program: it starts, takes calls, and is killed at a moment drawn by lot. */
  async function liveAndDie({ nth, chance }: Round, calls: Calls): Promise<Moment> {
    // Requests are sent by the main thread, or by others.
    writeFileSync(place.config, `${config}threads: ${chance.one([0, 1, 2])}\n`);
    const instance = launch(place);
    // Some die before they are ready, and some while they stop.
    if (nth % 10 === 4) {
      const ms = chance.between(50, 600);
      await Promise.race([lasting(ms), instance.ready]);
      await instance.kill();
      endpoint.crashed();
      return { kind: 'starting', said: `killed ${ms} ms after its start` };
    }
    const url = await instance.ready;
    if (url === undefined) throw new Error(`millrace did not start again; it said:\n${instance.said()}`);
    const traffic = new Traffic(url, { calls, chance, connections: chance.between(2, MOST_CONNECTIONS) });
    const enough = calls.acknowledged.size + chance.between(1, MOST_CALLS);
    await traffic.until(() => calls.acknowledged.size >= enough);
    // Some lives are long enough for what the program does once a second.
    const ms = chance.happens(0.1) ? chance.between(1200, 2000) : chance.between(0, 30);
    await lasting(ms);
    const stopping = nth % 10 === 8;
    if (stopping) {
      const stopped = instance.stop();
      await Promise.race([lasting(chance.between(0, 60)), stopped]);
    }
    const { inFlight } = traffic;
    await instance.kill();
    endpoint.crashed();
    await traffic.stop();
    expect(traffic.wrong).toEqual([]);
    const kind = stopping ? 'stopping' : inFlight > 0 ? 'midTraffic' : 'idle';
    if (kind === 'idle') throw new Error('no request was in flight when the program was killed');
    return {
      kind,
      said: `killed ${stopping ? 'while stopping' : `with ${inFlight} in flight`}`,
    };
  }

  /** Sends the open events until they are acknowledged, and lets everything be delivered. */
  async function settleEverything(calls: Calls): Promise<void> {
    await endpoint.be('up');
    const last = await start(place);
    const next = () => (calls.open > 0 ? calls.retry(100) : undefined);
    const traffic = new Traffic(last.url, { calls, chance: chanceOf(SEED), connections: 2, next });
    await traffic.ended();
    expect(traffic.wrong).toEqual([]);
    expect(calls.acknowledged.size).toBe(calls.made);
    expect(await last.stop()).toMatchObject({ code: 0 });
    await releaseAll(place.data);
    const drain = await start(place);
    await endpoint.drain(calls.acknowledged);
    expect(await drain.stop()).toMatchObject({ code: 0 });
  }
});

interface Moment {
  readonly kind: 'midTraffic' | 'starting' | 'stopping';
  readonly said: string;
}
