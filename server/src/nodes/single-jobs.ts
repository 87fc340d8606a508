import { invariant } from '../model/invariant.ts';
import { SINGLE_JOBS, type SingleJob } from '../model/node.ts';
import { type Duration, SECOND } from '../model/time.ts';
import { type Clock, InterruptibleSleep } from '../ports/clock.ts';
import type { Logger } from '../ports/logger.ts';
import type { Nodes } from '../ports/nodes.ts';

/** How often a job is asked for. After the end of a node its jobs go on after its lease is over, and this. */
const ASK_EVERY: Duration = SECOND;

/** A part of the program that can be started again after it was stopped. */
export interface RestartablePart {
  start(): void | Promise<void>;
  /** Resolves when it does nothing more. Idempotent. */
  stop(): void | Promise<void>;
}

export interface SingleJobsDependencies {
  /** Absent where this process is the only one: then it does everything. */
  readonly nodes: Pick<Nodes, 'take' | 'giveBack' | 'maySend'> | undefined;
  /** Tells whether this process may do a job. */
  readonly mayDo: (job: SingleJob) => boolean;
  readonly clock: Clock;
  readonly logger: Pick<Logger, 'info' | 'warn'>;
}

/**
 * Runs the parts that only one of several nodes may run at a time: here, or on another node until that one
 * stops or dies.
 */
export class SingleJobs {
  readonly #dependencies: SingleJobsDependencies;
  readonly #parts = new Map<SingleJob, RestartablePart[]>();
  readonly #running = new Set<SingleJob>();
  readonly #sleep: InterruptibleSleep;
  #isStopped = false;
  #isFailing = false;
  #loop: Promise<void> | undefined;
  /** Losses of the lease and the asking for jobs, one after the other. */
  #turn: Promise<void> = Promise.resolve();

  constructor(dependencies: SingleJobsDependencies) {
    this.#dependencies = dependencies;
    this.#sleep = new InterruptibleSleep(dependencies.clock);
  }

  /** The part runs while this process has the job. Without other nodes it is started at once. */
  async add(job: SingleJob, part: RestartablePart): Promise<void> {
    invariant(this.#loop === undefined, 'the parts of a job are there before it is asked for');
    this.#parts.set(job, [...(this.#parts.get(job) ?? []), part]);
    if (this.#dependencies.nodes === undefined) await part.start();
  }

  /** Asks for the jobs from now on. Call when all parts were added. */
  start(): void {
    const { nodes } = this.#dependencies;
    if (nodes !== undefined) this.#loop = this.#run();
  }

  /** The lease is lost: stops every part. Resolves when they do nothing more. */
  async lost(): Promise<void> {
    await this.#inTurn(async () => {
      for (const job of this.#running) await this.#end(job);
    });
  }

  /** Stops every part and lets other nodes have the jobs. Idempotent. */
  async stop(): Promise<void> {
    const { nodes, logger } = this.#dependencies;
    this.#isStopped = true;
    this.#sleep.interrupt();
    await this.#loop;
    await this.#inTurn(async () => {
      for (const job of [...this.#running]) {
        await this.#end(job);
        await nodes
          ?.giveBack(job)
          .catch((error: unknown) => logger.warn({ error, job }, 'job.not_given_back'));
      }
    });
    if (nodes !== undefined) return;
    for (const part of [...this.#parts.values()].flat().reverse()) await part.stop();
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => {});
    return done;
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      await this.#inTurn(() => this.#ask());
      if (!this.#isStopped) await this.#sleep.sleep(ASK_EVERY);
    }
  }

  async #ask(): Promise<void> {
    const { nodes, mayDo, logger } = this.#dependencies;
    try {
      for (const job of SINGLE_JOBS) {
        if (this.#isStopped || this.#running.has(job) || !this.#parts.has(job) || !mayDo(job)) continue;
        if (!nodes!.maySend() || !(await nodes!.take(job))) continue;
        this.#running.add(job);
        logger.info({ job }, 'job.begun');
        for (const part of this.#parts.get(job)!) await part.start();
      }
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) logger.warn({ error }, 'job.not_asked');
      this.#isFailing = true;
    }
  }

  async #end(job: SingleJob): Promise<void> {
    this.#running.delete(job);
    for (const part of [...this.#parts.get(job)!].reverse()) await part.stop();
    this.#dependencies.logger.info({ job }, 'job.ended');
  }
}
