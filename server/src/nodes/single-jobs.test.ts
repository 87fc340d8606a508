import { describe, expect, it } from 'vitest';
import { handClock } from '../../test/support/clock.ts';
import type { SingleJob } from '../model/node.ts';
import { SECOND } from '../model/time.ts';
import { SingleJobs } from './single-jobs.ts';

/** Some nodes of one database: a job belongs to the node that took it, until it gives it back or dies. */
class Group {
  readonly clock = handClock(0);
  readonly events: string[] = [];
  readonly holders = new Map<SingleJob, string>();
  /** Each ask that reached the database. */
  readonly asked: string[] = [];
  /** Nodes without a lease. */
  readonly lost = new Set<string>();
  /** Runs before a database answers. Rejects where it does not. */
  before: (what: string) => Promise<void> = async () => {};

  /** A node with a part for each of these jobs. */
  async node(name: string, jobs: readonly SingleJob[], mayDo: (job: SingleJob) => boolean = () => true) {
    const node = new SingleJobs({
      nodes: {
        maySend: () => !this.lost.has(name),
        take: async (job) => {
          this.asked.push(`${name} ${job}`);
          await this.before(`take ${job}`);
          if (!this.holders.has(job)) this.holders.set(job, name);
          return this.holders.get(job) === name;
        },
        giveBack: async (job) => {
          await this.before(`give back ${job}`);
          this.events.push(`${name} gives ${job} back`);
          if (this.holders.get(job) === name) this.holders.delete(job);
        },
      },
      mayDo,
      clock: this.clock,
      logger: {
        info: (facts, event) => this.events.push(`${name} ${event} ${(facts as { job: string }).job}`),
        warn: (_, event) => this.events.push(`${name} ${event}`),
      },
    });
    for (const job of jobs) await node.add(job, this.part(`${name}'s ${job}`));
    return node;
  }

  part(name: string) {
    return {
      start: () => void this.events.push(`${name} starts`),
      stop: async () => {
        await undefined;
        this.events.push(`${name} stops`);
      },
    };
  }

  /** The events since the last call. */
  take(): string[] {
    return this.events.splice(0);
  }
}

describe('the jobs of the only process', () => {
  it('start as they are added, and stop in the opposite order', async () => {
    const group = new Group();
    const { clock, events } = group;
    const logger = { info: () => {}, warn: () => void events.push('warns') };
    const jobs = new SingleJobs({ nodes: undefined, mayDo: () => true, clock, logger });
    await jobs.add('replays', group.part('replays'));
    await jobs.add('maintenance', group.part('first'));
    await jobs.add('maintenance', group.part('second'));
    jobs.start();
    await clock.pass(5 * SECOND);
    expect(group.take()).toEqual(['replays starts', 'first starts', 'second starts']);
    await jobs.stop();
    expect(events).toEqual(['second stops', 'first stops', 'replays stops']);
  });
});

describe('the jobs of several nodes', () => {
  it('are each done by one, with all its parts, and by another within a second after that one has stopped', async () => {
    const group = new Group();
    const a = await group.node('a', ['replays', 'maintenance']);
    await a.add('maintenance', group.part("a's second"));
    const b = await group.node('b', ['replays', 'maintenance']);
    expect(group.take()).toEqual([]);
    a.start();
    await group.clock.settle();
    b.start();
    await group.clock.pass(5 * SECOND);
    expect(group.take()).toEqual([
      'a job.begun maintenance',
      "a's maintenance starts",
      "a's second starts",
      'a job.begun replays',
      "a's replays starts",
    ]);
    await a.stop();
    expect(group.take()).toEqual([
      "a's second stops",
      "a's maintenance stops",
      'a job.ended maintenance',
      'a gives maintenance back',
      "a's replays stops",
      'a job.ended replays',
      'a gives replays back',
    ]);
    await group.clock.pass(SECOND);
    expect(group.take()).toEqual([
      'b job.begun maintenance',
      "b's maintenance starts",
      'b job.begun replays',
      "b's replays starts",
    ]);
    await b.stop();
  });

  it('are asked for every second, and not again by whoever has them', async () => {
    const group = new Group();
    const [a, b] = [await group.node('a', ['users']), await group.node('b', ['users'])];
    a.start();
    b.start();
    await group.clock.pass(3 * SECOND);
    expect(group.asked).toEqual(['a users', 'b users', 'b users', 'b users', 'b users']);
    await Promise.all([a.stop(), b.stop()]);
  });

  it('are asked for by nodes that may do them, have parts for them, and have their lease', async () => {
    const group = new Group();
    const a = await group.node('a', ['alerts', 'users'], (job) => job !== 'alerts');
    group.lost.add('a');
    a.start();
    await group.clock.pass(2 * SECOND);
    expect(group.asked).toEqual([]);
    group.lost.clear();
    await group.clock.pass(SECOND);
    expect(group.asked).toEqual(['a users']);
    await a.stop();
  });

  it('end with the lease, and begin again with the next one', async () => {
    const group = new Group();
    const a = await group.node('a', ['maintenance', 'users']);
    a.start();
    await group.clock.settle();
    group.take();
    group.lost.add('a');
    await a.lost();
    expect(group.take()).toEqual([
      "a's maintenance stops",
      'a job.ended maintenance',
      "a's users stops",
      'a job.ended users',
    ]);
    await group.clock.pass(3 * SECOND);
    expect(group.take()).toEqual([]);
    group.lost.clear();
    await group.clock.pass(SECOND);
    expect(group.take()).toContain("a's users starts");
    await a.stop();
  });

  it('end also when the lease is lost while one is asked for', async () => {
    const group = new Group();
    const answer = Promise.withResolvers<void>();
    const a = await group.node('a', ['maintenance']);
    group.before = () => answer.promise;
    a.start();
    await group.clock.settle();
    let isOver = false;
    const lost = a.lost().then(() => (isOver = true));
    await group.clock.settle();
    expect(isOver).toBe(false);
    answer.resolve();
    await lost;
    expect(group.take()).toEqual([
      'a job.begun maintenance',
      "a's maintenance starts",
      "a's maintenance stops",
      'a job.ended maintenance',
    ]);
    await a.stop();
  });

  it('go on being asked for after the database was away, which the log says once each time', async () => {
    const group = new Group();
    const a = await group.node('a', ['maintenance', 'users']);
    const failing = () => Promise.reject(new Error('away'));
    group.before = failing;
    a.start();
    await group.clock.pass(5 * SECOND);
    expect(group.take()).toEqual(['a job.not_asked']);
    group.before = async (what) => {
      if (what === 'take users') throw new Error('away');
    };
    await group.clock.pass(SECOND);
    expect(group.take()).toEqual(['a job.begun maintenance', "a's maintenance starts"]);
    group.holders.set('users', 'b');
    group.before = async () => {};
    await group.clock.pass(SECOND);
    group.before = failing;
    await group.clock.pass(2 * SECOND);
    expect(group.take()).toEqual(['a job.not_asked']);
    await a.stop();
  });

  it('are stopped where they cannot be given back, and the next ones too', async () => {
    const group = new Group();
    const a = await group.node('a', ['maintenance', 'users']);
    a.start();
    await group.clock.settle();
    group.take();
    group.before = async (what) => {
      if (what === 'give back maintenance') throw new Error('away');
    };
    await a.stop();
    expect(group.take()).toEqual([
      "a's maintenance stops",
      'a job.ended maintenance',
      'a job.not_given_back',
      "a's users stops",
      'a job.ended users',
      'a gives users back',
    ]);
    await a.stop();
    expect(group.take()).toEqual([]);
  });

  it('are not begun by a node that stops meanwhile, nor asked for any more', async () => {
    const group = new Group();
    const answer = Promise.withResolvers<void>();
    const a = await group.node('a', ['maintenance', 'users']);
    group.before = (what) => (what === 'take maintenance' ? answer.promise : Promise.resolve());
    a.start();
    await group.clock.settle();
    const stopped = a.stop();
    answer.resolve();
    await stopped;
    await group.clock.pass(5 * SECOND);
    expect(group.asked).toEqual(['a maintenance']);
    expect(group.holders.size).toBe(0);
    expect(group.take().at(-1)).toBe('a gives maintenance back');
  });
});
