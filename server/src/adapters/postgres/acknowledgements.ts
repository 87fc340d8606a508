import type { Duration } from '../../model/time.ts';
import type { Acknowledged, NodeToWaitFor } from '../../ports/nodes.ts';
import type { Database, Statement } from './database.ts';

/** `$1` process, `$2` number of changes of suppressions, `$3` number of the erasure. */
const ACKNOWLEDGE: Statement = {
  name: 'acknowledgement.put',
  text: `update acknowledgement set suppressions = greatest(suppressions, $2::bigint), erasures = greatest(erasures, $3::bigint)
    where process = $1`,
};

/**
 * How long ago a process lost its lease is counted from here. Changes nothing, and writes nothing, while all
 * are there.
 */
export const NOTE_GONE: Statement = {
  name: 'acknowledgement.note_gone',
  text: `with old as (delete from acknowledgement where gone < clock_timestamp() - interval '1 hour')
    update acknowledgement a set gone = clock_timestamp()
    where gone is null and not exists (select from process p where p.id = a.process)`,
};

/**
 * `$1` number of changes of suppressions, `$2` number of the erasure. A process that has given its lease back
 * does nothing more.
 */
const TO_WAIT_FOR: Statement = {
  name: 'acknowledgement.to_wait_for',
  text: `select p.node, a.process is null as earlier,
      (extract(epoch from clock_timestamp() - a.gone) * 1000)::float8 as gone_for
    from process p full join acknowledgement a on a.process = p.id
    where p.expires is distinct from '-infinity' and (a.process is null or a.suppressions < $1::bigint or a.erasures < $2::bigint)
    order by p.node`,
};

interface WaitRow {
  readonly node: string | null;
  readonly earlier: boolean;
  readonly gone_for: Duration | null;
}

/**
 * Notes what the process with this lease has done. Rejects with a `StorageError`, also when the lease is
 * lost.
 */
export async function acknowledge(
  database: Database,
  { suppressions = 0, erasures = 0 }: Partial<Acknowledged>,
): Promise<void> {
  await database.write((write) => write.rows(ACKNOWLEDGE, [write.process, suppressions, erasures]));
}

/** Resolves to the processes that have not done this yet. Rejects with a `StorageError`. */
export async function processesToWaitFor(
  database: Database,
  { suppressions = 0, erasures = 0 }: Partial<Acknowledged>,
): Promise<readonly NodeToWaitFor[]> {
  const rows = await database.read(async (read) => {
    read.later(NOTE_GONE);
    return await read.rows<WaitRow>(TO_WAIT_FOR, [suppressions, erasures]);
  });
  return rows.map(({ node, earlier, gone_for: goneFor }) => {
    if (goneFor !== null) return { state: 'gone', goneFor };
    return { state: earlier ? 'earlier_version' : 'behind', name: node! };
  });
}
