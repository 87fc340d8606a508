import { indexWriteKeys } from '../../src/ingest/calls.ts';
import { IngestService } from '../../src/ingest/service.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { EventLog } from '../../src/ports/event-log.ts';
import { sourceWith } from './sources.ts';

type Dependencies = ConstructorParameters<typeof IngestService>[0];

interface IngestTerms extends Partial<Dependencies> {
  readonly log: Pick<EventLog, 'append'>;
  readonly clock: Clock;
}

/**
 * Receiving for one source, `website` with the write key `wk`, whose events are owed to nobody. `terms`: what
 * a test is about.
 */
export function ingestServiceOf(terms: IngestTerms): IngestService {
  const ignore = () => {};
  let ids = 0;
  return new IngestService({
    current: {
      writeKeys: indexWriteKeys([sourceWith({ writeKeys: ['wk'] })], 'refuse'),
      planner: { plan: () => ({ owed: [], skipped: [] }) },
    },
    liveDelivery: { reserve: () => 0, unreserve: ignore, deliver: ignore, parked: ignore },
    newBatchId: () => `b${ids++}`,
    newMessageId: () => `m${ids++}`,
    logger: { debug: ignore, info: ignore, warn: ignore, error: ignore },
    currentObserver: { observer: undefined },
    ingestCounters: {
      ...{ discarded: ignore, refused: ignore, changed: ignore, rateLimited: ignore, publicCalls: ignore },
    },
    discardSampler: { add: ignore },
    sourceName: () => 'website',
    ...terms,
  });
}
