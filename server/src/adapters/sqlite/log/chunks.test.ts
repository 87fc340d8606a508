import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Chunk } from '../../encoding/chunk-codec.ts';
import { COMPACTED } from '../../encoding/chunk-lines.ts';
import { keyHash } from '../../encoding/hashes.ts';
import { Quarantine } from '../damage.ts';
import { openDatabase } from '../database.ts';
import { Chunks } from './chunks.ts';

/** So many that they are compressed, and so long that each chunk has a buffer of its own. */
const EVENTS = 200;
const NAME = 'Order Completed '.repeat(20);

describe('decoded chunks', () => {
  let folder: string;
  let database: DatabaseSync;
  let chunks: Chunks;

  const lineOf = (n: number) => JSON.stringify({ messageId: `message-${n}`, event: NAME, n });
  const read = (first: number): Chunk => {
    const chunk = chunks.at(first);
    expect(chunk?.body.toString(), `chunk at ${first}`).toBe(linesFrom(first));
    return chunk!;
  };
  const linesFrom = (first: number) => Array.from({ length: EVENTS }, (_, n) => lineOf(first + n)).join('\n');

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-chunks-'));
    database = openDatabase(folder, { isNew: true });
    chunks = new Chunks(database, {
      sumsFrom: 0,
      stored: 0,
      retainedFrom: () => 0,
      hash: keyHash(Buffer.alloc(8)),
      quarantine: new Quarantine(),
      onDamage: (first) => expect.unreachable(`the chunk at ${first} is damaged`),
    });
    for (let first = 0; first < 60 * EVENTS; first += EVENTS) {
      const lines = Buffer.from(linesFrom(first));
      const columns = { sources: new Uint32Array(EVENTS), plans: new Uint32Array(EVENTS), n: EVENTS };
      const hashes = { keys: new Uint32Array(2 * EVENTS), users: new Uint32Array(2 * EVENTS) };
      const times = new Float64Array(EVENTS).fill(first);
      chunks.put(first, { ...columns, ...hashes, times, lines }, COMPACTED);
    }
  });
  afterEach(() => {
    database.close();
    rmSync(folder, { recursive: true });
  });

  const given = (decoded: readonly Chunk[]) =>
    decoded.filter(({ body }) => body.buffer.byteLength === 0).length;

  it('can be read for as long as an operation lasts, and give their memory back behind it', () => {
    const decoded = Array.from({ length: 30 }, (_, n) => read(n * EVENTS));
    for (const [n, chunk] of decoded.entries())
      expect(chunk.body.toString(), `chunk ${n} within the operation`).toBe(linesFrom(n * EVENTS));
    chunks.freeDropped();
    expect(given(decoded)).toBe(14);
    for (let n = 0; n < 60; n++) read(n * EVENTS);
  });

  it('are not kept for it without end', () => {
    const decoded = Array.from({ length: 60 }, (_, n) => read(n * EVENTS));
    chunks.freeDropped();
    expect(given(decoded)).toBe(16);
    for (let n = 0; n < 60; n++) read(n * EVENTS);
  });
});
