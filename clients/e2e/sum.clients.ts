import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PASS, refusal } from '../../server/test/support/fault-proxy.ts';
import { freePort } from '../../server/test/support/receiver.ts';
import { within } from '../../server/test/support/until.ts';
import { libraries } from './library.ts';
import { Trial } from './trial.ts';
import { expectSum } from './world.ts';

const { found, missing } = libraries();
for (const line of missing) console.log(line);

/**
 * Calls accepted by the client = events at the webhook + failures reported to the callback, whatever happens
 * in between.
 */
describe.each(found)('the $name client', (library) => {
  const trial = new Trial(library);
  beforeAll(() => trial.begin());
  afterAll(() => trial.end());

  it('has every call of all six types delivered', async () => {
    const client = await trial.start();
    await client.call('identify', { userId: 'u1', traits: { plan: 'pro' }, messageId: `${trial.prefix}i` });
    await client.call('track', { userId: 'u1', event: 'E', messageId: `${trial.prefix}t` });
    await client.call('page', { userId: 'u1', name: 'Home', messageId: `${trial.prefix}p` });
    await client.call('screen', { anonymousId: 'a1', name: 'Start', messageId: `${trial.prefix}s` });
    await client.call('group', { userId: 'u1', groupId: 'g1', messageId: `${trial.prefix}g` });
    await client.call('alias', { userId: 'u1', previousId: 'a1', messageId: `${trial.prefix}a` });
    expect(await client.flush()).toMatchObject({ ok: true });
    const { succeeded } = await expectSum(trial.world, client, trial.prefix);
    expect(succeeded.size).toBe(6);
    expect(trial.world.event(`${trial.prefix}i`)).toMatchObject({
      type: 'identify',
      traits: { plan: 'pro' },
    });
    expect(await client.close()).toMatchObject({ ok: true });
    await trial.finish();
  });

  it('has 1,000 calls made at once delivered, each once', async () => {
    const client = await trial.start();
    await trial.calls(client, 1_000);
    await client.close();
    expect((await expectSum(trial.world, client, trial.prefix)).succeeded.size).toBe(1_000);
    await trial.finish();
  });

  it('loses nothing to calls that are wrong: they alone fail, at the call', async () => {
    const client = await trial.start();
    await trial.calls(client, 5);
    const refused = await Promise.all([
      client.call('track', { userId: 'u1', messageId: `${trial.prefix}no-event` }),
      client.call('track', { event: 'E', messageId: `${trial.prefix}nobody` }),
      client.call('group', { userId: 'u1', messageId: `${trial.prefix}no-group` }),
      client.call('alias', { userId: 'u1', messageId: `${trial.prefix}no-previous` }),
      client.call('track', {
        userId: 'u1',
        event: 'E',
        properties: { pad: 'x'.repeat(32_768) },
        messageId: `${trial.prefix}large`,
      }),
    ]);
    expect(refused.map(({ error }) => error?.code)).toEqual([
      'event_not_defined',
      'no_user_anon_id',
      'group_id_missing',
      'previous_id_missing',
      'message_too_large',
    ]);
    await client.close();
    expect((await expectSum(trial.world, client, trial.prefix)).succeeded.size).toBe(5);
    await trial.finish();
  });

  it('splits what is larger than a request may be', async () => {
    const client = await trial.start({ flushAt: 100 });
    const pad = 'é'.repeat(14_000);
    for (let n = 0; n < 40; n++) {
      await client.call('track', {
        userId: 'u1',
        event: 'E',
        messageId: `${trial.prefix}${n}`,
        properties: { pad },
      });
    }
    await client.close();
    expect((await expectSum(trial.world, client, trial.prefix)).succeeded.size).toBe(40);
    const sizes = trial.world.proxy.requests
      .filter(({ body }) => body.includes(`"${trial.prefix}`))
      .map(({ body }) => body.length);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(512_000);
    expect(sizes.length).toBeGreaterThan(1);
    await trial.finish();
  });

  it('loses nothing to a server that is killed and started again, three times', async () => {
    // Its ten tries take half a minute at least: longer than a slow machine takes to start a server.
    const client = await trial.start({ flushAt: 10, waitScale: 0.3 });
    for (let round = 0; round < 3; round++) {
      await trial.calls(client, 100, round * 200);
      const passed = trial.world.proxy.passed;
      const more = trial.calls(client, 100, round * 200 + 100);
      await trial.world.proxy.until(() => trial.world.proxy.passed > passed);
      await trial.world.killServer();
      await more;
      await trial.world.startServer();
    }
    await client.close();
    const { succeeded, failed } = await expectSum(trial.world, client, trial.prefix, { repeats: true });
    expect([succeeded.size, failed.size]).toEqual([600, 0]);
    await trial.finish();
  });

  it('closes when it is to wait no longer for a server that is not there, and reports what it could not send', async () => {
    const endpoint = `http://127.0.0.1:${await freePort()}`;
    // A client that did not do as it is told would wait for an hour.
    const client = await trial.start({ endpoint, waitScale: 1, closeTimeoutMs: 3_600_000 });
    await trial.calls(client, 50);
    expect(await within('the client is closed', client.close(1_000))).toMatchObject({
      ok: false,
      error: { code: 'closed' },
    });
    expect((await expectSum(trial.world, client, trial.prefix)).failed.size).toBe(50);
    expect(await client.call('track', { userId: 'u1', event: 'E' })).toMatchObject({
      error: { code: 'closed' },
    });
    await trial.finish();
  });

  it('refuses calls for which there is no room, and sends the others when the server is back', async () => {
    const client = await trial.start({ maxCalls: 50, whenFull: 'refuse', waitScale: 0.2 });
    trial.world.proxy.use(() => refusal(503));
    const answers = await trial.calls(client, 80);
    expect(answers.filter(({ ok }) => ok)).toHaveLength(50);
    expect(answers.filter(({ error }) => error?.code === 'full')).toHaveLength(30);
    trial.world.proxy.use(() => PASS);
    await client.close();
    expect((await expectSum(trial.world, client, trial.prefix)).succeeded.size).toBe(50);
    await trial.finish();
  });

  it('drops the oldest and reports them when that is the policy', async () => {
    const client = await trial.start({
      maxCalls: 50,
      uploads: 1,
      flushAt: 10,
      whenFull: 'drop-oldest',
      waitScale: 0.2,
    });
    trial.world.proxy.use(() => refusal(503));
    const answers = await trial.calls(client, 80);
    expect(answers.every(({ ok }) => ok)).toBe(true);
    trial.world.proxy.use(() => PASS);
    await client.close();
    const { succeeded, failed } = await expectSum(trial.world, client, trial.prefix);
    expect(failed.size).toBeGreaterThan(0);
    expect(succeeded.size + failed.size).toBe(80);
    const codes = client.reported
      .filter(({ callback }) => callback === 'failure')
      .map(({ error }) => error?.code);
    expect(new Set(codes)).toEqual(new Set(['dropped']));
    await trial.finish();
  });

  it('makes a call wait for room when that is the policy', async () => {
    const client = await trial.start({ maxCalls: 50, whenFull: 'block', waitScale: 0.2 });
    trial.world.proxy.use(() => refusal(503));
    const waiting = trial.calls(client, 80);
    await client.until(() => client.accepted.size === 50);
    trial.world.proxy.use(() => PASS);
    const answers = await waiting;
    expect(answers.every(({ ok }) => ok)).toBe(true);
    await client.close();
    expect((await expectSum(trial.world, client, trial.prefix)).succeeded.size).toBe(80);
    await trial.finish();
  });
});
