import { isAbsolute } from 'node:path';
import * as z from 'zod';
import { type Duration, type Monotonic, SECOND, type Time } from '../../model/time.ts';
import type { Clock } from '../../ports/clock.ts';
import { StorageError } from '../../ports/event-log.ts';
import type { Logger } from '../../ports/logger.ts';
import type { BackupProgress, Store } from '../../ports/store.ts';
import { type ApiOperation, defineOperation } from '../operation.ts';
import { pageQuery, pageSchema } from '../pagination.ts';
import { Problem } from '../problem.ts';

export interface BackupOperationDependencies {
  readonly backup: Store['backup'];
  readonly clock: Clock;
  readonly logger: Logger;
  readonly newId: () => string;
}

/** Backups that are listed. The list is in memory and begins anew with every start. */
const MAX_LISTED = 20;

const backupSchema = z.object({
  id: z.string(),
  folder: z.string(),
  state: z.enum(['running', 'done', 'failed']),
  at: z.string().meta({ description: 'The moment it is a copy of: what was acknowledged before is in it.' }),
  written: z.int().meta({ description: 'Bytes copied so far.' }),
  bytes: z.int().meta({ description: 'Bytes of the whole.' }),
  events: z.int().exactOptional(),
  damage: z
    .object({ events: z.int(), deliveries: z.int(), others: z.array(z.string()) })
    .exactOptional()
    .meta({ description: 'What cannot be read, in the store as in the copy; absent when everything can.' }),
  seconds: z.number(),
  reason: z.string().exactOptional().meta({ description: 'Why it failed.' }),
});

interface BackupRecord {
  readonly id: string;
  readonly folder: string;
  readonly at: Time;
  readonly began: Monotonic;
  state: 'running' | 'done' | 'failed';
  written: number;
  bytes: number;
  events?: number;
  damage?: { readonly events: number; readonly deliveries: number; readonly others: readonly string[] };
  took?: Duration;
  reason?: string;
}

/**
 * A copy of gigabytes takes longer than a client waits, so a request begins it and others ask for its
 * progress. spec/contract.md, "Verbs that change".
 */
export function backupOperations(dependencies: BackupOperationDependencies): ApiOperation[] {
  const records: BackupRecord[] = [];
  const show = (record: BackupRecord) => backupView(record, dependencies.clock.monotonic());
  return [
    defineOperation({
      method: 'POST',
      path: 'backups',
      role: 'admin',
      status: 201,
      summary: 'Begins a backup: a copy of the running server, as it is now, in a folder on its machine',
      body: z.strictObject({
        folder: z
          .string()
          .refine(isAbsolute, 'must be an absolute path on the machine of the server')
          .meta({ description: 'Made if it does not exist, and empty otherwise; the one above it exists.' }),
      }),
      answer: backupSchema,
      problems: ['backup_running'],
      run: async ({ body: { folder } }) => {
        if (records.some(({ state }) => state === 'running')) throw new Problem('backup_running');
        const record: BackupRecord = {
          id: dependencies.newId(),
          folder,
          at: dependencies.clock.now(),
          began: dependencies.clock.monotonic(),
          state: 'running',
          written: 0,
          bytes: 0,
        };
        records.unshift(record);
        records.splice(MAX_LISTED);
        try {
          await startBackup(record, dependencies);
        } catch (error) {
          records.splice(records.indexOf(record), 1);
          throw error;
        }
        return show(record);
      },
    }),
    defineOperation({
      method: 'GET',
      path: 'backups',
      role: 'admin',
      isInMemory: true,
      summary: 'Lists the backups made since the start, the newest first',
      query: z.object(pageQuery),
      answer: pageSchema(backupSchema),
      run: async ({ query: { limit, cursor } }) => {
        const from = cursor === undefined ? 0 : records.findIndex(({ id }) => id === cursor) + 1;
        const data = records.slice(from, from + limit);
        const next = records.length > from + limit ? data.at(-1)!.id : null;
        return { data: data.map(show), next };
      },
    }),
    defineOperation({
      method: 'GET',
      path: 'backups/:id',
      role: 'admin',
      isInMemory: true,
      summary: 'How far a backup is, or what became of it',
      answer: backupSchema,
      problems: ['unknown_name'],
      run: async ({ names }) => {
        const found = records.find(({ id }) => id === names['id']);
        if (found !== undefined) return show(found);
        const hint = `No backup made since the start has the id ${JSON.stringify(names['id'])}.`;
        throw new Problem('unknown_name', { hint });
      },
    }),
  ];
}

/** Resolves when the first bytes are written. Rejects at once for a folder that cannot be used. */
function startBackup(
  record: BackupRecord,
  { backup, clock, logger }: BackupOperationDependencies,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const { id, folder } = record;
  let isBegun = false;
  const progress: BackupProgress = (written, of) => {
    isBegun = true;
    Object.assign(record, { written, bytes: of });
    resolve();
  };
  backup(folder, progress).then(
    ({ bytes, events, damage }) => {
      const took = clock.monotonic() - record.began;
      Object.assign(record, { state: 'done', written: bytes, bytes, events, took });
      logger.info({ id, folder, bytes, events, ms: took }, 'backup.done');
      if (damage !== undefined) {
        const { events: lost, deliveries, others = [] } = damage;
        record.damage = { events: lost, deliveries, others };
        logger.error({ id, folder, ...record.damage }, 'backup.damaged');
      }
      resolve();
    },
    (error: unknown) => {
      const reason = error instanceof StorageError ? error.reason : String(error);
      Object.assign(record, { state: 'failed', reason, took: clock.monotonic() - record.began });
      logger.error({ id, folder, reason }, 'backup.failed');
      if (isBegun) resolve();
      else reject(new Problem('invalid_parameters', { errors: [{ path: 'body.folder', message: reason }] }));
    },
  );
  return promise;
}

function backupView({ began, took, at, ...record }: BackupRecord, now: Monotonic) {
  return { ...record, at: new Date(at).toISOString(), seconds: (took ?? now - began) / SECOND };
}
