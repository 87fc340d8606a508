import { once } from 'node:events';
import { connect } from 'node:net';
import { parentPort, Worker, workerData } from 'node:worker_threads';
import { post, TestConnection } from '../support/http-server.ts';

/** Between two calls: often enough to meet every bad moment, and no load of its own. */
const PAUSE = 10;

/** Results of the calls of a good client. */
export interface Experience {
  /** In milliseconds, of every call, in the order of time. */
  readonly times: readonly number[];
  /** Calls that were answered 200. */
  readonly accepted: number;
  /** Calls that were answered 429 or 503: it may come again. */
  readonly turnedAway: number;
  /** Failures that no server may cause a good client. */
  readonly complaints: readonly string[];
}

/**
 * Sends one valid call after the other on one connection, as a well-behaved library does; on a thread of its
 * own, so that it measures the server and not whoever makes the attacks. Call what it returns to stop it and
 * to have its experience.
 */
export function startGoodClient(port: number, writeKey: string): () => Promise<Experience> {
  const thread = new Worker(new URL(import.meta.url), { workerData: { port, writeKey } });
  const told = once(thread, 'message') as Promise<[Experience]>;
  return async () => {
    thread.postMessage('stop');
    const [experience] = await told;
    await thread.terminate();
    return experience;
  };
}

async function runGoodClient({ port, writeKey }: { port: number; writeKey: string }): Promise<Experience> {
  const experience = { times: [] as number[], accepted: 0, turnedAway: 0, complaints: [] as string[] };
  let isStopped = false;
  parentPort?.once('message', () => {
    isStopped = true;
  });
  const headers = [`Authorization: Basic ${Buffer.from(`${writeKey}:`).toString('base64')}`];
  let connection = await open(port);
  for (let nth = 0; !isStopped; nth++) {
    const call = { type: 'track', messageId: `good-${nth}`, userId: 'u1', event: 'Order Placed' };
    const started = performance.now();
    try {
      await connection.send(post('/v1/track', JSON.stringify(call), headers));
      const { status } = await connection.nextResponse();
      if (status === 200) experience.accepted++;
      else if (status === 429 || status === 503) experience.turnedAway++;
      else experience.complaints.push(`a good call was answered ${status}`);
    } catch (error) {
      experience.complaints.push(`a good client lost its connection: ${String(error)}`);
      if (experience.complaints.length > 10) break;
      connection = await open(port);
    }
    experience.times.push(performance.now() - started);
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
  connection.destroy();
  return experience;
}

async function open(port: number): Promise<TestConnection> {
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  return new TestConnection(socket);
}

if (parentPort !== null) parentPort.postMessage(await runGoodClient(workerData));
