import { encodeSet, summaryOf } from '../../src/adapters/encoding/pending-set.ts';
import type { Delivery } from '../../src/model/delivery.ts';
import type { Position } from '../../src/model/event.ts';
import type { Time } from '../../src/model/time.ts';
import type { PendingSetId } from '../../src/ports/delivery-queue.ts';
import { literal, PostgresError, type Row, type Session, type Value } from './postgres.ts';

/** Room for the set ids of one process. */
const SETS_PER_PROCESS = 2 ** 32;

/** The facts that this process knows about a set it holds. */
export interface InHand {
  readonly destination: number;
  readonly origin: string | null;
  readonly since: Time;
  edits: number;
  left: Delivery[];
}

/** A set to be written. */
export interface NewSet {
  readonly destination: number;
  readonly owner: number | null;
  readonly due: Time;
  readonly since: Time;
  readonly origin: string | null;
  readonly deliveries: readonly Delivery[];
}

/** Deliveries that died together. */
export interface Dead {
  readonly destination: number;
  readonly at: Time;
  readonly reason: string;
  readonly origin: string | null;
  readonly deliveries: readonly Delivery[];
}

/** Whether the process had its lease when its transaction began, and the result if it had. */
type Fenced<Answer> = { readonly lost: true } | { readonly lost: false; readonly answer: Answer };

/** Called when everything of a transaction is done but its commit. */
export type BeforeCommit = () => Promise<void>;

/**
 * One process of a cluster: plays the statements of docs/decisions/0004-postgresql.md as an adapter would, over one
 * connection. The operations built from them are in cluster-backlog.ts and cluster-log.ts.
 */
export class ClusterMember {
  readonly session: Session;
  readonly id: number;
  /** The server's process that serves this one. */
  readonly pid: number;
  readonly held = new Map<PendingSetId, InHand>();
  #sets = 0;
  #turn: Promise<unknown> = Promise.resolve();
  readonly #statements: ReadonlyMap<string, string>;
  /** Names of the statements run so far. */
  readonly played = new Set(['session.settings', 'lease.take']);

  private constructor(session: Session, { id, pid }: Row, statements: ReadonlyMap<string, string>) {
    this.session = session;
    this.id = Number(id);
    this.pid = Number(pid);
    this.#statements = statements;
  }

  /** Prepares every statement that has a plan and takes a lease. */
  static async join(
    session: Session,
    node: string,
    statements: ReadonlyMap<string, string>,
  ): Promise<ClusterMember> {
    const prepared = [...statements].flatMap(([name, sql]) => {
      const isScript = /^(schema|session)\.|:slot/.test(`${name} ${sql}`);
      return isScript ? [] : [`prepare "${name}" as ${sql}`];
    });
    await session.run([statements.get('session.settings')!, ...prepared].join(';\n'));
    const [lease] = await session.run(`execute "lease.take"(${literal(node)})`);
    const [backend] = await session.run('select pg_backend_pid() as pid');
    return new ClusterMember(session, { ...lease!, ...backend! }, statements);
  }

  /** Runs one statement of the page. */
  call(name: string, ...values: Value[]): Promise<Row[]> {
    this.played.add(name);
    const list = values.length === 0 ? '' : `(${values.map(literal).join(', ')})`;
    return this.session.run(`execute "${name}"${list}`);
  }

  /** Runs statements about the partitions of a slot, each by itself. */
  async script(name: string, slot: number): Promise<void> {
    this.played.add(name);
    for (const sql of this.#statements.get(name)!.split(';')) {
      await this.session.run(sql.replaceAll(':slot', String(slot)));
    }
  }

  /** Runs one transaction at a time. A failure leaves nothing of it. */
  transaction<Answer>(work: () => Promise<Answer>, beforeCommit?: BeforeCommit): Promise<Fenced<Answer>> {
    const turn = this.#turn.then(() => this.#transaction(work, beforeCommit));
    this.#turn = turn.catch(() => undefined);
    return turn;
  }

  async #transaction<Answer>(
    work: () => Promise<Answer>,
    beforeCommit?: BeforeCommit,
  ): Promise<Fenced<Answer>> {
    await this.session.run('begin');
    try {
      const alive = await this.call('lease.fence', this.id);
      if (alive.length === 0) {
        await this.session.run('rollback');
        return { lost: true };
      }
      const answer = await work();
      await beforeCommit?.();
      await this.session.run('commit');
      return { lost: false, answer };
    } catch (error) {
      await this.session.run('rollback');
      // A deadlock, or a batch that another connection was just writing: now its answer is there.
      if (error instanceof PostgresError && ['40P01', '23505'].includes(error.code))
        return await this.#transaction(work, beforeCommit);
      throw error;
    }
  }

  /** Whether the lease is still this process's own. */
  async renew(): Promise<boolean> {
    return (await this.call('lease.renew', this.id)).length > 0;
  }

  /** Writes new sets; gives their ids. */
  async owe(sets: readonly NewSet[]): Promise<PendingSetId[]> {
    if (sets.length === 0) return [];
    const ids = sets.map(() => this.id * SETS_PER_PROCESS + this.#sets++);
    const refs = sets.map((set) => encodeSet(set.deliveries));
    const plain = (name: 'destination' | 'owner' | 'due' | 'since') => sets.map((set) => set[name]);
    const sizes = sets.map((set) => set.deliveries.length);
    const columns = [plain('destination'), plain('owner'), plain('due'), plain('since')];
    const origins = sets.map(({ origin }) => origin);
    await this.call(
      'append.owe',
      ids,
      ...columns,
      refs.map((set) => summaryOf(set).first),
      sizes,
      refs,
      origins,
    );
    return ids;
  }

  async count(deltas: readonly (readonly [scope: string, id: number, name: string, value: number])[]) {
    const sums = new Map<string, number>();
    for (const [scope, id, name, value] of deltas) {
      const key = JSON.stringify([scope, id, name]);
      sums.set(key, (sums.get(key) ?? 0) + value);
    }
    const rows = [...sums]
      .sort()
      .map(([key, value]) => [...(JSON.parse(key) as [string, number, string]), value]);
    const column = (at: number) => rows.map((row) => row[at]!);
    if (rows.length > 0) await this.call('append.count', this.id, column(0), column(1), column(2), column(3));
  }

  /** Splits these sets: the rest of each stays in its row, and an empty one is deleted. */
  async leave(sets: readonly { id: PendingSetId; since: Time; left: readonly Delivery[] }[]): Promise<void> {
    const empty = sets.filter(({ left }) => left.length === 0);
    const others = sets.filter(({ left }) => left.length > 0);
    const refs = others.map(({ left }) => encodeSet(left));
    if (empty.length > 0)
      await this.call(
        'settle.done',
        empty.map(({ id }) => id),
      );
    if (others.length === 0) return;
    const [ids, since] = [others.map(({ id }) => id), others.map((set) => set.since)];
    await this.call(
      'settle.left',
      ids,
      since,
      refs.map((set) => summaryOf(set).first),
      others.map(({ left }) => left.length),
      refs,
    );
  }

  async bury(dead: readonly Dead[]): Promise<void> {
    if (dead.length === 0) return;
    const refs = dead.map(({ deliveries }) => encodeSet(deliveries));
    const ranges = refs.map(summaryOf);
    const sizes = dead.map(({ deliveries }) => deliveries.length);
    const plain = (name: 'destination' | 'at' | 'reason') => dead.map((one) => one[name]);
    const [firsts, lasts] = [ranges.map(({ first }) => first), ranges.map(({ last }) => last)];
    await this.call(
      'settle.dead',
      plain('destination'),
      plain('at'),
      plain('reason'),
      firsts,
      lasts,
      sizes,
      refs,
      dead.map(({ origin }) => origin),
    );
    await this.count(
      dead.map(
        (one) => ['destination', one.destination, `dead:${one.reason}`, one.deliveries.length] as const,
      ),
    );
  }
}

export function bytesOf(hex: string): Buffer {
  return Buffer.from(hex.slice(2), 'hex');
}

/** Deliveries of new events. */
export function untried(positions: readonly Position[]): Delivery[] {
  return positions.map((position) => ({ position, rounds: 0 }));
}
