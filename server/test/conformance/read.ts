import { describe, expect, it } from 'vitest';
import type { Event } from '../../src/model/event.ts';
import type { JsonObject } from '../../src/model/json.ts';
import { batch, event, events, idsAt, positionsOf, SITE } from './batches.ts';
import type { Subject } from './harness.ts';

/** ports/event-log.ts: `read`. */
export function readConformance(subject: Subject): void {
  describe('read', () => {
    it('gives every event back as it was, and its source', async () => {
      const of = Object.entries(UNUSUAL).map(([name, fields]) => event(name, SITE, fields));
      const position = positionsOf(await subject.store.log.append(batch([...of, event('other', 12)])));
      const expected = of.map((one) => ({ source: SITE, event: JSON.parse(one.json) as Event }));
      const stored = await subject.store.log.read(position);
      expect(stored.slice(0, -1).map((one) => ({ source: one?.source, event: one?.event }))).toEqual(
        expected,
      );
      expect(stored.at(-1)?.source).toBe(12);
      // Outbound bodies are made from the event: the same bytes need the same order of keys.
      expect(stored.slice(0, -1).map((one) => JSON.stringify(one?.event))).toEqual(of.map((one) => one.json));
    });

    it('gives events in the order asked, over batches, and as often as asked', async () => {
      const { log } = subject.store;
      const [a0, a1, a2] = positionsOf(await log.append(batch(events(3, 'a'))));
      const [b0, b1] = positionsOf(await log.append(batch(events(2, 'b'))));
      const asked = [b1!, a2!, a0!, b0!, a2!, a1!];
      expect(await idsAt(subject.store, asked)).toEqual(['b1', 'a2', 'a0', 'b0', 'a2', 'a1']);
    });

    it('gives `undefined` for a position that was never given, in its place', async () => {
      const { log } = subject.store;
      const [m0, m1] = positionsOf(await log.append(batch(events(2))));
      const unknown = m1! + 1_000_000;
      expect(await idsAt(subject.store, [unknown, m1!, unknown + 1, m0!])).toEqual([
        undefined,
        'm1',
        undefined,
        'm0',
      ]);
    });

    it('gives nothing when nothing is asked', async () => {
      expect(await subject.store.log.read([])).toEqual([]);
    });

    it('gives each reader an event of its own', async () => {
      const position = positionsOf(await subject.store.log.append(batch([event('m0')])));
      const [mine] = await subject.store.log.read(position);
      Object.assign(mine!.event.context, { changed: true });
      const [theirs] = await subject.store.log.read(position);
      expect(theirs!.event.context).toEqual({});
    });

    it('gives 2,500 events of many batches in any order, after a crash too', async () => {
      const given: number[] = [];
      for (const [n, size] of [1, 7, 8, 100, 384, 500, 1500].entries()) {
        given.push(...positionsOf(await subject.store.log.append(batch(events(size, `b${n}-`)))));
      }
      const before = await idsAt(subject.store, given);
      expect(new Set(before).size).toBe(2500);
      await subject.restart();
      // Takes every 7th event, modulo the length: neighbours in the log are far apart in the request.
      const order = given.map((_, n) => (n * 7) % given.length);
      const asked = order.map((n) => given[n]!);
      expect(await idsAt(subject.store, asked)).toEqual(order.map((n) => before[n]));
    });
  });
}

/** Fields that go wrong where text is cut, escaped or re-encoded. */
const UNUSUAL: Readonly<Record<string, JsonObject>> = {
  plain: {},
  'names in many scripts': { properties: { Größe: 'ß', 名前: '値', '🜁': '👩‍👩‍👧', rtl: 'שלום' } },
  'control characters': { properties: { zero: 'a\u0000b', line: '\u2028\u2029\r\n', quote: '"\\\'`' } },
  'half a surrogate pair': { properties: { half: '\ud83d', other: '\udc00x' } },
  'numbers at the edge': { properties: { big: 1e308, small: 5e-324, safe: 2 ** 53 - 1, minus: -0.1 } },
  'deeply nested': { properties: nested(40) },
  'unknown fields': { _metadata: { bundled: ['a', null, true] }, version: '2' },
  'keys that look like numbers': { properties: { b: 1, 10: 'ten', 2: 'two', a: null } },
  'as large as a call may be': { properties: { text: 'ä'.repeat(16_000) } },
};

function nested(depth: number): JsonObject {
  return depth === 0 ? { bottom: true } : { down: nested(depth - 1), list: [depth, [depth]] };
}
