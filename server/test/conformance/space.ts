import { describe, expect, it } from 'vitest';
import type { Position } from '../../src/model/event.ts';
import { HOUR, MINUTE } from '../../src/model/time.ts';
import type { Retention } from '../../src/ports/event-log.ts';
import {
  batch,
  CRM,
  countsOfDestination,
  event,
  events,
  idsAt,
  owedBatch,
  positionsOf,
  SITE,
} from './batches.ts';
import type { Subject } from './harness.ts';
import { START } from './harness.ts';
import { delivered, hold, laneOf, settle } from './holdings.ts';
import { A_WEEK, erase, keepUp, write, writeSingly } from './upkeep.ts';

/** ports/event-log.ts: `size`, and `maintain` where it keeps to `Retention.disk`. */
export function spaceConformance(subject: Subject): void {
  describe('space', () => keepsToSpace(subject));
  sizeConformance(subject);
}

function keepsToSpace(subject: Subject): void {
  /**
   * 20 batches of 100 events, a minute apart, in text that does not compress away; resolves to their
   * positions.
   */
  async function fill(owedAs: 'parked' | 'not at all'): Promise<Position[]> {
    const positions: Position[] = [];
    for (let n = 0; n < 20; n++) {
      const of = Array.from({ length: 100 }, (_, index) =>
        event(`${n}-${index}`, SITE, { properties: { text: noise(n * 100 + index) } }),
      );
      const parts = { receivedAt: START + n * MINUTE };
      const one = owedAs === 'parked' ? owedBatch(of, owedAs, parts) : batch(of, parts);
      positions.push(...positionsOf(await subject.store.log.append(one)));
    }
    return positions;
  }

  /** Half of the space in use. */
  async function half(): Promise<Retention> {
    return { ...A_WEEK, disk: Math.round((await subject.store.log.size()).bytes / 2) };
  }

  it('lets go of the oldest events while there are more bytes than allowed', async () => {
    const positions = await fill('not at all');
    const retention = await half();
    await keepUp(subject.store, START + HOUR, retention);
    const read = await idsAt(subject.store, positions);
    const gone = read.lastIndexOf(undefined) + 1;
    expect(read.slice(0, gone)).toEqual(Array(gone).fill(undefined));
    expect(gone).toBeGreaterThan(200);
    expect(gone).toBeLessThan(1800);
    expect((await subject.store.log.size()).bytes).toBeLessThanOrEqual(retention.disk!);
  });

  it('keeps to the bytes allowed though everything is still owed, and gives up no more than it must', async () => {
    const positions = await fill('parked');
    const retention = await half();
    await keepUp(subject.store, START + HOUR, retention);
    expect((await subject.store.log.size()).bytes).toBeLessThanOrEqual(retention.disk!);
    expect((await idsAt(subject.store, positions)).at(-1)).toBe('19-99');
    expect((await laneOf(subject.store)).onDisk).toBeGreaterThan(200);
    const { dead: given, pending } = await countsOfDestination(subject.store, CRM);
    expect(given).toEqual({ retention_over: 2000 - pending });
  });

  it('goes beyond the bytes allowed rather than let go of what is held', async () => {
    const [held] = await hold(subject.store, 1, 'held');
    const positions = await fill('not at all');
    await keepUp(subject.store, START + HOUR, { ...A_WEEK, disk: 0 });
    expect(await idsAt(subject.store, [held!.delivery.position])).toEqual(['held0']);
    await settle(subject.store, [delivered(held!)]);
    await keepUp(subject.store, START + HOUR, { ...A_WEEK, disk: 0 });
    expect(await idsAt(subject.store, [held!.delivery.position, positions[0]!])).toEqual([
      undefined,
      undefined,
    ]);
  });
}

/** 300 characters that look random, the same for the same number. */
function noise(seed: number): string {
  let text = '';
  for (let word = 0; word < 40; word++) {
    text += ((Math.imul(seed * 41 + word, 0x9e3779b1) >>> 0) * 7919).toString(36).slice(-8);
  }
  return text;
}

function sizeConformance(subject: Subject): void {
  describe('size', () => {
    it('counts events with the gaps between them, and bytes, and knows the oldest', async () => {
      const { log } = subject.store;
      const empty = await log.size();
      expect(empty.events).toBe(0);
      expect(empty.oldestAt).toBeUndefined();
      await writeSingly(subject.store, [event('a', SITE, { userId: 'gone' }), event('b')], START + 1);
      await write(subject.store, events(2500, 'c'), START + 2);
      const filled = await log.size();
      expect(filled).toMatchObject({ events: 2502, oldestAt: START + 1 });
      expect(filled.bytes).toBeGreaterThan(empty.bytes);
      await log.append(batch(events(3, 'c'), { receivedAt: START + 3 }));
      await erase({ log }, 'gone');
      expect((await log.size()).events).toBe(2502);
      await subject.restart();
      expect((await subject.store.log.size()).events).toBe(2502);
    });
  });
}
