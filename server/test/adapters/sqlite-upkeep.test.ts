import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { SqliteStore } from '../../src/adapters/sqlite/store.ts';
import type { Position } from '../../src/model/event.ts';
import { balanceOf } from '../../src/model/ledger.ts';
import { DAY, HOUR, MINUTE } from '../../src/model/time.ts';
import type { LogQuery, NewEvent } from '../../src/ports/event-log.ts';
import { erase } from '../conformance/upkeep.ts';
import { openStore } from '../support/shared-writer.ts';

const START = Date.UTC(2026, 0, 1, 12);
const RETENTION = { events: 7 * DAY, deadLetters: 30 * DAY };
const CRM = 1;

/** The SQLite store over time: what its upkeep changes, and what it must not. */
describe('upkeep of the SQLite store', () => {
  let folder: string;
  let store: SqliteStore;
  let batches = 0;

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-upkeep-'));
    store = await openStore({ folder });
    const source = { writeKeys: ['k'], enabled: true, mode: 'standard', whenDisabled: 'refuse' } as const;
    await store.settings.apply({ sources: [{ name: 'website', ...source }], destinations: [] });
  });
  afterEach(async () => {
    const { destinations } = await store.queue.ledger();
    for (const counts of destinations.values()) expect(balanceOf(counts)).toBe(0);
    await store.stop();
    rmSync(folder, { recursive: true });
  });

  const event = (n: number, userId = `user-${n % 50}`): NewEvent => ({
    source: 1,
    messageId: `m-${n}`,
    userId,
    json: JSON.stringify({
      messageId: `m-${n}`,
      type: 'track',
      userId,
      event: 'Order Completed',
      n,
      pad: 'p'.repeat(300),
    }),
  });

  async function append(
    events: readonly NewEvent[],
    at: number,
    owe?: 'held' | 'parked',
  ): Promise<Position[]> {
    const indexes = events.map((_, index) => index);
    const owed = owe ? [{ destination: CRM, state: owe, indexes }] : [];
    const plans = [{ owed: owe ? [{ id: CRM }] : [], skipped: [] }];
    const planned = { plans, planIndexes: indexes.map(() => 0), owed };
    const batch = { id: `batch-${batches++}`, receivedAt: at, events, ...planned, received: [] };
    const { positions } = await store.log.append(batch);
    return positions.map((position) => position!);
  }

  /** Runs upkeep until nothing is left to do; resolves to the number of calls it took. */
  async function upkeep(
    now: number,
    retention: Parameters<SqliteStore['log']['maintain']>[1] = RETENTION,
  ): Promise<number> {
    for (let calls = 1; ; calls++) if (!(await store.log.maintain(now, retention, 4))) return calls;
  }

  async function find(query: LogQuery): Promise<Position[]> {
    const positions: Position[] = [];
    let below: Position | undefined;
    do {
      const found = await store.log.find(query, below);
      positions.push(...found.positions);
      below = found.next;
    } while (below !== undefined);
    return positions;
  }

  const rows = async (sql: string) => {
    const { DatabaseSync } = await import('node:sqlite');
    const database = new DatabaseSync(join(folder, 'millrace.db'), { readOnly: true });
    const all = database.prepare(sql).all() as Record<string, number>[];
    database.close();
    return all;
  };

  it('gives memory back and goes on: events are read, their ids are known, and new ones are stored', async () => {
    const positions = await append(
      Array.from({ length: 300 }, (_, n) => event(n)),
      START,
    );
    for (const step of ['shrink', 'release', 'release', 'shrink'] as const) {
      await store.memory![step]();
      expect(await append([event(0), event(299)], START + 1)).toEqual([undefined, undefined]);
      const [first, last] = await store.log.read([positions[0]!, positions.at(-1)!]);
      expect([first, last].map((stored) => stored?.event.messageId)).toEqual(['m-0', 'm-299']);
    }
    expect(await append([event(300)], START + 2)).toEqual([300]);
    await upkeep(START + 3);
    expect(await find({ messageId: 'm-300' })).toEqual([300]);
  });

  it('merges single calls into large chunks that take less space than their JSON, and changes no event', async () => {
    let json = 0;
    const positions: Position[] = [];
    for (let n = 0; n < 2000; n++) {
      const one = event(n);
      json += one.json.length;
      positions.push(...(await append([one], START + n)));
    }
    expect((await rows('select count(*) as n from chunk'))[0]!['n']).toBe(2000);
    await upkeep(START + 2 * HOUR);
    const [chunks] = await rows('select count(*) as n, max(n) as most from chunk');
    expect(chunks!['n']).toBeLessThan(64 + 10);
    expect(chunks!['most']).toBeGreaterThan(400);
    const read = await store.log.read(positions);
    expect(read.map((stored) => stored!.event.messageId)).toEqual(positions.map((_, n) => `m-${n}`));

    await store.stop();
    const [{ free }] = (await rows(
      'select freelist_count * page_size as free from pragma_freelist_count, pragma_page_size',
    )) as [{ free: number }];
    const bytes = statSync(join(folder, 'millrace.db')).size - free;
    console.log(`${json} bytes of JSON in single calls take ${bytes} bytes: ${(bytes / json).toFixed(2)}`);
    expect(bytes).toBeLessThan(json * 0.6);
    store = await openStore({ folder });
    expect((await append([event(5)], START + 2 * HOUR).catch(() => []))[0]).toBeUndefined();
  });

  it('writes nothing when there is nothing to do', async () => {
    await append([event(1)], START);
    await upkeep(START + 2 * HOUR);
    const commits = () => rows(`select value from ledger where name = 'commits'`);
    const before = await commits();
    for (let n = 0; n < 5; n++) expect(await store.log.maintain(START + 2 * HOUR, RETENTION, 4)).toBe(false);
    expect(await commits()).toEqual(before);
    await append([event(2)], START);
    expect(await commits()).not.toEqual(before);
  });

  it('finds events by messageId, user and time, before and after sealing and a restart', async () => {
    const positions: Position[] = [];
    for (let n = 0; n < 900; n += 3)
      positions.push(...(await append([event(n), event(n + 1), event(n + 2)], START + n * 1000)));
    const look = async () => {
      expect(await find({ messageId: 'm-400' })).toEqual([positions[400]]);
      expect(await find({ messageId: 'nobody' })).toEqual([]);
      const ofUser = positions.filter((_, n) => n % 50 === 7).reverse();
      expect(await find({ userId: 'user-7' })).toEqual(ofUser);
      const between = positions.slice(300, 303).reverse();
      expect(await find({ from: START + 300_000, to: START + 303_000 })).toEqual(between);
    };
    await look();
    await upkeep(START + DAY);
    await look();
    await store.abandon();
    store = await openStore({ folder });
    await look();
  });

  it('recognises a duplicate in a chunk that was merged', async () => {
    for (let n = 0; n < 600; n++) await append([event(n)], START + n);
    await upkeep(START + HOUR);
    const batch = {
      id: 'again',
      receivedAt: START + HOUR,
      events: [event(3), event(1000)],
      owed: [],
      plans: [],
      planIndexes: [],
      received: [],
    };
    const { positions } = await store.log.append(batch);
    expect(positions[0]).toBeUndefined();
    expect(positions[1]).toBe(600);
  });

  it('lets go of events past their retention and gives their space back, while new ones arrive', async () => {
    const old: Position[] = [];
    for (let batch = 0; batch < 200; batch++) {
      const events = Array.from({ length: 100 }, (_, n) => ({
        ...event(batch * 100 + n),
        json: unlike(batch * 100 + n),
      }));
      old.push(...(await append(events, START + batch)));
    }
    await upkeep(START + HOUR);
    const before = (await store.log.size()).bytes;
    const [young] = await append([event(999_999)], START + 7 * DAY + HOUR);
    let stop = false;
    const ingest = (async () => {
      for (let n = 1_000_000; !stop; n++) await append([event(n)], START + 7 * DAY + HOUR);
    })();
    const started = performance.now();
    await upkeep(START + 7 * DAY + 2 * HOUR);
    stop = true;
    await ingest;
    const { bytes, oldestAt } = await store.log.size();
    console.log(`${before} bytes before, ${bytes} after, in ${(performance.now() - started).toFixed(0)} ms`);
    expect(bytes).toBeLessThan(before * 0.6);
    expect(oldestAt).toBeGreaterThanOrEqual(START + 7 * DAY);
    expect(await store.log.read([old[0]!, young!])).toEqual([undefined, expect.anything()]);
  });

  it('buries what is still owed of events it lets go of, and keeps events of dead letters readable', async () => {
    const [dead] = await append([event(1), event(2)], START, 'parked');
    const [held] = (await store.queue.claim(CRM, 1, START)).deliveries;
    const attempts = [
      { endpoint: 'x', startedAt: START, latencyMs: 1, outcome: { kind: 'refused', reason: 'status_410' } },
    ] as const;
    const decision = { kind: 'dead', reason: 'status_410' } as const;
    await store.queue.settle([
      { set: held!.set, destination: CRM, position: held!.delivery.position, attempts, decision },
    ]);
    for (let n = 10; n < 20; n++) await append([event(n)], START + 8 * DAY);
    await upkeep(START + 8 * DAY);
    const { destinations } = await store.queue.ledger();
    expect(destinations.get(CRM)).toMatchObject({
      owed: 2,
      pending: 0,
      dead: { status_410: 1, retention_over: 1 },
    });
    // Both are dead letters now; a dead letter can be shown and sent again for as long as it is kept.
    expect((await store.log.read([dead!]))[0]!.event.messageId).toBe('m-1');
    await upkeep(START + 40 * DAY);
    expect(await store.log.read([dead!])).toEqual([undefined]);
  });

  it('keeps within the space allowed, the oldest events first', async () => {
    const positions: Position[] = [];
    for (let batch = 0; batch < 100; batch++) {
      const events = Array.from({ length: 100 }, (_, n) => ({
        ...event(batch * 100 + n),
        json: unlike(batch * 100 + n),
      }));
      positions.push(...(await append(events, START + batch * MINUTE)));
    }
    const disk = (await store.log.size()).bytes / 2;
    await upkeep(START + 3 * HOUR, { ...RETENTION, disk });
    const read = await store.log.read([positions[0]!, positions.at(-1)!]);
    expect(read[0]).toBeUndefined();
    expect(read[1]).toBeDefined();
    expect((await store.log.size()).bytes).toBeLessThanOrEqual(disk * 1.2);
  });

  it('counts profiles, but keeps events on half of the space allowed at least', async () => {
    for (let batch = 0; batch < 100; batch++) {
      const numbers = Array.from({ length: 100 }, (_, n) => batch * 100 + n);
      await append(
        numbers.map((n) => ({ ...event(n), json: unlike(n) })),
        START + batch * MINUTE,
      );
    }
    const disk = (await store.log.size()).bytes;
    for (const [profiles, log] of [
      [disk / 4, 0.75],
      [disk * 9, 0.5],
    ] as const) {
      writeFileSync(join(folder, 'users.db'), Buffer.alloc(Math.round(profiles)));
      await upkeep(START + 3 * HOUR, { ...RETENTION, disk });
      const { bytes } = await store.log.size();
      expect(bytes).toBeLessThanOrEqual(disk * log);
      expect(bytes).toBeGreaterThan(disk * (log - 0.15));
    }
  });

  it('erases a user: events, what is owed, and every byte in the files', async () => {
    const secret = 'erase-me-7f3a9c';
    for (let n = 0; n < 300; n++)
      await append([event(n, n % 10 === 0 ? secret : `user-${n}`)], START + n, 'parked');
    await upkeep(START + 2 * HOUR);
    for (let n = 300; n < 330; n++)
      await append([event(n, n % 10 === 0 ? secret : `user-${n}`)], START + 3 * HOUR, 'held');
    const held = (() => bytesIn(folder, secret))();
    expect(held).toBeGreaterThan(0);

    expect(await erase(store, secret)).toBe(33);
    await store.regulations.scrub();
    expect(bytesIn(folder, secret)).toBe(0);
    expect(await find({ userId: secret })).toEqual([]);
    const { destinations } = await store.queue.ledger();
    expect(destinations.get(CRM)).toMatchObject({ owed: 330, erased: 33, pending: 297 });
    expect((await find({ userId: 'user-7' })).length).toBe(1);
    expect(await erase(store, secret)).toBe(0);
  });

  /** Text that does not compress, for measuring space. */
  function unlike(n: number): string {
    let text = '';
    for (let word = 0; word < 40; word++)
      text += ((Math.imul(n * 41 + word, 0x9e3779b1) >>> 0) * 7919).toString(36);
    return JSON.stringify({ messageId: `m-${n}`, type: 'track', text });
  }
});

/** The number of times a text stands in the raw bytes of the files; small chunks are not compressed. */
function bytesIn(folder: string, text: string): number {
  const files = readdirSync(folder).filter(
    (name) => name.startsWith('millrace.db') && !name.endsWith('-shm'),
  );
  return files.reduce(
    (sum, name) => sum + readFileSync(join(folder, name)).toString('latin1').split(text).length - 1,
    0,
  );
}
