/**
 * Measures what one `track` call costs its caller, and how many calls a second reach a receiver on this
 * machine: our client beside `@segment/analytics-node`, by turns within one run, so that both meet the same
 * machine.
 *
 * node clients/e2e/bench.ts
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Analytics } from '@segment/analytics-node';
import { Client } from '../typescript/src/index.ts';

const ROUNDS = 5;
const CALLS = 20_000;
const FLUSH_AT = 100;

const properties = {
  total: 42.5,
  currency: 'EUR',
  coupon: null,
  items: [
    { sku: 'A-1', name: 'A first thing', price: 12.5, quantity: 1 },
    { sku: 'B-2', name: 'A second thing', price: 15, quantity: 2 },
  ],
};
const call = { userId: 'user-12345', event: 'Order Placed', properties };

interface Measured {
  /** Nanoseconds the caller waits for one call. */
  readonly call: number;
  /** Calls a second from the first call until all are answered for. */
  readonly rate: number;
}

async function measure(track: () => void, flush: () => Promise<unknown>): Promise<Measured> {
  const begun = performance.now();
  for (let n = 0; n < CALLS; n++) track();
  const made = performance.now();
  await flush();
  const ended = performance.now();
  return { call: ((made - begun) / CALLS) * 1e6, rate: CALLS / ((ended - begun) / 1000) };
}

async function ours(url: string): Promise<Measured> {
  const client = new Client('wk', {
    endpoint: url,
    flushAt: FLUSH_AT,
    maxCalls: CALLS + 1,
    onFailure: console.error,
  });
  const measured = await measure(
    () => client.track(call),
    () => client.flush(),
  );
  await client.close();
  return measured;
}

async function segments(url: string): Promise<Measured> {
  const client = new Analytics({ writeKey: 'wk', host: url, flushAt: FLUSH_AT });
  client.on('error', console.error);
  return measure(
    () => client.track(call),
    () => client.closeAndFlush(),
  );
}

function bare(): Measured {
  const begun = performance.now();
  let length = 0;
  for (let n = 0; n < CALLS; n++) length += JSON.stringify({ type: 'track', ...call }).length;
  const took = performance.now() - begun;
  if (length === 0) throw new Error('nothing was encoded');
  return { call: (took / CALLS) * 1e6, rate: CALLS / (took / 1000) };
}

let received = 0;
const server = createServer((request, response) => {
  let text = '';
  request.setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  request.on('end', () => {
    received += text.split('"type":"track"').length - 1;
    response.setHeader('content-type', 'application/json');
    response.end('{"success":true}');
  });
}).listen(0, '127.0.0.1');
await once(server, 'listening');
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

const results = {
  'JSON.stringify alone': [],
  '@millrace/client': [],
  '@segment/analytics-node': [],
} as Record<string, Measured[]>;
for (let round = 0; round < ROUNDS; round++) {
  results['JSON.stringify alone']!.push(bare());
  results['@millrace/client']!.push(await ours(url));
  results['@segment/analytics-node']!.push(await segments(url));
}
const median = (numbers: readonly number[]) =>
  numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)]!;
for (const [name, rounds] of Object.entries(results)) {
  const nanoseconds = Math.round(median(rounds.map((measured) => measured.call)));
  const rate = Math.round(median(rounds.map((measured) => measured.rate)));
  console.log(`${name.padEnd(24)} ${String(nanoseconds).padStart(7)} ns a call   ${rate} calls/s`);
}
console.log(
  `${received} of ${2 * ROUNDS * CALLS} calls arrived; batches of ${FLUSH_AT}, ${CALLS} calls a round, median of ${ROUNDS}`,
);
server.closeAllConnections();
server.close();
