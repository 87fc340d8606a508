import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'vitest';
import type { Position } from '../../src/model/event.ts';
import type { DestinationCounts, SourceCounts } from '../../src/model/ledger.ts';
import type { Store } from '../../src/ports/store.ts';
import { expectBalanced } from '../conformance/harness.ts';
import { openStore } from '../support/shared-writer.ts';

/** Contents and sums of a data folder that no program uses. */
export interface Books {
  /** The ids of all events stored. */
  readonly stored: ReadonlySet<string>;
  /** The counts of the one source and the one destination. */
  readonly source: SourceCounts;
  readonly destination: DestinationCounts;
}

/** Opens the folder as the next start would, expects a balanced ledger and a sound file, and closes it. */
export async function audit(folder: string): Promise<Books> {
  const store = await openStore({ folder });
  let books: Books;
  try {
    await expectBalanced(store);
    const { sources, destinations } = await store.queue.ledger();
    books = {
      stored: await storedIds(store),
      source: [...sources.values()][0] ?? NO_SOURCE,
      destination: [...destinations.values()][0] ?? NO_DESTINATION,
    };
  } finally {
    await store.stop();
  }
  expectSound(folder);
  return books;
}

/** The same on a copy: the next start finds the folder unchanged. */
export async function auditCopy(folder: string): Promise<Books> {
  const copy = mkdtempSync(join(tmpdir(), 'millrace-audit-'));
  try {
    cpSync(folder, copy, { recursive: true });
    return await audit(copy);
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

/** Makes every waiting delivery due now; a test would otherwise wait half an hour. */
export async function releaseAll(folder: string): Promise<void> {
  const store = await openStore({ folder });
  try {
    await store.queue.recoverOrphans();
    for (const { destination } of await store.queue.stats())
      await store.queue.makeDue(destination, Date.now());
  } finally {
    await store.stop();
  }
}

async function storedIds({ log }: Store): Promise<ReadonlySet<string>> {
  const ids = new Set<string>();
  let below: Position | undefined;
  do {
    const found = await log.find({ from: 0, to: Number.MAX_SAFE_INTEGER }, below);
    for (let from = 0; from < found.positions.length; from += 1000) {
      const events = await log.read(found.positions.slice(from, from + 1000));
      for (const stored of events) if (stored !== undefined) ids.add(stored.event.messageId);
    }
    below = found.next;
  } while (below !== undefined);
  return ids;
}

/** `integrity_check` reads every page of the file and every entry of every index. */
function expectSound(folder: string): void {
  const database = new DatabaseSync(join(folder, 'millrace.db'));
  try {
    expect(database.prepare('pragma integrity_check').all()).toEqual([{ integrity_check: 'ok' }]);
  } finally {
    database.close();
  }
}

const NO_SOURCE: SourceCounts = { received: 0, accepted: 0, duplicates: 0, discarded: {} };
const NO_DESTINATION: DestinationCounts = {
  owed: 0,
  delivered: 0,
  pending: 0,
  dead: {},
  dropped: {},
  erased: 0,
  skipped: {},
};

export function deadOf({ dead }: DestinationCounts): number {
  return Object.values(dead).reduce((sum, n) => sum + n, 0);
}

/** The acknowledged events that are not stored. */
export function lost(acknowledged: Iterable<string>, { stored }: Books): string[] {
  return [...acknowledged].filter((id) => !stored.has(id));
}
