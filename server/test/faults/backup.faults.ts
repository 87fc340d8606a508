import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { chanceOf } from '../support/disk-faults/random.ts';
import { adminTokenOf, makePlace, oneDestination, type Place, runProgram } from '../support/program.ts';
import { freePort } from '../support/receiver.ts';
import { amountOf, roundsOf, SEED } from '../support/runs.ts';
import { openStore } from '../support/shared-writer.ts';
import { until } from '../support/until.ts';
import { audit, auditCopy, deadOf, lost, releaseAll } from './books.ts';
import { Calls } from './calls.ts';
import { Endpoint } from './endpoint.ts';
import { endAll, launch, start } from './instance.ts';
import { largest, passed } from './passed.ts';
import { Traffic } from './traffic.ts';

const CONNECTIONS = 6;

/** Events stored beforehand: the copy then takes as long as hundreds of commits. */
const EARLIER = amountOf({ gate: 10_000, long: 50_000 });

/** Events acknowledged before a backup begins: enough that some are delivered, some waiting and some dead. */
const BEFORE = 1500;

interface Made {
  readonly at: string;
  readonly bytes: number;
  readonly events: number;
  readonly seconds: number;
}

describe('a backup of a server at work', () => {
  let place: Place;
  let endpoint: Endpoint;

  afterEach(async () => {
    await endAll();
    await endpoint.stop();
    place.remove();
  });

  it('holds every event acknowledged before it, and a server restored from it delivers what is owed', async () => {
    const facts = { backups: 0, MB: 0, acknowledgedBefore: 0, meanwhile: 0, lost: 0, slowest: 0 };
    for (const { nth, seed, chance } of roundsOf('backup', { gate: 1, long: 10 })) {
      endpoint = new Endpoint(await freePort(), chance);
      await endpoint.be('failing');
      place = makePlace(oneDestination([`http://127.0.0.1:${endpoint.port}/in`]));
      await storeEarlierEvents(place);
      const calls = new Calls(`backup-${nth}`);
      const at = new Map<string, number>();
      calls.onAcknowledged = (id) => at.set(id, Date.now());

      const original = await start(place);
      const traffic = new Traffic(original.url, { calls, chance, connections: CONNECTIONS });
      await traffic.until(() => calls.acknowledged.size > BEFORE);
      const folder = join(place.folder, 'backup');
      const made = await backUp(original.url, place, folder);
      const when = Date.parse(made.at);
      const before = [...at].filter(([, time]) => time < when).map(([id]) => id);
      const meanwhile = [...at.values()].filter((time) => time >= when).length;
      await traffic.until(() => calls.acknowledged.size > before.length + meanwhile + 100);
      await original.kill();
      endpoint.crashed();
      await traffic.stop();
      expect(traffic.wrong).toEqual([]);
      expect(before.length).toBeGreaterThan(BEFORE);
      expect(meanwhile).toBeGreaterThan(0);
      expect(readdirSync(folder).sort()).toEqual(['manifest.json', 'millrace.db']);

      rmSync(place.data, { recursive: true });
      await restore(folder, place);
      const books = await auditCopy(place.data);
      expect(books.stored.size).toBe(made.events);
      expect(lost(before, books)).toEqual([]);
      const { owed, delivered, pending } = books.destination;
      expect(owed).toBe(delivered + pending + deadOf(books.destination));
      console.log(
        `backup ${nth}, seed ${seed}: ${made.bytes} bytes in ${made.seconds} s, ${before.length} acknowledged before, ` +
          `${meanwhile} meanwhile; of ${owed} owed then ${delivered} delivered, ${pending} pending, ${deadOf(books.destination)} dead`,
      );

      await deliverTheRest(new Set([...books.stored].filter((id) => !id.startsWith('earlier'))));
      const { destination } = await audit(place.data);
      expect(destination).toMatchObject({ owed, pending: 0, delivered: owed - deadOf(destination) });
      facts.backups++;
      facts.MB = Math.max(facts.MB, Math.round(made.bytes / 1024 / 1024));
      facts.slowest = largest([facts.slowest, made.seconds]);
      facts.acknowledgedBefore += before.length;
      facts.meanwhile += meanwhile;
      facts.lost += lost(before, books).length;
      await endpoint.stop();
      place.remove();
    }
    passed('backup', facts);
  });

  it('leaves nothing that could be taken for one when the server dies while it is made', async () => {
    endpoint = new Endpoint(await freePort(), chanceOf(SEED));
    await endpoint.be('up');
    place = makePlace(oneDestination([`http://127.0.0.1:${endpoint.port}/in`]));
    await storeEarlierEvents(place);
    const server = await start(place, { env: { MILLRACE_ADMIN_TOKEN: 'secret' } });
    const folder = join(place.folder, 'backup');
    const headers = { authorization: 'Bearer secret' };
    const begun = await fetch(`${server.url}/api/v1/backups`, {
      ...{ method: 'POST', headers, body: JSON.stringify({ folder }) },
    });
    expect(await begun.json()).toMatchObject({ state: 'running' });
    await until('the copy is begun', () => existsSync(join(folder, 'millrace.db.unfinished')), { pause: 1 });
    await server.kill();
    expect(readdirSync(folder)).not.toContain('millrace.db');
    const restored = await runProgram({ args: ['restore', folder, '--data', join(place.folder, 'new')] });
    expect(restored).toMatchObject({ code: 1, stderr: expect.stringContaining('came to no end') });

    // The data folder is in the same state as after any other crash.
    const again = await start(place);
    expect(await again.stop()).toMatchObject({ code: 0 });
    expect((await audit(place.data)).stored.size).toBe(EARLIER);
  });

  /**
   * Starts once, which makes the source, and stores incompressible events that are owed to no destination.
   */
  async function storeEarlierEvents({ data }: Place): Promise<void> {
    expect(await (await start(place)).stop()).toMatchObject({ code: 0 });
    const store = await openStore({ folder: data });
    try {
      const source = (await store.settings.load()).sources[0]!.id;
      for (let first = 0; first < EARLIER; first += 500) {
        const events = Array.from({ length: 500 }, (_, nth) => {
          const messageId = `earlier-${first + nth}`;
          const properties = { text: randomBytes(750).toString('base64') };
          const json = JSON.stringify({ type: 'track', event: 'E', userId: 'u1', messageId, properties });
          return { source, messageId, userId: 'u1', json };
        });
        const received = [{ source, calls: events.length, discarded: {} }];
        await store.log.append({
          ...{ id: `earlier-${first}`, receivedAt: Date.now(), events },
          ...{ plans: [], planIndexes: [], owed: [], received },
        });
      }
    } finally {
      await store.stop();
    }
  }

  /**
   * A first start of the restored folder as it is, and a second one that need not wait for what is to be
   * tried later.
   */
  async function deliverTheRest(ids: ReadonlySet<string>): Promise<void> {
    await endpoint.be('up');
    const first = launch(place);
    expect(await first.ready).toMatch(/^http/);
    expect(await first.stop()).toMatchObject({ code: 0 });
    await releaseAll(place.data);
    const second = await start(place);
    await endpoint.drain(ids);
    expect(await second.stop()).toMatchObject({ code: 0 });
  }
});

it('a server restored from a backup keeps a split: the profiles that it makes again stay apart', async () => {
  const config = 'profiles: on\nsources: [{ name: website, writeKeys: [wk], trust: server }]\n';
  const place = makePlace(config);
  try {
    const original = await start(place);
    const call = (body: object) =>
      fetch(`${original.url}/v1/batch`, {
        method: 'POST',
        headers: { authorization: `Basic ${btoa('wk:')}` },
        body: JSON.stringify({ batch: [body] }),
      });
    const profileAt = async (url: string, userId: string) => {
      const answer = await fetch(`${url}/api/v1/profiles/${userId}`, {
        headers: { authorization: `Bearer ${adminTokenOf(place)}` },
      });
      return (await answer.json()) as { userId: string; formerUserIds: string[]; traits: object };
    };
    for (const userId of ['ann', 'bob'])
      expect((await call({ type: 'identify', userId, traits: { name: userId } })).status).toBe(200);
    await call({ type: 'alias', previousId: 'ann', userId: 'bob' });
    await until('they are one', async () =>
      expect((await profileAt(original.url, 'ann')).formerUserIds).toEqual(['ann']),
    );
    const split = ['profiles', 'split', 'bob', 'ann', '--yes', '--url', original.url, '--data', place.data];
    expect(await runProgram({ args: split })).toMatchObject({ code: 0 });
    const folder = join(place.folder, 'backup');
    await backUp(original.url, place, folder);
    expect(await original.stop()).toMatchObject({ code: 0 });

    rmSync(place.data, { recursive: true });
    await restore(folder, place);
    const restored = await start(place);
    for (const userId of ['ann', 'bob'])
      await until(`${userId} is a user of its own`, async () =>
        expect(await profileAt(restored.url, userId)).toMatchObject({
          ...{ userId, formerUserIds: [], traits: { name: userId } },
        }),
      );
    expect(await restored.stop()).toMatchObject({ code: 0 });
  } finally {
    await endAll();
    place.remove();
  }
});

async function backUp(url: string, { data }: Place, folder: string): Promise<Made> {
  const args = ['backup', folder, '--json', '--url', url, '--data', data];
  const { code, stdout, stderr } = await runProgram({ args });
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return JSON.parse(stdout) as Made;
}

async function restore(folder: string, { data }: Place): Promise<void> {
  const { code, stdout, stderr } = await runProgram({ args: ['restore', folder, '--data', data] });
  expect({ code, stderr }).toMatchObject({ code: 0 });
  expect(stdout).toContain('everything in it can be read');
}
