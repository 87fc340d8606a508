import { randomBytes } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { idHash, keyHash } from '../server/src/adapters/encoding/hashes.ts';
import { lineOf } from '../server/src/model/serialized-event.ts';
import { SuppressionFilter } from '../server/src/regulations/suppression-filter.ts';

/**
 * Measures the cost of a million suppressed users beside none: memory, time to suppress, and time for a call.
 */

const SUPPRESSED = 1_000_000;
const CALLS = 1_000_000;

const lines = Array.from({ length: 1000 }, (_, n) =>
  lineOf(
    JSON.stringify({
      ...{ messageId: `message-${n}`, type: 'track', channel: 'server', userId: `user-${n}-of-this-bench` },
      ...{
        anonymousId: `anonymous-${n}`,
        event: 'Order Placed',
        properties: { total: n, text: 'x'.repeat(400) },
      },
    }),
  ),
);

const filter = new SuppressionFilter(idHash(keyHash(randomBytes(8))));
report('nobody is suppressed');
globalThis.gc?.();
const before = process.memoryUsage();
const began = performance.now();
for (let from = 0; from < SUPPRESSED; from += 1000)
  filter.add(
    'user',
    Array.from({ length: 1000 }, (_, n) => `suppressed-${from + n}`),
  );
const took = performance.now() - began;
globalThis.gc?.();
const after = process.memoryUsage();
const held = after.arrayBuffers + after.heapUsed - before.arrayBuffers - before.heapUsed;
console.log(`${SUPPRESSED} users suppressed in ${took.toFixed(0)} ms, ${(held / 1e6).toFixed(1)} MB`);
report(`${SUPPRESSED} users are suppressed`);

function report(what: string): void {
  let suppressed = 0;
  const start = performance.now();
  for (let n = 0; n < CALLS; n++)
    if (!filter.isEmpty && filter.suppresses(lines[n % lines.length]!)) suppressed++;
  const each = ((performance.now() - start) * 1000) / CALLS;
  console.log(`${what}: ${each.toFixed(3)} µs a call, ${suppressed} suppressed`);
}
