import { afterAll, afterEach, beforeAll, test } from 'vitest';
import { postHead } from '../support/http-server.ts';
import { Besieged, keyed } from './besieged.ts';

/**
 * How soon a good client has its answers beside hostile ones. The least patient client waits ten seconds; the
 * reference is what the same calls take alone, in the same run.
 */

let besieged: Besieged;
let alone: number;

beforeAll(async () => {
  besieged = await Besieged.start();
  alone = await slowest();
});

afterEach(() => besieged.destroyAll());

afterAll(() => besieged.stop());

/** Milliseconds of the slowest of twenty calls. */
async function slowest(): Promise<number> {
  let most = 0;
  for (let nth = 0; nth < 20; nth++) {
    const began = performance.now();
    await besieged.goodCall();
    most = Math.max(most, performance.now() - began);
  }
  return most;
}

const ATTACKS: readonly [string, () => Promise<void>][] = [
  ['10,000 connections that say nothing', async () => void (await besieged.openMany(10_000))],
  [
    '2,000 connections whose heads and bodies do not end',
    async () => {
      for (const [nth, socket] of (await besieged.openMany(2000)).entries())
        socket.write(nth % 2 === 0 ? 'POST /v1/track HTTP/1.1\r\nCookie: ' : postHead('/v1/batch', 500_000));
    },
  ],
  [
    '50 connections that wait for no answer',
    async () => {
      const many = Buffer.concat(Array.from({ length: 500 }, () => keyed('{"no')));
      for (const socket of await besieged.openMany(50)) {
        socket.pause();
        for (let nth = 0; nth < 20; nth++) socket.write(many);
      }
    },
  ],
];

test.each(ATTACKS)('the slowest of twenty calls beside %s', async (attackers, attack) => {
  await attack();
  const beside = await slowest();
  console.log(
    `the slowest of twenty calls: ${beside.toFixed(0)} ms beside ${attackers}, ${alone.toFixed(0)} ms alone`,
  );
});
