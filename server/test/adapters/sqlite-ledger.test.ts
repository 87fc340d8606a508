import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { batch, events, owed } from '../conformance/batches.ts';
import { expectBalanced } from '../conformance/harness.ts';
import { amountOf, SEED } from '../support/runs.ts';
import { seeded } from '../support/seeded.ts';
import { crashStore, openStore } from '../support/shared-writer.ts';

/** In memory, where the system has such a folder: nothing here depends on a sync. */
const FOLDERS = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
const newFolder = () => mkdtempSync(join(FOLDERS, 'millrace-ledger-'));

const DESTINATIONS = 10_000;

/** Number of calls; every fourth is followed by a crash or a stop, by turns. */
const ROUNDS = amountOf({ gate: 8, long: 200 });

describe('the ledger of a store with many destinations', () => {
  it('says after every crash and stop what the answered calls have come to', async () => {
    const random = seeded(SEED);
    let folder = newFolder();
    let store = await openStore({ folder });
    const owedTo = new Map<number, number>();
    const accepted = new Map<number, number>();
    for (let round = 0; round < ROUNDS; round++) {
      const source = 1 + Math.floor(random() * 2);
      const destinations = new Set(
        Array.from({ length: 800 }, () => 1 + Math.floor(random() * DESTINATIONS)),
      );
      const owedBy = [...destinations].map((destination) => owed(destination, 'parked', 2));
      const calls = batch(events(2, `of${round}-`, source), { owed: owedBy });
      expect(await store.log.append(calls)).toBeDefined();
      accepted.set(source, (accepted.get(source) ?? 0) + 2);
      for (const destination of destinations) owedTo.set(destination, (owedTo.get(destination) ?? 0) + 2);
      if (round % 4 !== 3) continue;
      if (round % 8 === 3) {
        const left = newFolder();
        await crashStore(folder, left);
        rmSync(folder, { recursive: true });
        folder = left;
      } else await store.stop();
      store = await openStore({ folder });
      const ledger = await store.queue.ledger();
      const stored = new Map([...ledger.destinations].map(([id, counts]) => [id, counts.owed]));
      expect(stored).toEqual(owedTo);
      for (const [id, n] of accepted)
        expect(ledger.sources.get(id)).toMatchObject({ received: n, accepted: n });
      await expectBalanced(store);
    }
    await store.stop();
    rmSync(folder, { recursive: true });
  });
});
