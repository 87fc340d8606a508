import { afterEach, describe, expect, it } from 'vitest';
import { send, track } from '../support/calls.ts';
import {
  makePlace,
  oneDestination,
  type Place,
  startArguments,
  startProgram,
  startServer,
} from '../support/program.ts';
import { freePort, startReceiver } from '../support/receiver.ts';

const CALLS = 2000;
const KILL_AFTER = 1000;
const AT_ONCE = 16;

describe('a crash', () => {
  let place: Place | undefined;

  afterEach(() => place?.remove());

  it(`loses none of ${CALLS} calls answered 200 when the program is killed while the receiver is down`, async () => {
    const port = await freePort();
    place = makePlace(oneDestination([`http://127.0.0.1:${port}/in`]));

    const answered = new Set<string>();
    const before = await startServer(place);
    await sendUntilDead(before.url, answered, () => {
      if (answered.size === KILL_AFTER) void before.kill();
    });
    expect(answered.size).toBeGreaterThanOrEqual(KILL_AFTER);
    expect(answered.size).toBeLessThan(CALLS);

    const after = await startServer(place);
    const left = [...ids()].filter((id) => !answered.has(id));
    for (let from = 0; from < left.length; from += 100) {
      const batch = left.slice(from, from + 100).map((id) => track(id));
      const { status } = await send(after.url, '/v1/batch', { batch });
      if (status === 200) for (const { messageId } of batch) answered.add(messageId);
    }
    const receiver = await startReceiver({ port });
    const idsArrived = () => receiver.arrivals.map(({ headers }) => String(headers['webhook-id']));
    await receiver.until(() => {
      const distinct = new Set(idsArrived());
      return [...answered].every((id) => distinct.has(id));
    });
    expect(await after.stop()).toBe(0);
    await receiver.stop();

    const arrived = idsArrived();
    const duplicates = arrived.length - new Set(arrived).size;
    console.log(`${answered.size} answered 200, ${arrived.length} arrived, ${duplicates} of them duplicates`);
    // Nothing was delivered before the crash, so nothing may arrive twice after it.
    expect(duplicates).toBe(0);
  });
});

describe('a start with --no-delivery', () => {
  it('takes calls and sends nothing, neither what waited nor what comes, and the next start sends all of it', async () => {
    const port = await freePort();
    const place = makePlace(oneDestination([`http://127.0.0.1:${port}/in`]));
    const before = await startServer(place);
    for (const id of ['a', 'b']) expect((await send(before.url, '/v1/track', track(id))).status).toBe(200);
    await before.kill();
    const receiver = await startReceiver({ port });
    try {
      const looking = await startProgram({ args: [...startArguments(place), '--no-delivery'] });
      await looking.saw(/nothing is sent to anybody/);
      expect((await send(looking.url, '/v1/track', track('c'))).status).toBe(200);
      expect(await looking.stop()).toBe(0);
      expect(receiver.arrivals).toHaveLength(0);
      const after = await startServer(place);
      await receiver.until(() => receiver.arrivals.length === 3);
      expect(await after.stop()).toBe(0);
      expect(receiver.arrivals.map(({ headers }) => headers['webhook-id']).sort()).toEqual(['a', 'b', 'c']);
    } finally {
      await receiver.stop();
      place.remove();
    }
  });
});

function* ids(): Generator<string> {
  for (let n = 0; n < CALLS; n++) yield `call-${n}`;
}

/** Sends the calls one by one over several connections, until all are answered or the program has died. */
async function sendUntilDead(url: string, answered: Set<string>, onAnswer: () => void): Promise<void> {
  const waiting = ids();
  const lane = async () => {
    for (const id of waiting) {
      const sent = await send(url, '/v1/track', track(id)).catch(() => undefined);
      if (sent === undefined) return;
      if (sent.status === 200) answered.add(id);
      onAnswer();
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
}
