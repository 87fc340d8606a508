import { randomUUID } from 'node:crypto';
import { systemClock } from '../server/src/adapters/system/clock.ts';
import { createHttpServer } from '../server/src/http/server.ts';
import { IngestService } from '../server/src/ingest/service.ts';
import { indexWriteKeys } from '../server/src/ingest/write-key-auth.ts';
import {
  DiscardSamples,
  UnattributedCallCounters,
  WriteKeyRedactor,
} from '../server/src/reporting/discards.ts';
import { openMemoryStore } from '../server/test/memory-store/store.ts';

/**
 * The receiving half of the program on a store in memory: listener, intake, exact dedupe, and no disk. Run as
 * `node bench/accepting.ts`; says where it listens.
 */
const silent = () => {};
const logger = { debug: silent, info: silent, warn: silent, error: silent };
const tallies = new UnattributedCallCounters();
const { log } = openMemoryStore();
const [id, name] = [1, 'bench'];
const source = {
  ...{ id, name, writeKeys: ['bench'] },
  enabled: true,
  mode: 'standard',
  whenDisabled: 'refuse',
} as const;
const keys = indexWriteKeys([source], 'refuse');

const intake = new IngestService({
  log,
  liveDelivery: { reserve: () => 0, release: silent, deliver: silent, parked: silent },
  plan: () => ({ owed: [], skipped: [] }),
  hasDestinations: () => false,
  newBatchId: randomUUID,
  newMessageId: randomUUID,
  clock: systemClock,
  logger,
  currentObserver: () => undefined,
  discardCounters: tallies,
  discardSampler: new DiscardSamples(new WriteKeyRedactor(() => [])),
  writeKeys: () => keys,
  sourceName: () => name,
});
const listener = createHttpServer({
  ...{ receiver: intake.handle, clock: systemClock, logger, discards: tallies, readiness: () => [] },
  ...{ host: '127.0.0.1', port: 0, bounds: { connections: 1000, requests: 1000, bytes: 64 * 1024 * 1024 } },
});
const { host, port } = await listener.start();
console.log(`ready on http://${host}:${port}`);
process.once('SIGTERM', () => process.exit());
