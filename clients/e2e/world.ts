import { expect } from 'vitest';
import { type FaultProxy, startFaultProxy } from '../../server/test/support/fault-proxy.ts';
import {
  makePlace,
  oneDestination,
  type Place,
  type Program,
  startProgram,
} from '../../server/test/support/program.ts';
import { freePort, startReceiver, type TestReceiver } from '../../server/test/support/receiver.ts';
import type { Driver } from './library.ts';

/**
 * The real server with one source and one destination, the destination's endpoint, and a faulty network
 * before it.
 */
export interface World {
  readonly receiver: TestReceiver;
  /** Straight to the server. */
  readonly url: string;
  readonly proxy: FaultProxy;
  /** How often each message id has arrived at the webhook. */
  arrived(): ReadonlyMap<string, number>;
  /** The body of one event as it arrived. */
  event(messageId: string): Record<string, unknown> | undefined;
  /** SIGKILL. */
  killServer(): Promise<void>;
  /** On the same port, with the same data. */
  startServer(): Promise<void>;
  stop(): Promise<void>;
}

export async function startWorld(): Promise<World> {
  const receiver = await startReceiver();
  const place: Place = makePlace(oneDestination([`${receiver.url}/hook`]));
  const port = await freePort();
  const args = [
    'start',
    '--config',
    place.config,
    '--data',
    place.data,
    '--host',
    '127.0.0.1',
    '--port',
    `${port}`,
  ];
  let server: Program | undefined = await startProgram({ args });
  const url = `http://127.0.0.1:${port}`;
  const proxy = await startFaultProxy(url);
  return {
    receiver,
    url,
    proxy,
    arrived() {
      const times = new Map<string, number>();
      for (const { headers } of receiver.arrivals) {
        const id = String(headers['webhook-id']);
        times.set(id, (times.get(id) ?? 0) + 1);
      }
      return times;
    },
    event(messageId) {
      const arrival = receiver.arrivals.find(({ headers }) => headers['webhook-id'] === messageId);
      return arrival && (JSON.parse(arrival.body.toString()) as Record<string, unknown>);
    },
    async killServer() {
      await server?.kill();
      server = undefined;
    },
    async startServer() {
      server = await startProgram({ args });
    },
    async stop() {
      await server?.stop();
      await proxy.stop();
      await receiver.stop();
      place.remove();
    },
  };
}

export interface Sum {
  readonly succeeded: ReadonlySet<string>;
  readonly failed: ReadonlySet<string>;
}

/**
 * The sum that is the point of all this. Every accepted call was reported exactly once, each reported success
 * is at the webhook exactly once, and nothing is at the webhook that was not accepted. `repeats` is for a
 * server that was killed: it may deliver its last events once more.
 */
export async function expectSum(
  world: World,
  driver: Driver,
  prefix: string,
  { repeats = false } = {},
): Promise<Sum> {
  const succeeded = driver.reported.filter(({ callback }) => callback === 'success');
  const failed = driver.reported.filter(({ callback }) => callback === 'failure');
  const successes = new Set(succeeded.map(({ messageId }) => messageId));
  const failures = new Set(failed.map(({ messageId }) => messageId));
  expect([...successes, ...failures].toSorted(), 'reported = accepted').toEqual(
    [...driver.accepted].toSorted(),
  );
  expect(driver.reported, 'each once').toHaveLength(driver.accepted.size);
  await world.receiver.until(() => {
    const arrived = world.arrived();
    return [...successes].every((id) => arrived.has(id));
  });
  for (const [id, times] of world.arrived()) {
    if (!id.startsWith(prefix)) continue;
    expect(driver.accepted.has(id), `${id} at the webhook was accepted`).toBe(true);
    if (!repeats) expect(times, `${id} at the webhook`).toBe(1);
  }
  return { succeeded: successes, failed: failures };
}
