import type { Position } from '../../src/model/event.ts';
import { type GoneNode, NODE_ROLES, type NodeStatus, type SingleJob } from '../../src/model/node.ts';
import { type Duration, HOUR, type Monotonic, SECOND } from '../../src/model/time.ts';
import type { Clock } from '../../src/ports/clock.ts';
import { StorageError } from '../../src/ports/event-log.ts';
import type {
  Acknowledged,
  LeaseFollower,
  Nodes,
  NodeToWaitFor,
  SharedChanges,
} from '../../src/ports/nodes.ts';
import { type Membership, type MemoryContents, NO_OPENING, type Opening } from './contents.ts';

/** As another adapter has them: see `adapters/postgres/member.ts`. */
const LEASE: Duration = 10 * SECOND;
const STOP_AFTER: Duration = 8 * SECOND;
const RENEW_EVERY: Duration = SECOND;
const REJOIN_AFTER: Duration = SECOND;
const TURN: Duration = 30 * SECOND;
const ASK_AGAIN: Duration = 2 * SECOND;

export interface MemoryNodesOptions {
  readonly contents: MemoryContents;
  /** The name of this process; one that had it before is taken for dead. */
  readonly name: string;
  readonly clock: Pick<Clock, 'now' | 'monotonic' | 'after'>;
  /** The time that all processes go by; the clock of this one by default. */
  readonly now?: () => Monotonic;
  /** Called when the lease is lost. */
  readonly onLost?: () => void;
  /** Called for each operation, with what it does in the store, by whoever wants it late or not at all. */
  readonly ask?: Ask;
}

export type Ask = <Answer>(operation: string, apply: () => Answer) => Promise<Answer>;

/** The processes that have the same contents open, each with a lease that it renews. */
export class MemoryNodes implements Nodes {
  readonly #options: MemoryNodesOptions;
  readonly #ask: Ask;
  readonly #now: () => Monotonic;
  #follower: LeaseFollower | undefined;
  #opening: Opening = NO_OPENING;
  /** When the last good renewal began, by the clock of this process. */
  #renewedAt: Monotonic = Number.NEGATIVE_INFINITY;
  /** A lease that is lost once stays so, also when a late renewal still succeeds. */
  #isLost = true;
  /** It has lost its lease, and is not back yet. */
  #isJoining = false;
  #isStopped = false;
  #cancelRenewal = (): void => {};
  #cancelDeadline = (): void => {};

  constructor(options: MemoryNodesOptions) {
    this.#options = options;
    this.#ask = options.ask ?? (async (_, apply) => apply());
    this.#now = options.now ?? options.clock.monotonic;
  }

  /** The opening under which this process has its lease, or had its last one. */
  get opening(): Opening {
    return this.#opening;
  }

  readonly maySend = (): boolean => !this.#isJoining && this.#hasLease();

  readonly #hasLease = (): boolean =>
    !this.#isLost && this.#options.clock.monotonic() - this.#renewedAt <= STOP_AFTER;

  readonly problems = (): readonly string[] =>
    this.maySend() ? [] : ['this node lost its lease in the store and joins again'];

  follow(follower: LeaseFollower): void {
    this.#follower = follower;
  }

  /** Takes a lease. Rejects with a `StorageError`. */
  async join(): Promise<void> {
    const { contents, name, clock } = this.#options;
    const begun = clock.monotonic();
    await this.#ask('join', () => {
      const { members, gone } = contents.shared;
      for (const [opening, member] of members) {
        if (member.name !== name) continue;
        members.delete(opening);
        gone.push({ member, at: this.#now() });
      }
      this.#opening = ++contents.lastHolder;
      const acknowledged = { suppressions: 0, erasures: 0 };
      members.set(this.#opening, { name, since: clock.now(), expires: this.#now() + LEASE, acknowledged });
    });
    this.#isLost = false;
    this.#renewed(begun);
    this.#renewLater();
  }

  /** Parks the sets of processes whose lease is over. Returns the number of deliveries. */
  readonly adopt = (): number => {
    const { contents } = this.#options;
    const { members, gone } = contents.shared;
    for (const [opening, member] of members) {
      if (member.expires > this.#now()) continue;
      members.delete(opening);
      gone.push({ member, at: this.#now() });
    }
    let count = 0;
    for (const set of contents.sets.values()) {
      if (set.holder === undefined || members.has(set.holder)) continue;
      set.holder = undefined;
      count += set.deliveries.size;
    }
    return count;
  };

  list(): Promise<readonly NodeStatus[]> {
    const { members, jobs } = this.#options.contents.shared;
    return this.#ask('list', (): readonly NodeStatus[] =>
      [...members]
        .map(([opening, { name, since, expires }]) => ({
          ...{ name, since, roles: NODE_ROLES, version: '', isSelf: opening === this.#opening },
          leaseLeft: expires - this.#now(),
          jobs: [...jobs].filter(([, holder]) => holder === opening).map(([job]) => job),
        }))
        .sort((a, b) => (a.name < b.name ? -1 : 1)),
    );
  }

  gone(): Promise<readonly GoneNode[]> {
    return this.#ask('gone', () => []);
  }

  database(): Promise<never> {
    return Promise.reject(new StorageError('the store is in memory: no database is asked'));
  }

  take(job: SingleJob): Promise<boolean> {
    return this.#ask('take', () => {
      const { members, jobs } = this.#membersWithMe();
      const holder = jobs.get(job);
      if (holder !== undefined && holder !== this.#opening && members.has(holder)) return false;
      jobs.set(job, this.#opening);
      return true;
    });
  }

  giveBack(job: SingleJob): Promise<void> {
    return this.#ask('giveBack', () => {
      const { jobs } = this.#membersWithMe();
      if (jobs.get(job) === this.#opening) jobs.delete(job);
    });
  }

  changes(): Promise<SharedChanges> {
    return this.#ask('changes', () => {
      const { members, settings, suppressions, erasures } = this.#options.contents.shared;
      const acknowledged = members.get(this.#opening)?.acknowledged ?? { suppressions: 0, erasures: 0 };
      return { settings, suppressions, erasures: erasures.length, acknowledged };
    });
  }

  erasedAfter(erasures: number): Promise<readonly Position[]> {
    return this.#ask('erasedAfter', () =>
      this.#options.contents.shared.erasures
        .slice(erasures)
        .flatMap(({ by, positions }) => (by === this.#opening ? [] : positions)),
    );
  }

  acknowledge({ suppressions = 0, erasures = 0 }: Partial<Acknowledged>): Promise<void> {
    return this.#ask('acknowledge', () => {
      const { acknowledged: known, ...member } = this.#membersWithMe().members.get(this.#opening)!;
      const acknowledged = {
        suppressions: Math.max(known.suppressions, suppressions),
        erasures: Math.max(known.erasures, erasures),
      };
      this.#options.contents.shared.members.set(this.#opening, { ...member, acknowledged });
    });
  }

  toWaitFor({ suppressions = 0, erasures = 0 }: Partial<Acknowledged>): Promise<readonly NodeToWaitFor[]> {
    this.#follower?.awaited();
    return this.#ask('toWaitFor', () => {
      const { members, gone } = this.#options.contents.shared;
      const isBehind = ({ acknowledged }: Membership) =>
        acknowledged.suppressions < suppressions || acknowledged.erasures < erasures;
      const late = gone.filter(({ member, at }) => this.#now() - at < HOUR && isBehind(member));
      return [
        ...[...members.values()].filter(isBehind).map(({ name }) => ({ state: 'behind' as const, name })),
        ...late.map(({ at }) => ({ state: 'gone' as const, goneFor: this.#now() - at })),
      ];
    });
  }

  takeProbe(lane: number): Promise<Duration> {
    return this.#ask('takeProbe', () => {
      const { members, probes } = this.#membersWithMe();
      const turn = probes.get(lane);
      const isOurs = turn?.holder === this.#opening;
      const isHeld = turn !== undefined && (turn.holder === NO_OPENING || members.has(turn.holder));
      if (isHeld && !isOurs && turn.until > this.#now()) return Math.min(turn.until - this.#now(), ASK_AGAIN);
      probes.set(lane, { holder: this.#opening, until: this.#now() + TURN });
      return 0;
    });
  }

  giveBackProbe(lane: number, pause: Duration): Promise<void> {
    return this.#ask('giveBackProbe', () => {
      this.#membersWithMe().probes.set(lane, { holder: NO_OPENING, until: this.#now() + pause });
    });
  }

  /** Renews the lease no more; others may adopt at once. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#isLost = true;
    this.#cancelRenewal();
    this.#cancelDeadline();
    await this.#ask('leave', () => this.#options.contents.shared.members.delete(this.#opening));
  }

  #membersWithMe(): MemoryContents['shared'] {
    const { shared } = this.#options.contents;
    if (!shared.members.has(this.#opening)) throw new StorageError('the lease of this process is over');
    return shared;
  }

  #renewed(begun: Monotonic): void {
    const { clock } = this.#options;
    this.#renewedAt = begun;
    this.#cancelDeadline();
    this.#cancelDeadline = clock.after(begun + STOP_AFTER - clock.monotonic(), () => this.#lose());
  }

  #renewLater(): void {
    this.#cancelRenewal = this.#options.clock.after(RENEW_EVERY, () => void this.#renew(this.#opening));
  }

  async #renew(opening: Opening): Promise<void> {
    const begun = this.#options.clock.monotonic();
    const { members } = this.#options.contents.shared;
    const isHeld = await this.#ask('renew', () => {
      const member = members.get(opening);
      if (member !== undefined) member.expires = this.#now() + LEASE;
      return member !== undefined;
    }).catch(() => undefined);
    if (this.#isLost || this.#isStopped || opening !== this.#opening) return;
    if (isHeld === false || !this.#hasLease()) return this.#lose();
    if (isHeld === true) this.#renewed(begun);
    this.#renewLater();
  }

  #lose(): void {
    if (this.#isLost || this.#isStopped) return;
    this.#isLost = true;
    this.#cancelRenewal();
    this.#cancelDeadline();
    this.#options.onLost?.();
    if (!this.#isJoining) void this.#rejoin();
  }

  async #rejoin(): Promise<void> {
    this.#isJoining = true;
    await this.#follower?.lost();
    while (!this.#isStopped) {
      try {
        await this.join();
        await this.#ask('recoverOrphans', this.adopt);
        await this.#follower?.catchUp();
        // On a slow store the new lease may be over before the adoption is.
        if (this.#hasLease()) break;
      } catch {
        // Tried again below, as after a store that cannot be reached.
      }
      this.#isLost = true;
      this.#cancelRenewal();
      this.#cancelDeadline();
      await new Promise<void>((resolve) => this.#options.clock.after(REJOIN_AFTER, resolve));
    }
    this.#isJoining = false;
    if (!this.#isStopped) this.#follower?.joined();
  }
}
