/**
 * The statements of `server/src/adapters/postgres/` about processes, jobs, turns and acknowledgements: each
 * is a function that does to rows in memory what its SQL does to those of PostgreSQL. They are known by their
 * names; `rows.test.ts` knows the SQL that each was written for.
 */
import type { Position } from '../../../src/model/event.ts';
import { HOUR, SECOND } from '../../../src/model/time.ts';
import type { MemoryContents } from '../../memory-store/contents.ts';
import { type RowTransaction, Table } from './tables.ts';

/** As `LEASE_SECONDS` of member.ts and `TURN_SECONDS` of nodes.ts. */
const LEASE = 10 * SECOND;
const TURN = 30 * SECOND;
/** As `LOCKS.adoption`. */
const ADOPTION = 3;
/** The lease of a process that gave it back is over since ever. */
const GIVEN_BACK = Number.NEGATIVE_INFINITY;

/** Times are milliseconds on the clock of the database. */
export interface ProcessRow {
  readonly id: number;
  readonly node: string;
  readonly expires: number;
  readonly roles: readonly string[];
  readonly version: string;
  readonly since: number;
  readonly file: string | null;
}

interface AcknowledgementRow {
  readonly process: number;
  readonly suppressions: number;
  readonly erasures: number;
  readonly gone: number | null;
}

interface GoneNodeRow {
  readonly node: string;
  readonly roles: readonly string[];
  readonly version: string;
  readonly seen: number;
  readonly adopted: number;
  readonly adoptedBy: string;
}

/** The tables of the leases, and what of the memory store stands for the other tables. */
export class LeaseTables {
  /** By node. */
  readonly process = new Table<ProcessRow>('process');
  /** By process. */
  readonly acknowledgement = new Table<AcknowledgementRow>('acknowledgement');
  /** By node. */
  readonly goneNode = new Table<GoneNodeRow>('gone_node');
  /** By name: the process that has the job. */
  readonly job = new Table<number>('job');
  /** By lane. */
  readonly probe = new Table<{ readonly process: number; readonly next: number }>('probe');
  readonly contents: MemoryContents;

  constructor(contents: MemoryContents) {
    this.contents = contents;
  }

  /** The row of a process; two processes never have one name. */
  find(read: RowTransaction, process: number): ProcessRow | undefined {
    return read.all(this.process).find(([, { id }]) => id === process)?.[1];
  }

  /** The memory store lets exactly those write that have a row. */
  admit(): void {
    const { members } = this.contents.shared;
    const rows = [...this.process.rows.values()];
    for (const opening of members.keys()) if (!rows.some(({ id }) => id === opening)) members.delete(opening);
    for (const { id, node: name, since, expires } of rows) {
      if (members.has(id)) continue;
      members.set(id, { name, since, expires, acknowledged: { suppressions: 0, erasures: 0 } });
    }
  }
}

/** One run of a statement. */
export interface Run {
  readonly tables: LeaseTables;
  readonly transaction: RowTransaction;
  /** The clock of the database. */
  readonly now: number;
  /** Whether any connection is a sign that this process lives. */
  hasSignOfLife(process: number): boolean;
  /** This connection is one from now on. */
  giveSignOfLife(process: number): void;
}

/** Throws a `MustWait` before it has changed anything. */
type StatementOf<Values extends readonly unknown[]> = (run: Run, values: Values) => readonly object[];

/** First in every transaction that writes. False when the lease is lost. */
export function fence({ tables, transaction }: Run, process: number): boolean {
  const row = tables.find(transaction, process);
  if (row !== undefined) transaction.lock(tables.process, row.node, 'share');
  return row !== undefined;
}

const take: StatementOf<[string, string[], string, number, number, string | null]> = (
  run,
  [node, roles, version, runningFor, previous, file],
) => {
  const { tables, transaction, now } = run;
  // Its key may be changed, so not even a fence may be there beside it.
  transaction.lock(tables.process, node, 'alone');
  const other = transaction.get(tables.process, node);
  const isFree =
    other === undefined || other.expires <= now || other.id === previous || !run.hasSignOfLife(other.id);
  if (!isFree) return [];
  const id = ++tables.contents.lastHolder;
  const row = { id, node, expires: now + LEASE, roles, version, since: now - runningFor, file };
  transaction.put(tables.process, node, row);
  transaction.put(tables.acknowledgement, String(id), {
    ...{ process: id, suppressions: 0, erasures: 0, gone: null },
  });
  transaction.atCommit(() => tables.admit());
  run.giveSignOfLife(id);
  return [{ id }];
};

const ofNode: StatementOf<[string]> = ({ tables, transaction }, [node]) => {
  const row = transaction.get(tables.process, node);
  return row === undefined ? [] : [{ id: row.id, expires: row.expires / SECOND }];
};

const renew: StatementOf<[number]> = ({ tables, transaction, now }, [process]) => {
  const row = tables.find(transaction, process);
  if (row === undefined || row.expires === GIVEN_BACK) return [];
  transaction.lock(tables.process, row.node, 'update');
  transaction.put(tables.process, row.node, { ...row, expires: now + LEASE });
  return [{ id: row.id }];
};

const giveBack: StatementOf<[number, string]> = ({ tables, transaction }, [process, node]) => {
  const row = tables.find(transaction, process);
  const acknowledged = transaction.get(tables.acknowledgement, String(process));
  const gone = transaction.get(tables.goneNode, node);
  if (acknowledged !== undefined) transaction.lock(tables.acknowledgement, String(process), 'alone');
  if (gone !== undefined) transaction.lock(tables.goneNode, node, 'alone');
  if (row !== undefined) transaction.lock(tables.process, row.node, 'update');
  transaction.delete(tables.acknowledgement, String(process));
  transaction.delete(tables.goneNode, node);
  if (row !== undefined) transaction.put(tables.process, row.node, { ...row, expires: GIVEN_BACK });
  return [];
};

const hasExpired: StatementOf<[]> = ({ tables, transaction, now }) => {
  const rows = transaction.all(tables.process);
  return [{ expired: rows.some(([, { expires }]) => expires <= now) }];
};

const alone: StatementOf<[]> = ({ transaction }) => {
  transaction.lockAdvisory(ADOPTION);
  return [{}];
};

const gone: StatementOf<[number]> = ({ tables, transaction, now }, [process]) => {
  const late = transaction.all(tables.process).filter(([, { expires }]) => expires <= now);
  for (const [node] of late) transaction.lock(tables.process, node, 'alone');
  const noted = late.filter(([, { expires }]) => expires > GIVEN_BACK);
  for (const [node] of noted) transaction.lock(tables.goneNode, node, 'alone');
  // Also where it is late itself.
  const adoptedBy = tables.find(transaction, process)!.node;
  for (const [node] of late) transaction.delete(tables.process, node);
  for (const [node, { roles, version, expires }] of noted) {
    const seen = expires - LEASE;
    transaction.put(tables.goneNode, node, { node, roles, version, seen, adopted: now, adoptedBy });
  }
  if (late.length > 0) transaction.atCommit(() => tables.admit());
  return [];
};

const forgetGone: StatementOf<[]> = ({ tables, transaction, now }) => {
  const old = transaction.all(tables.goneNode).filter(([, { adopted }]) => adopted < now - HOUR);
  for (const [node] of old) transaction.lock(tables.goneNode, node, 'alone');
  for (const [node] of old) transaction.delete(tables.goneNode, node);
  return [];
};

const park: StatementOf<[]> = ({ tables, transaction }) => {
  const living = new Set(transaction.all(tables.process).map(([, { id }]) => id));
  const orphans = [...tables.contents.sets.values()].filter(
    ({ holder }) => holder !== undefined && !living.has(holder),
  );
  transaction.atCommit(() => {
    for (const set of orphans) if (!living.has(set.holder ?? 0)) set.holder = undefined;
  });
  return [{ n: orphans.reduce((sum, { deliveries }) => sum + deliveries.size, 0) }];
};

/** The memory store has one ledger for all processes. */
const fold: StatementOf<[]> = () => [];

const noteGone: StatementOf<[]> = ({ tables, transaction, now }) => {
  const rows = transaction.all(tables.acknowledgement);
  const old = rows.filter(([, row]) => row.gone !== null && row.gone < now - HOUR);
  const lost = rows.filter(
    ([, { gone: since, process }]) => since === null && tables.find(transaction, process) === undefined,
  );
  for (const [key] of [...old, ...lost]) transaction.lock(tables.acknowledgement, key, 'alone');
  for (const [key] of old) transaction.delete(tables.acknowledgement, key);
  for (const [key, row] of lost) transaction.put(tables.acknowledgement, key, { ...row, gone: now });
  return [];
};

const acknowledge: StatementOf<[number, number, number]> = (
  { tables, transaction },
  [process, suppressions, erasures],
) => {
  const key = String(process);
  if (transaction.get(tables.acknowledgement, key) === undefined) return [];
  transaction.lock(tables.acknowledgement, key, 'update');
  const row = transaction.get(tables.acknowledgement, key)!;
  transaction.put(tables.acknowledgement, key, {
    ...row,
    suppressions: Math.max(row.suppressions, suppressions),
    erasures: Math.max(row.erasures, erasures),
  });
  return [];
};

const toWaitFor: StatementOf<[number, number]> = ({ tables, transaction, now }, [suppressions, erasures]) => {
  const processes = transaction.all(tables.process).map(([, row]) => row);
  const acknowledgements = transaction.all(tables.acknowledgement).map(([, row]) => row);
  const joined = [
    ...processes.map((p) => ({ p, a: acknowledgements.find(({ process }) => process === p.id) })),
    ...acknowledgements
      .filter(({ process }) => !processes.some(({ id }) => id === process))
      .map((a) => ({ p: undefined, a })),
  ];
  return joined
    .filter(({ p }) => p?.expires !== GIVEN_BACK)
    .filter(({ a }) => a === undefined || a.suppressions < suppressions || a.erasures < erasures)
    .map(({ p, a }) => ({
      node: p?.node ?? null,
      earlier: a === undefined,
      gone_for: a === undefined || a.gone === null ? null : now - a.gone,
    }));
};

const takeJob: StatementOf<[string, number]> = ({ tables, transaction }, [name, process]) => {
  transaction.lock(tables.job, name, 'alone');
  const holder = transaction.get(tables.job, name);
  const isFree = holder === undefined || holder === process || tables.find(transaction, holder) === undefined;
  if (!isFree) return [];
  transaction.put(tables.job, name, process);
  return [{ name }];
};

const giveBackJob: StatementOf<[string, number]> = ({ tables, transaction }, [name, process]) => {
  if (transaction.get(tables.job, name) !== process) return [];
  transaction.lock(tables.job, name, 'alone');
  transaction.delete(tables.job, name);
  return [];
};

const list: StatementOf<[]> = ({ tables, transaction, now }) =>
  transaction.all(tables.process).map(([, { id, node, roles, version, since, expires }]) => ({
    ...{ id, node, roles, version, since: Math.floor(since), left: Math.max(expires - now, -1e9) },
    jobs: transaction
      .all(tables.job)
      .filter(([, holder]) => holder === id)
      .map(([name]) => name),
  }));

const goneNodes: StatementOf<[]> = ({ tables, transaction, now }) =>
  transaction
    .all(tables.goneNode)
    .filter(([node, { adopted }]) => {
      return adopted > now - HOUR && transaction.get(tables.process, node) === undefined;
    })
    .map(([name, { roles, version, seen, adopted, adoptedBy: takenOverBy }]) => ({
      ...{ name, roles, version, takenOverBy },
      ...{ lastSeen: Math.floor(seen), takenOverAt: Math.floor(adopted) },
    }));

const changes: StatementOf<[number]> = ({ tables, transaction }, [process]) => {
  const { settings, suppressions, erasures } = tables.contents.shared;
  const row = transaction.get(tables.acknowledgement, String(process));
  const done = {
    suppressions_done: row?.suppressions ?? null,
    erasures_done: row?.erasures ?? null,
  };
  return [{ settings, suppressions, erasures: erasures.length, ...done }];
};

const erasedAfter: StatementOf<[number, number]> = ({ tables }, [known, process]) =>
  tables.contents.shared.erasures
    .slice(known)
    .filter(({ by }) => by !== process)
    .map(({ positions }): { readonly positions: readonly Position[] } => ({ positions }));

const takeProbe: StatementOf<[number, number]> = ({ tables, transaction, now }, [lane, process]) => {
  transaction.lock(tables.probe, String(lane), 'alone');
  const turn = transaction.get(tables.probe, String(lane));
  const left = turn === undefined ? 0 : turn.next - now;
  const taken = left <= 0 || tables.find(transaction, turn!.process) === undefined;
  if (taken) transaction.put(tables.probe, String(lane), { process, next: now + TURN });
  return [{ taken, left }];
};

const giveBackProbe: StatementOf<[number, number]> = ({ tables, transaction, now }, [lane, pause]) => {
  if (transaction.get(tables.probe, String(lane)) === undefined) return [];
  transaction.lock(tables.probe, String(lane), 'update');
  const { process } = transaction.get(tables.probe, String(lane))!;
  transaction.put(tables.probe, String(lane), { process, next: now + pause });
  return [];
};

const clock: StatementOf<[]> = ({ now }) => [{ now: Math.floor(now), shift: null }];

/** Nothing is ever moved into a world, or out of it. */
const standing: StatementOf<[]> = () => [{ record: null, moved: null, moving: false }];

/** By name. */
export const STATEMENTS: Readonly<Record<string, StatementOf<never>>> = {
  'lease.take': take,
  'lease.of_node': ofNode,
  'lease.renew': renew,
  'lease.give_back': giveBack,
  'adopt.has_expired': hasExpired,
  'adopt.alone': alone,
  'adopt.gone': gone,
  'adopt.forget_gone': forgetGone,
  'adopt.park': park,
  'adopt.fold': fold,
  'acknowledgement.note_gone': noteGone,
  'acknowledgement.put': acknowledge,
  'acknowledgement.to_wait_for': toWaitFor,
  'job.take': takeJob,
  'job.give_back': giveBackJob,
  'node.list': list,
  'node.gone': goneNodes,
  'node.changes': changes,
  'node.erased_after': erasedAfter,
  'node.clock': clock,
  'probe.take': takeProbe,
  'probe.give_back': giveBackProbe,
  'migration.standing': standing,
};
