import { describe } from 'vitest';
import { appendConformance } from './append.ts';
import { claimConformance } from './claim.ts';
import { deadLettersConformance } from './dead-letters.ts';
import { dedupeConformance } from './dedupe.ts';
import { endpointHealthConformance } from './endpoint-health.ts';
import { enqueueConformance } from './enqueue.ts';
import { eraseConformance } from './erase.ts';
import { expireConformance } from './expire.ts';
import { findConformance } from './find.ts';
import type { StoreHarness } from './harness.ts';
import { openForEach } from './harness.ts';
import { historyConformance } from './history.ts';
import { ledgerConformance } from './ledger.ts';
import { makeDueConformance } from './make-due.ts';
import { pendingConformance } from './pending.ts';
import { producerConformance } from './producer.ts';
import { randomConformance } from './random.ts';
import { readConformance } from './read.ts';
import { recoverOrphansConformance } from './recover-orphans.ts';
import { regulationsConformance } from './regulations.ts';
import { retainConformance } from './retain.ts';
import { sessionsConformance } from './sessions.ts';
import { settingsConformance } from './settings.ts';
import { settleConformance } from './settle.ts';
import { spaceConformance } from './space.ts';

export type { StoreHarness } from './harness.ts';
export { START } from './harness.ts';

/**
 * The duties of every store adapter, in the sentences of ports/event-log.ts, ports/delivery-queue.ts,
 * ports/settings-store.ts and model/ledger.ts. An adapter that passes can take the place of any other.
 */
export function storeConformance(name: string, harness: StoreHarness): void {
  describe(name, () => {
    describe('promises', () => {
      const subject = openForEach(harness);
      appendConformance(subject);
      dedupeConformance(subject);
      producerConformance(subject);
      readConformance(subject);
      findConformance(subject);
      eraseConformance(subject);
      retainConformance(subject);
      spaceConformance(subject);
      claimConformance(subject);
      settleConformance(subject);
      makeDueConformance(subject);
      expireConformance(subject);
      enqueueConformance(subject);
      recoverOrphansConformance(subject);
      ledgerConformance(subject);
      historyConformance(subject);
      pendingConformance(subject);
      deadLettersConformance(subject);
      settingsConformance(subject);
      sessionsConformance(subject);
      endpointHealthConformance(subject);
      regulationsConformance(subject);
    });
    randomConformance(harness);
  });
}
