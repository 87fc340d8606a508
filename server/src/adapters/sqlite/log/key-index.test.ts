import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { keyHash } from '../../encoding/hashes.ts';
import { Quarantine } from '../damage.ts';
import { openDatabase } from '../database.ts';
import { Watermarks } from '../installation.ts';
import { Chunks } from './chunks.ts';
import { KeyIndex } from './key-index.ts';
import { MEMTABLE_KEYS } from './memtable.ts';
import { MAX_BUCKET_BITS, MOST_UNMERGED_KEYS, SortedRunBuilder } from './sorted-run.ts';

const MEMORY = 64 * 1024 * 1024;

/** Spreads numbers over 64 bits, each one its own key. */
const highOf = (n: number) => Math.imul(n, 0x9e3779b1) >>> 0;
const lowOf = (n: number) => Math.imul(n, 0x85ebca6b) >>> 0;

describe('the key index', () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-keys-'));
  const database = openDatabase(folder, { isNew: true });
  const count = MEMTABLE_KEYS + 50_000;
  const openKeys = (memory: number) => {
    const watermarks = new Watermarks(database);
    const options = {
      sumsFrom: 0,
      stored: 0,
      retainedFrom: () => 0,
      hash: keyHash(Buffer.alloc(8)),
      quarantine: new Quarantine(),
      onDamage: () => {},
    };
    const { quarantine } = options;
    return new KeyIndex(database, new Chunks(database, options), { watermarks, memory, quarantine });
  };
  let keys: KeyIndex;
  let longest = 0;
  let slices = 0;

  beforeAll(() => {
    keys = openKeys(MEMORY);
    for (let n = 0; n < count; n++) keys.add(highOf(n), lowOf(n), n, n);
    for (;;) {
      const started = performance.now();
      database.exec('begin');
      const more = keys.flush();
      database.exec('commit');
      if (!more) break;
      slices++;
      longest = Math.max(longest, performance.now() - started);
    }
  });
  afterAll(() => {
    database.close();
    rmSync(folder, { recursive: true });
  });

  const finds = (all: KeyIndex, n: number, since = Number.NEGATIVE_INFINITY) =>
    all.some(highOf(n), lowOf(n), since, (position) => position === n);

  it('flushes a memtable in many short slices', () => {
    console.log(
      `${MEMTABLE_KEYS.toLocaleString('en')} keys flushed in ${slices} slices, the longest ${longest.toFixed(1)} ms`,
    );
    expect(slices).toBeGreaterThan(60);
  });

  it('finds keys of runs and of the memtable', () => {
    for (let n = 0; n < count; n += 97) expect(finds(keys, n), `key ${n}`).toBe(true);
    for (let n = count; n < count + 1000; n++) expect(finds(keys, n)).toBe(false);
  });

  it('finds them after a restart, with and without memory for filters', () => {
    for (const memory of [MEMORY, 0]) {
      const reopened = openKeys(memory);
      for (let n = 0; n < MEMTABLE_KEYS; n += 997) expect(finds(reopened, n), `key ${n}`).toBe(true);
    }
  });

  it('does not read a run that is too old', () => {
    expect(finds(keys, 5, MEMTABLE_KEYS)).toBe(false);
    expect(finds(keys, 5, MEMTABLE_KEYS - 1)).toBe(true);
  });

  it('does a flush that a crash cut off again, from the chunks', () => {
    database.exec('begin');
    database.exec('insert into run(from_position, to_position, youngest, n, form) values (9, 10, 1, 1, 0)');
    database.exec('commit');
    const reopened = openKeys(MEMORY);
    expect(finds(reopened, 7)).toBe(true);
    expect(database.prepare('select count(*) as n from run').get()).toEqual({ n: 1 });
  });

  it('drops a run when its events are gone, in slices', () => {
    expect(keys.dropOldestRun(MEMTABLE_KEYS - 1)).toBe(false);
    let dropped = 0;
    while (keys.dropOldestRun(MEMTABLE_KEYS)) dropped++;
    expect(dropped).toBeGreaterThan(60);
    expect(finds(keys, 5)).toBe(false);
    expect(finds(keys, MEMTABLE_KEYS + 5)).toBe(true);
    expect(database.prepare('select count(*) as n from run_page').get()).toEqual({ n: 0 });
  });
});

describe('a key index that shrinks', () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-keys-'));
  const database = openDatabase(folder, { isNew: true });
  afterAll(() => {
    database.close();
    rmSync(folder, { recursive: true });
  });
  const quarantine = new Quarantine();
  const chunks = new Chunks(database, {
    sumsFrom: 0,
    stored: 0,
    retainedFrom: () => 0,
    hash: keyHash(Buffer.alloc(8)),
    quarantine,
    onDamage: () => {},
  });
  const keys = new KeyIndex(database, chunks, {
    watermarks: new Watermarks(database),
    memory: MEMORY,
    quarantine,
  });
  let stored = 0;
  vi.spyOn(chunks, 'next', 'get').mockImplementation(() => stored);
  const store = (n: number) => {
    for (const end = stored + n; stored < end; stored++)
      keys.add(highOf(stored), lowOf(stored), stored, stored);
  };
  const flushAll = () => {
    database.exec('begin');
    while (keys.flush());
    database.exec('commit');
  };
  const runs = () =>
    database.prepare('select from_position as "from", to_position as "to", n from run order by id').all();
  const missing = () => {
    for (let n = 0; n < stored; n += 7)
      if (!keys.some(highOf(n), lowOf(n), 0, (position) => position === n)) return n;
    return undefined;
  };

  it('keeps few keys in memory', () => {
    store(MOST_UNMERGED_KEYS);
    keys.shrink();
    flushAll();
    expect(runs()).toEqual([]);
    expect(missing()).toBeUndefined();
  });

  it('writes many as a sorted run, with all that came before', () => {
    store(1);
    keys.shrink();
    expect(missing()).toBeUndefined();
    flushAll();
    expect(runs()).toEqual([{ from: 0, to: MOST_UNMERGED_KEYS + 1, n: MOST_UNMERGED_KEYS + 1 }]);
    expect(missing()).toBeUndefined();
  });

  it('goes on behind that run, whose filter can be merged', () => {
    store(MEMTABLE_KEYS + 1);
    flushAll();
    expect(runs().at(-1)).toEqual({
      from: MOST_UNMERGED_KEYS + 1,
      to: MOST_UNMERGED_KEYS + 1 + MEMTABLE_KEYS,
      n: MEMTABLE_KEYS,
    });
    expect(missing()).toBeUndefined();
    const bucketBitsOf = (n: number) => new SortedRunBuilder(n, () => {}).bucketBits;
    expect(bucketBitsOf(MOST_UNMERGED_KEYS + 1)).toBe(MAX_BUCKET_BITS);
    expect(bucketBitsOf(MOST_UNMERGED_KEYS)).toBe(MAX_BUCKET_BITS - 1);
  });
});
