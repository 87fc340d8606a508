import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { keyHash } from '../../encoding/hashes.ts';
import { Quarantine } from '../damage.ts';
import { openDatabase } from '../database.ts';
import { Watermarks } from '../installation.ts';
import { Chunks } from './chunks.ts';
import { KeyIndex } from './key-index.ts';
import { MEMTABLE_KEYS } from './memtable.ts';

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
