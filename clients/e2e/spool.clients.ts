import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { PASS, refusal } from '../../server/test/support/fault-proxy.ts';
import { type ClientOptions, type Driver, libraries, startDriver } from './library.ts';
import { expectSum, startWorld, type World } from './world.ts';

const { found } = libraries();

/**
 * With a spool an accepted call survives its process: nothing is lost by outages and SIGKILLs of the client.
 */
describe.each(found)('the $name client with a spool', (library) => {
  let world: World;
  let folder: string;
  let tests = 0;
  let prefix = '';

  beforeAll(async () => {
    world = await startWorld();
  });
  afterAll(() => world.stop());
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-spool-'));
    prefix = `s${++tests}-`;
    world.proxy.use(() => PASS);
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const start = async (options: ClientOptions = {}): Promise<Driver> => {
    const endpoint = world.proxy.url;
    const spool = { dir: folder };
    const driver = await startDriver(library, {
      writeKey: 'wk',
      endpoint,
      waitScale: 0.01,
      spool,
      ...options,
    });
    expect(driver.ready, driver.log()).toMatchObject({ ready: true });
    return driver;
  };

  const calls = (client: Driver, count: number, from = 0) =>
    Promise.all(
      Array.from({ length: count }, (_, n) =>
        client.call('track', {
          userId: 'u1',
          event: 'E',
          messageId: `${prefix}${from + n}`,
          properties: { n },
        }),
      ),
    );

  const files = () => readdirSync(folder, { recursive: true }).filter((name) => /\d/.test(String(name)));

  it('delivers as without one, and leaves nothing behind', async () => {
    const client = await start();
    await calls(client, 300);
    expect(await client.close()).toMatchObject({ ok: true });
    expect((await expectSum(world, client, prefix)).succeeded.size).toBe(300);
    expect(await client.end()).toBe(0);
    const next = await start();
    expect(await next.close()).toMatchObject({ ok: true });
    expect(next.reported).toEqual([]);
    await next.end();
  });

  it('loses nothing of an outage in which the client is killed three times', async () => {
    world.proxy.use(() => refusal(503));
    const accepted = new Set<string>();
    const failed = new Set<string>();
    for (let life = 0; life < 3; life++) {
      const client = await start();
      await calls(client, 200, life * 1_000);
      // Some are accepted while it dies; a call without an answer was promised nothing.
      const last = calls(client, 200, life * 1_000 + 200).catch(() => []);
      await client.until(() => client.accepted.size > 250);
      await client.kill();
      await last;
      for (const id of client.accepted) accepted.add(id);
      for (const { callback, messageId } of client.reported)
        if (callback === 'failure') failed.add(messageId);
    }
    world.proxy.use(() => PASS);
    const client = await start();
    expect(await client.flush()).toMatchObject({ ok: true });
    await world.receiver.until(() => {
      const arrived = world.arrived();
      return [...accepted].every((id) => arrived.has(id) || failed.has(id));
    });
    expect(accepted.size).toBeGreaterThan(750);
    expect([...failed]).toEqual([]);
    for (const [id, times] of world.arrived()) if (id.startsWith(prefix)) expect(times, id).toBe(1);
    expect(await client.close()).toMatchObject({ ok: true });
    expect(await client.end()).toBe(0);
  });

  it('loses nothing of an hour of outage, at a four-hundredth of its time, in which the client is killed three times', async () => {
    world.proxy.use(() => refusal(503, { 'retry-after': '30' }));
    const accepted = new Set<string>();
    const tries = world.proxy.requests.length;
    for (let life = 0; life < 4; life++) {
      const client = await start({ waitScale: 1 / 400 });
      const until = performance.now() + 3_600_000 / 400 / 4;
      for (let n = 0; performance.now() < until; n += 10) {
        await calls(client, 10, life * 1_000_000 + n);
        // A slow stream: the hour is long, not busy.
        await setTimeout(20);
      }
      for (const id of client.accepted) accepted.add(id);
      expect(client.reported).toEqual([]);
      if (life < 3) {
        await client.kill();
        continue;
      }
      await world.proxy.until(() => world.proxy.requests.length - tries > 10);
      world.proxy.use(() => PASS);
      expect(await client.close()).toMatchObject({ ok: true });
      expect(await client.end()).toBe(0);
    }
    console.log(`${library.name}: ${accepted.size} calls accepted in an hour of outage and three SIGKILLs`);
    await world.receiver.until(() => {
      const arrived = world.arrived();
      return [...accepted].every((id) => arrived.has(id));
    });
    for (const [id, times] of world.arrived()) if (id.startsWith(prefix)) expect(times, id).toBe(1);
  });

  it('loses nothing when client and server are killed by turns while both work', async () => {
    const accepted = new Set<string>();
    for (let life = 0; life < 3; life++) {
      const client = await start({ flushAt: 5 });
      await calls(client, 100, life * 1_000);
      const more = calls(client, 200, life * 1_000 + 100).catch(() => []);
      await client.until(() => client.accepted.size > 150);
      await world.killServer();
      await client.until(() => client.accepted.size > 200);
      await client.kill();
      await more;
      await world.startServer();
      for (const id of client.accepted) accepted.add(id);
    }
    const client = await start();
    expect(await client.flush()).toMatchObject({ ok: true });
    await world.receiver.until(() => {
      const arrived = world.arrived();
      return [...accepted].every((id) => arrived.has(id));
    });
    expect(accepted.size).toBeGreaterThan(600);
    await client.close();
    expect(await client.end()).toBe(0);
  });

  it('keeps what it cannot send when it is closed, for the next start', async () => {
    world.proxy.use(() => refusal(503));
    const client = await start();
    await calls(client, 100);
    await client.close(300);
    expect(client.reported).toEqual([]);
    expect(await client.end()).toBe(0);
    expect(files().length).toBeGreaterThan(0);
    world.proxy.use(() => PASS);
    const next = await start();
    expect(await next.flush()).toMatchObject({ ok: true });
    await world.receiver.until(() => [...client.accepted].every((id) => world.arrived().has(id)));
    await next.close();
    await next.end();
  });

  it('never gives up while the outage lasts', async () => {
    world.proxy.use(() => refusal(503));
    const client = await start({ waitScale: 0.0005 });
    await calls(client, 20);
    await world.proxy.until(() => tries() > 15);
    world.proxy.use(() => PASS);
    await client.close();
    expect((await expectSum(world, client, prefix)).succeeded.size).toBe(20);
    await client.end();
  });

  const tries = () => world.proxy.requests.filter(({ body }) => body.includes(`"${prefix}0"`)).length;
});
