import { readlinkSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import { basename } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { identityHash, keyHash } from '../adapters/encoding/hashes.ts';
import { openSharedProfiles } from '../adapters/postgres/store.ts';
import { openLogReader } from '../adapters/sqlite/log/log-reader.ts';
import { clearProfiles, openProfileStore } from '../adapters/sqlite/users/profile-store.ts';
import { createSystemClock } from '../adapters/system/clock.ts';
import { defined } from '../model/json.ts';
import type { Duration } from '../model/time.ts';
import type { LogFields, Logger, LogLevel } from '../ports/logger.ts';
import { Computations } from '../users/computation/computations.ts';
import { createProcessor } from '../users/processor.ts';
import { serveMessages, UsersService } from '../users/service.ts';
import type { FromUsersThread, ToUsersThread, UsersThreadOptions } from '../users/thread-protocol.ts';

/**
 * The users thread: the second place that puts parts together, because adapters cannot cross threads. The
 * file runs on import, so nothing may import it; `users/client.ts` starts it.
 */
function run(port: MessagePort, options: UsersThreadOptions): void {
  lowerPriority();
  collectOnOwnThread();
  const { store: identity, settings, isPaused } = options;
  const post = (message: FromUsersThread) => port.postMessage(message);
  const logger = loggerTo(post);
  const clock = createSystemClock(options.clock);
  const hash = identityHash(keyHash(identity.keySecret));
  const { reader, openProfiles, replace } = openEngine(options);
  const service = new UsersService({
    open: () => {
      const store = openProfiles();
      const computations = new Computations({ reader, clock });
      return { store, processor: createProcessor({ store, reader, hash, clock, logger, computations }) };
    },
    replace,
    settings,
    reader,
    clock,
    logger,
    processorTime,
    report: (progress) => post({ kind: 'progress', progress }),
    ...defined({ isPaused }),
  });
  const take = serveMessages(service, post);
  // Settings may have changed since the thread was begun: no event is applied with those of before.
  for (let queued = receiveMessageOnPort(port); queued !== undefined; queued = receiveMessageOnPort(port))
    take(queued.message as ToUsersThread);
  port.on('message', take);
  void service.run().then(() => port.close());
}

/** Log and profiles, from the data folder or from the database that nodes share. */
function openEngine({ folder = '.', database, store: { id, keySecret }, cache }: UsersThreadOptions) {
  if (database !== undefined) {
    // Tables, unlike a file, are never put in the place of others.
    return { ...openSharedProfiles(database, keySecret), replace: () => {} };
  }
  const file = { folder, log: id, ...defined({ cache }) };
  return {
    reader: openLogReader(folder),
    openProfiles: () => openProfileStore(file),
    replace: () => clearProfiles(file),
  };
}

/** Linux has a priority for each thread. Elsewhere the call would lower that of the whole process. */
function lowerPriority(): void {
  if (process.platform !== 'linux') return;
  try {
    setPriority(Number(basename(readlinkSync('/proc/thread-self'))), constants.priority.PRIORITY_LOW);
  } catch {
    // A sandbox may hide /proc. The thread then has the priority of all others.
  }
}

/**
 * V8 shares out the collection of young objects among threads of the process, which have the normal priority:
 * what this thread allocates would then take processor time from calls and deliveries. V8 has this setting
 * for the whole process; it is looked at by each collection.
 */
function collectOnOwnThread(): void {
  setFlagsFromString('--no-parallel-scavenge');
}

/** Processor time of this thread, in milliseconds. */
function processorTime(): Duration {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

function loggerTo(post: (message: FromUsersThread) => void): Logger {
  const at = (level: LogLevel) => (facts: LogFields, event: string) => {
    const error = facts['error'];
    const shown = error instanceof Error ? { ...facts, error: error.stack ?? error.message } : facts;
    post({ kind: 'log', level, event, facts: shown });
  };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}

if (parentPort !== null) run(parentPort, workerData as UsersThreadOptions);
