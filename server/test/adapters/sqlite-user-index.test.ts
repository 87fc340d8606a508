import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { SqliteStore } from '../../src/adapters/sqlite/store.ts';
import type { Position } from '../../src/model/event.ts';
import { DAY, HOUR } from '../../src/model/time.ts';
import { batch, positionsOf } from '../conformance/batches.ts';
import { START } from '../conformance/harness.ts';
import { erase, FOR_EVER, findAll, keepUp } from '../conformance/upkeep.ts';
import { amountOf } from '../support/runs.ts';
import { openStore } from '../support/shared-writer.ts';

const BATCH = 500;
const BLOCKS = amountOf({ gate: 2, long: 4 });
/** The last 64 batches are left as they are; the batches before them make the blocks. */
const BATCHES = 64 + BLOCKS * 35;

/** The search for a user in a log so long that most of it is ruled out by its filters. */
describe('a user in a long log of the SQLite store', () => {
  let folder: string;
  let store: SqliteStore;
  /** Positions of each user's events, the newest first. */
  let expected: Map<string, Position[]>;

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-users-'));
    store = await openStore({ folder });
    expected = new Map();
    await fill(0, BATCHES, START);
    await keepUp(store, START + HOUR, FOR_EVER);
  });

  afterEach(async () => {
    await store.stop();
    rmSync(folder, { recursive: true });
  });

  async function fill(from: number, to: number, receivedAt: number): Promise<void> {
    for (let nth = from; nth < to; nth++) {
      const events = Array.from({ length: BATCH }, (_, index) => {
        const n = nth * BATCH + index;
        const userId = userOf(n);
        const json = JSON.stringify({ messageId: `m${n}`, type: 'track', userId });
        return { source: 1, messageId: `m${n}`, json, ...(userId === undefined ? {} : { userId }) };
      });
      const positions = positionsOf(await store.log.append(batch(events, { receivedAt })));
      for (const [index, position] of positions.entries()) {
        const userId = userOf(nth * BATCH + index);
        if (userId !== undefined) expected.set(userId, [position, ...(expected.get(userId) ?? [])]);
      }
    }
  }

  /** One user came twice, one all the time, one in bursts; some events have no user, the rest have others. */
  function userOf(n: number): string | undefined {
    if (n === 40 * BATCH || n === (BATCHES - 6) * BATCH) return 'rare';
    if (n % 701 === 0) return 'regular';
    if (n % (60 * BATCH) < 40) return 'bursts';
    return n % 10 === 3 ? undefined : `u${n % 6007}`;
  }

  async function expectFound(users = ['rare', 'regular', 'bursts', 'u1', 'u6006', 'nobody']): Promise<void> {
    for (const userId of users)
      expect(await findAll(store, { userId }), userId).toEqual(expected.get(userId) ?? []);
  }

  /** Reads the file directly, past the store. */
  function blocks(): number[] {
    const database = new DatabaseSync(join(folder, 'millrace.db'), { readOnly: true });
    const ids = database.prepare('select id from user_block order by id').all() as { id: number }[];
    database.close();
    return ids.map(({ id }) => id);
  }

  it('is found wherever, also after a restart, an erasure and after the oldest events are gone', async () => {
    expect(blocks()).toEqual(Array.from({ length: BLOCKS }, (_, id) => id));
    await expectFound();
    const [one] = expected.get('regular')!;
    expect(await findAll(store, { userId: 'regular' }, one! - 100 * BATCH)).toEqual(
      expected.get('regular')!.filter((position) => position < one! - 100 * BATCH),
    );
    await store.abandon();
    store = await openStore({ folder });
    await expectFound();
    expect(await erase(store, 'bursts')).toBe(expected.get('bursts')!.length);
    expected.delete('bursts');
    await expectFound();

    await fill(BATCHES, BATCHES + 70, START + 3 * DAY);
    const retention = { events: DAY, deadLetters: DAY };
    await keepUp(store, START + 3 * DAY, retention);
    const left = (await store.log.find({ messageId: `m${BATCHES * BATCH}` })).positions[0]!;
    for (const [userId, positions] of expected) {
      expected.set(
        userId,
        positions.filter((position) => position >= left),
      );
    }
    await expectFound();
    expect(blocks()).toEqual([]);
  });
});
