import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { openLogReader } from '../../src/adapters/sqlite/log/log-reader.ts';
import type { Event } from '../../src/model/event.ts';
import { AUDIENCES_SOURCE } from '../../src/model/settings.ts';
import { send } from '../support/calls.ts';
import { type Chance, chanceOf } from '../support/disk-faults/random.ts';
import { adminTokenOf, makePlace, oneDestination, type Place } from '../support/program.ts';
import { freePort } from '../support/receiver.ts';
import { type Round, roundsOf, SEED } from '../support/runs.ts';
import { openStore } from '../support/shared-writer.ts';
import { until } from '../support/until.ts';
import { Endpoint } from './endpoint.ts';
import { endAll, launch, start } from './instance.ts';
import { passed } from './passed.ts';
import { lasting } from './waiting.ts';

const USERS = 40;
const CALLS_OF_A_BATCH = 25;

/** Most batches that a life takes before it is killed. */
const MOST_BATCHES = 60;

const COMPUTATIONS = `
profiles: auto
audiences:
  - name: Buyers
    definition: event('Order').count() >= 3
    destinations: [crm]
  - name: Pro
    definition: trait('plan') = 'pro'
    destinations: [crm]
  - name: Pro Buyers
    definition: audience('Buyers') and audience('Pro')
    destinations: [crm]
traits:
  - name: Spent
    definition: event('Order').sum(property('total'))
    destinations: [crm]
`;

type Call = Readonly<Record<string, unknown>> & { readonly messageId: string };

describe('profiles of a program killed at any moment', () => {
  let place: Place;
  let endpoint: Endpoint;

  afterEach(async () => {
    await endAll();
    await endpoint.stop();
    place.remove();
  });

  it('are those of an undisturbed run, and destinations hear each change once', async () => {
    endpoint = new Endpoint(await freePort(), chanceOf(SEED));
    await endpoint.be('up');
    place = makePlace(`${oneDestination([`http://127.0.0.1:${endpoint.port}/in`])}${COMPUTATIONS}`);
    const sent: Call[] = [];
    let open: readonly Call[] = [];
    let [rounds, behind] = [0, 0];
    for (const round of roundsOf('profiles', { gate: 2, long: 40 })) {
      const life = await liveAndDie(round, { sent, open });
      open = life.open;
      rounds++;
      if (life.wasBehind) behind++;
      console.log(
        `profiles ${round.nth}, seed ${round.seed}: killed after ${life.batches} batches, ${sent.length} calls so far`,
      );
    }
    const first = await start(place);
    expect(await deliver(first.url, open)).toBe(true);
    await first.stop();
    const users = usersOf(sent);
    const { disturbed, told } = await until('destinations have heard what profiles say', async () => {
      const last = await start(place);
      await until('profiles have seen every event', async () => (await behindOf(last.url)) === 0);
      // A change is held for a second before it is told.
      await lasting(2000);
      const shown = await digest(last.url, users);
      expect((await last.stop()).code).toBe(0);
      const said = await toldBy(place.data);
      expect(endsOf(said)).toEqual(membershipsIn(shown));
      return { disturbed: shown, told: said };
    });
    expectEachChangeOnce(told);

    // An undisturbed run over the same log: without the file of profiles, all of it is applied again from the
    // beginning.
    const again = { ...place, data: join(place.folder, 'again') };
    cpSync(place.data, again.data, { recursive: true });
    for (const file of ['users.db', 'users.db-wal']) rmSync(join(again.data, file), { force: true });
    const undisturbed = await start(again);
    await until('profiles of the undisturbed run are the same', async () =>
      expect(await digest(undisturbed.url, users, again)).toEqual(disturbed),
    );
    expect((await undisturbed.stop()).code).toBe(0);
    passed('profiles killed', {
      rounds,
      calls: sent.length,
      profiles: disturbed.size,
      'changes told': told.length,
      'killed while profiles were behind': behind,
    });
  });

  /**
   * One life of the program: it takes calls in their order, one request after the other, and is killed. Calls
   * that were not answered may be stored or not: the next life gets them first, under their ids. Resolves to
   * them.
   */
  async function liveAndDie({ chance }: Round, { sent, open }: Sent): Promise<Life> {
    const instance = launch(place);
    const url = await instance.ready;
    if (url === undefined) throw new Error(`millrace did not start again; it said:\n${instance.said()}`);
    const enough = chance.between(1, MOST_BATCHES);
    let batches = 0;
    let isOver = false;
    const sending = (async () => {
      for (let batch = open; ; ) {
        if (!(await deliver(url, batch)) || isOver) return batch;
        batches++;
        batch = Array.from({ length: CALLS_OF_A_BATCH }, (_, n) => callOf(chance, sent.length + n));
        sent.push(...batch);
      }
    })();
    await until(`${enough} batches are stored`, () => batches >= enough);
    await lasting(chance.between(0, 50));
    isOver = chance.happens(0.2);
    const wasBehind = !isOver && (await behindOf(url)) > 0;
    await instance.kill();
    endpoint.crashed();
    return { batches, wasBehind, open: await sending };
  }

  async function ask(url: string, path: string, of: Place = place): Promise<Response> {
    return fetch(`${url}${path}`, { headers: { authorization: `Bearer ${adminTokenOf(of)}` } });
  }

  async function metric(url: string, name: string, of: Place = place): Promise<number> {
    const text = await (await ask(url, '/metrics', of)).text();
    return Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'm').exec(text)?.[1]);
  }

  const behindOf = (url: string) => metric(url, 'millrace_profiles_behind_events').catch(() => 0);

  /** Every profile as operators see it, by user. */
  async function digest(
    url: string,
    users: readonly string[],
    of: Place = place,
  ): Promise<Map<string, Shown>> {
    const shown = new Map<string, Shown>();
    for (const user of users) {
      const answer = await ask(url, `/api/v1/profiles/${user}`, of);
      expect([user, answer.status]).toEqual([user, 200]);
      shown.set(user, (await answer.json()) as Shown);
    }
    return shown;
  }
});

/** All calls that were made, and those of them without an answer. */
interface Sent {
  readonly sent: Call[];
  readonly open: readonly Call[];
}

interface Life {
  readonly batches: number;
  readonly wasBehind: boolean;
  readonly open: readonly Call[];
}

interface Shown {
  readonly userId: string;
  readonly audiences: readonly string[];
  readonly computedTraits: Readonly<Record<string, number>>;
}

/** A call like those of a website: visitors without a userId, who identify now and then. */
function callOf(chance: Chance, n: number): Call {
  const user = `u${chance.between(0, USERS - 1)}`;
  const ids = chance.happens(0.4)
    ? { anonymousId: `anon-${chance.between(0, USERS * 3)}` }
    : { userId: user, anonymousId: `anon-${user.slice(1)}-${chance.between(0, 2)}` };
  const timestamp = new Date(Date.UTC(2026, 0, 1) + n * 1000).toISOString();
  const base = { messageId: `m${n}`, timestamp, ...ids };
  if (chance.happens(0.25) && 'userId' in ids)
    return { ...base, type: 'identify', traits: { plan: chance.one(['pro', 'free']), logins: n } };
  const total = chance.between(1, 500) / 100;
  return { ...base, type: 'track', event: chance.one(['Order', 'Visit']), properties: { total } };
}

function usersOf(calls: readonly Call[]): string[] {
  return [...new Set(calls.flatMap(({ userId }) => (typeof userId === 'string' ? [userId] : [])))].sort();
}

/** False when the program died before it answered. */
async function deliver(url: string, batch: readonly Call[]): Promise<boolean> {
  if (batch.length === 0) return true;
  try {
    const { status } = await send(url, '/v1/batch', { batch });
    if (status === 200) return true;
    throw new Error(`a batch was answered ${status}`);
  } catch (error) {
    if (error instanceof TypeError || error instanceof SyntaxError) return false;
    throw error;
  }
}

/** A change that a destination was told. */
interface Told {
  readonly messageId: string;
  readonly who: string;
  readonly key: string;
  readonly value: unknown;
}

/** Changes that destinations were told, in the order of the log. */
async function toldBy(folder: string): Promise<Told[]> {
  const store = await openStore({ folder });
  const reader = openLogReader(folder);
  try {
    const { sources } = await store.settings.load();
    const own = sources.find(({ name }) => name === AUDIENCES_SOURCE.name)!.id;
    const told: Told[] = [];
    for (let at = 0; ; ) {
      const page = await reader.page(at, 5000);
      page.sources.forEach((source, nth) => {
        if (source === own)
          told.push(...changesIn(page.lines.subarray(page.starts[nth]!, page.starts[nth + 1]! - 1)));
      });
      if (page.next === at) return told;
      at = page.next;
    }
  } finally {
    await reader.stop();
    await store.stop();
  }
}

function changesIn(line: Uint8Array): Told[] {
  const {
    messageId,
    userId,
    traits = {},
  } = JSON.parse(Buffer.from(line).toString()) as Event & {
    readonly traits?: Readonly<Record<string, unknown>>;
  };
  return Object.entries(traits).map(([key, value]) => ({ messageId, who: userId ?? '', key, value }));
}

function expectEachChangeOnce(told: readonly Told[]): void {
  expect(new Set(told.map(({ messageId }) => messageId)).size).toBe(told.length);
  const before = new Map<string, unknown>();
  for (const { who, key, value } of told) {
    // Nobody is told the same twice in a row, or that he is no member of what he never was told to be one of.
    expect([who, key, before.get(`${who} ${key}`) ?? false]).not.toEqual([who, key, value]);
    before.set(`${who} ${key}`, value);
  }
}

/** The last value of each user at its destinations. */
function endsOf(told: readonly Told[]): Map<string, unknown> {
  const ends = new Map(told.map(({ who, key, value }) => [`${who} ${key}`, value]));
  return new Map([...ends].filter(([, value]) => value !== false && value !== null).sort());
}

const KEYS: Readonly<Record<string, string>> = { Buyers: 'buyers', Pro: 'pro', 'Pro Buyers': 'pro_buyers' };

function membershipsIn(shown: ReadonlyMap<string, Shown>): Map<string, unknown> {
  const values: [string, unknown][] = [];
  for (const { userId, audiences, computedTraits } of shown.values()) {
    for (const name of audiences) values.push([`${userId} ${KEYS[name]}`, true]);
    for (const [key, value] of Object.entries(computedTraits)) values.push([`${userId} ${key}`, value]);
  }
  return new Map(values.sort());
}
