import { StorageError } from '../../../ports/event-log.ts';
import { type Database, LOCKS } from '../database.ts';

/** Longer than any migration, and as long as a timer can be. */
const FOR_EVER = 2 ** 31 - 1;

/**
 * Holds the lock of migrations on a connection of its own until `release`, so that no node starts and no
 * second migration begins meanwhile. The lock goes with the connection, however this process ends. Rejects
 * with a `StorageError`.
 */
export async function takeSoleUse(database: Database, place: string): Promise<{ release(): Promise<void> }> {
  const taken = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const holding = database.session(async (session) => {
    const [row] = await session.query<{ mine: boolean }>(
      `select pg_try_advisory_lock(${LOCKS.migration}) as mine`,
    );
    if (!row!.mine)
      throw new StorageError(`another millrace migrate is at work on ${place}: wait until it has ended`);
    taken.resolve();
    await released.promise;
    await session.query(`select pg_advisory_unlock(${LOCKS.migration})`);
  }, FOR_EVER);
  holding.catch((error: unknown) => taken.reject(error));
  await taken.promise;
  return {
    release: async () => {
      released.resolve();
      // A connection that is gone holds no lock.
      await holding.catch(() => undefined);
    },
  };
}
