import { createHmac } from 'node:crypto';
import { afterEach, describe, expect, it } from 'vitest';
import { send, track } from '../support/calls.ts';
import { makePlace, oneDestination, type Place, type Program, startServer } from '../support/program.ts';
import { freePort, startReceiver, type TestReceiver } from '../support/receiver.ts';

const SECRET = 's3cret-of-the-tests';

/** Destinations beside `crm`, so that each thread has some. */
function destinations(named: Readonly<Record<string, string>>): string {
  return Object.entries(named)
    .map(
      ([name, url]) => `  - name: ${name}
    type: webhooks
    sources: [website]
    settings: { endpoints: [{ url: "${url}" }], sharedSecret: ${SECRET} }
`,
    )
    .join('');
}

describe('a program whose requests are sent by threads', () => {
  let place: Place;
  let program: Program;
  const receivers: TestReceiver[] = [];

  afterEach(async () => {
    await program.kill();
    for (const receiver of receivers.splice(0)) await receiver.stop();
    place.remove();
  });

  async function receiver(options: Parameters<typeof startReceiver>[0] = {}): Promise<TestReceiver> {
    const started = await startReceiver(options);
    receivers.push(started);
    return started;
  }

  it('delivers signed events to all, while one endpoint is dead and another never answers', async () => {
    const first = await receiver();
    const second = await receiver();
    const silent = await receiver({ answer: () => {} });
    const dead = `http://127.0.0.1:${await freePort()}/`;
    place = makePlace(
      `${oneDestination([first.url], SECRET)}${destinations({
        ads: second.url,
        silent: silent.url,
        dead,
      })}threads: 2\n`,
    );
    program = await startServer(place);
    const ids = Array.from({ length: 500 }, (_, nth) => `m${nth}`);
    for (let from = 0; from < ids.length; from += 50) {
      const batch = ids.slice(from, from + 50).map((id) => track(id));
      expect(await send(program.url, '/v1/batch', { batch })).toMatchObject({ status: 200 });
    }
    for (const healthy of [first, second]) {
      await healthy.count(ids.length);
      expect(healthy.arrivals.map(({ headers }) => headers['webhook-id']).toSorted()).toEqual(ids.toSorted());
      for (const { body, headers } of healthy.arrivals) {
        expect(headers['x-signature']).toBe(createHmac('sha1', SECRET).update(body).digest('hex'));
      }
    }
    await program.saw(/"silent".*"timeout"/);
    const failing = new Map(
      [...program.out.stderr.matchAll(/^.*destination\.failing.*$/gm)]
        .map(([line]) => JSON.parse(line) as { destination: string; reason: string })
        .map(({ destination, reason }) => [destination, reason]),
    );
    expect(Object.fromEntries(failing)).toMatchObject({
      dead: 'connection_refused',
      silent: 'timeout',
    });
    expect(await program.stop()).toBe(0);
  });

  it('goes on after a kill with what its threads were sending', async () => {
    const port = await freePort();
    const hanging = await startReceiver({ port, answer: () => {} });
    place = makePlace(`${oneDestination([`http://127.0.0.1:${port}/in`])}threads: 1\n`);
    program = await startServer(place);
    const batch = Array.from({ length: 20 }, (_, nth) => track(`m${nth}`));
    await send(program.url, '/v1/batch', { batch });
    await hanging.count(1);
    await program.kill();
    await hanging.stop();
    const up = await receiver({ port });
    program = await startServer(place);
    await up.until(() => new Set(up.arrivals.map(({ headers }) => headers['webhook-id'])).size === 20);
    expect(await program.stop()).toBe(0);
  });
});
