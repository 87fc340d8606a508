import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { balanceOf } from '../../src/model/ledger.ts';
import { ClusterBacklog } from './cluster-backlog.ts';
import { ClusterLog } from './cluster-log.ts';
import { type BeforeCommit, ClusterMember } from './cluster-member.ts';
import { ClusterUpkeep } from './cluster-upkeep.ts';
import { type Postgres, type Session, statementsIn } from './postgres.ts';
import { ROOT } from './program.ts';

/** The page is the source: the tests run the statements that it shows. */
const statements = statementsIn(readFileSync(join(ROOT, 'docs/decisions/0004-postgresql.md'), 'utf8'));

/** One process. */
export interface Process {
  readonly member: ClusterMember;
  readonly log: ClusterLog;
  readonly backlog: ClusterBacklog;
  readonly upkeep: ClusterUpkeep;
}

/** Several processes on one server, and an observer who takes no part. */
export class Cluster {
  readonly #postgres: Postgres;
  readonly #schema: string;
  readonly #observer: Session;
  readonly #processes: Process[] = [];

  private constructor(postgres: Postgres, schema: string, observer: Session) {
    this.#postgres = postgres;
    this.#schema = schema;
    this.#observer = observer;
  }

  /**
   * Makes the tables of a new store, in a schema of this name. Its first process, `a`, makes the partitions of slot 0 and
   * opens slot 1.
   */
  static async open(postgres: Postgres, schema: string): Promise<Cluster> {
    const observer = await postgres.connect();
    const tables = statements.get('schema.tables')!;
    await observer.run(`begin; create schema ${schema}; set search_path to ${schema}; ${tables}; commit`);
    const cluster = new Cluster(postgres, schema, observer);
    const { member, upkeep } = await cluster.join('a');
    await member.script('maintain.make', 0);
    await upkeep.rotate(1);
    return cluster;
  }

  async join(node: string): Promise<Process> {
    const session = await this.#postgres.connect();
    await session.run(`set search_path to ${this.#schema}`);
    const member = await ClusterMember.join(session, node, statements);
    const log = new ClusterLog(member);
    const one = { member, log, backlog: new ClusterBacklog(member), upkeep: new ClusterUpkeep(member, log) };
    this.#processes.push(one);
    return one;
  }

  get first(): Process {
    return this.#processes[0]!;
  }

  /** The first column of the observer's answer. */
  async ask(sql: string): Promise<(string | null)[]> {
    return (await this.#observer.run(sql)).map((row) => Object.values(row)[0] ?? null);
  }

  /** The lease of a process runs out, as if it had not renewed it for long. */
  async lapse({ member }: Process): Promise<void> {
    await this.ask(`update process set expires = clock_timestamp() - interval '1 s' where id = ${member.id}`);
  }

  /** Starts work in another process while a transaction lacks only its commit, and waits until that work is blocked. */
  meanwhile<Answer>(
    other: Process,
    act: () => Promise<Answer>,
  ): { readonly beforeCommit: BeforeCommit; answer(): Promise<Answer> } {
    let answer: Promise<Answer> | undefined;
    const waiting = `select pid from pg_stat_activity where wait_event_type = 'Lock' and pid = ${other.member.pid}`;
    const beforeCommit = async () => {
      answer ??= act();
      while ((await this.ask(waiting)).length === 0);
    };
    return { beforeCommit, answer: () => answer! };
  }

  /** The sums of the ledger hold; gives the counts of a destination. */
  async expectBalanced(destination: number) {
    const { sources, destinations } = await this.first.backlog.ledger();
    for (const [id, { received, accepted, duplicates }] of sources)
      expect(accepted + duplicates, `received by source ${id}`).toBe(received);
    for (const [id, counts] of destinations) expect(balanceOf(counts), `balance of ${id}`).toBe(0);
    return destinations.get(destination);
  }

  /** Ends every session; gives the names of the statements that were run. */
  async close(): Promise<string[]> {
    await this.expectBalanced(0);
    await Promise.all(this.#processes.map(({ member }) => member.session.end()));
    await this.#observer.end();
    return this.#processes.flatMap(({ member }) => [...member.played]);
  }
}

/** Names of all statements of the page. */
export const STATEMENTS: readonly string[] = [...statements.keys()];
