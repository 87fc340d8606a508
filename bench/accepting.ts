import { randomUUID } from 'node:crypto';
import { openMemoryStore } from '../server/src/adapters/memory/store.ts';
import { systemClock } from '../server/src/adapters/node/clock.ts';
import { createListener } from '../server/src/http/listener.ts';
import { Intake } from '../server/src/ingest/intake.ts';
import { writeKeys } from '../server/src/ingest/receive.ts';
import { DiscardSamples } from '../server/src/observe/samples.ts';
import { CallTallies } from '../server/src/observe/tallies.ts';
import { WriteKeyMask } from '../server/src/observe/write-key-mask.ts';

/**
 * The receiving half of the program on a store in memory: listener, intake, exact dedupe, and no disk. Run as
 * `node bench/accepting.ts`; says where it listens.
 */
const silent = () => {};
const logger = { debug: silent, info: silent, warn: silent, error: silent };
const tallies = new CallTallies();
const { log } = openMemoryStore();
const [id, name] = [1, 'bench'];
const source = {
  ...{ id, name, writeKeys: ['bench'] },
  enabled: true,
  mode: 'standard',
  whenDisabled: 'refuse',
} as const;
const keys = writeKeys([source], 'refuse');

const intake = new Intake({
  log,
  deliverer: { reserve: () => 0, release: silent, deliver: silent, parked: silent },
  plan: () => ({ owed: [], skipped: [] }),
  reaches: () => false,
  newBatchId: randomUUID,
  newMessageId: randomUUID,
  clock: systemClock,
  logger,
  watching: () => undefined,
  tallies,
  samples: new DiscardSamples(new WriteKeyMask(() => [])),
  writeKeys: () => keys,
  sourceName: () => name,
});
const listener = createListener({
  ...{ receiver: intake.receive, clock: systemClock, logger, tallies, readiness: () => [] },
  ...{ host: '127.0.0.1', port: 0, bounds: { connections: 1000, requests: 1000, bytes: 64 * 1024 * 1024 } },
});
const { host, port } = await listener.start();
console.log(`ready on http://${host}:${port}`);
process.once('SIGTERM', () => process.exit());
