import { StorageError } from '../../../ports/event-log.ts';
import type { InstallationReader, InstallationSource } from '../../../ports/installation.ts';
import { placeOf } from '../connection.ts';
import { Database, type Statement } from '../database.ts';
import { markMoved, refuseMoved, standingOf } from './moved.ts';
import { DatabaseReader } from './reader.ts';
import { takeSoleUse } from './sole-use.ts';

/** A process whose lease is over is taken, as any node would: should it come back, it writes nothing any more. */
const TAKE_EXPIRED: Statement = {
  name: 'migration.take_expired',
  text: 'delete from process where expires <= clock_timestamp()',
};

const LIVING: Statement = {
  name: 'migration.living',
  text: `select node, ceil(extract(epoch from expires - clock_timestamp()))::int as seconds from process order by node`,
};

/**
 * Opens a database as the source of a migration. No node may be alive in it, and none starts until `stop`. Rejects with a
 * `StorageError`.
 */
export async function openDatabaseSource(url: string): Promise<InstallationSource> {
  const place = placeOf(url);
  const database = new Database({ url, connections: 3 });
  try {
    await database.refuseSharedSessions();
    const reader = await DatabaseReader.open(database, place);
    const use = await takeSoleUse(database, place);
    try {
      const { record } = await standingOf(database);
      if (record !== undefined && record.progress.phase !== 'complete') await refuseMoved(database);
      await refuseNodes(database, place);
      return sourceOf({ database, reader, use });
    } catch (error) {
      await use.release();
      throw error;
    }
  } catch (error) {
    await database.stop();
    throw error;
  }
}

async function refuseNodes(database: Database, place: string): Promise<void> {
  await database.read((read) => read.rows(TAKE_EXPIRED));
  const living = await database.read((read) => read.rows<{ node: string; seconds: number }>(LIVING));
  const [first] = living;
  if (first === undefined) return;
  const names = living.map(({ node }) => JSON.stringify(node)).join(', ');
  const longest = Math.max(...living.map(({ seconds }) => seconds));
  throw new StorageError(
    `${living.length === 1 ? 'the node' : 'nodes'} ${names} of ${place} ${living.length === 1 ? 'has a lease' : 'have leases'} for ` +
      `${longest} s: stop ${living.length === 1 ? 'it' : 'them'}; after a crash, wait that long`,
  );
}

interface SourceParts {
  readonly database: Database;
  readonly reader: DatabaseReader;
  readonly use: { release(): Promise<void> };
}

function sourceOf({ database, reader, use }: SourceParts): InstallationSource {
  const { place, identity, lastClockMark, unreadableRows } = reader;
  const page: InstallationReader['page'] = (part, after) => reader.page(part, after);
  return {
    place,
    identity,
    lastClockMark,
    unreadableRows,
    state: () => reader.state(),
    size: () => reader.size(),
    marks: () => reader.marks(),
    page,
    leftBehind: () => [
      'admin-token, token-uses.json and timeline files are in the data folders of the nodes: copy those of one node into the new folder',
    ],
    movedTo: async () => (await standingOf(database)).moved?.to,
    markMoved: (to) => markMoved(database, { to, at: new Date().toISOString().replace(/\.\d+Z$/, 'Z') }),
    stop: async () => {
      await use.release();
      await reader.stop();
    },
  };
}
