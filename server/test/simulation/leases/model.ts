/**
 * Claim, lease and takeover on PostgreSQL as a machine of states: two nodes, three pending sets, and a step
 * for each statement that the database serializes. docs/decisions/0063-lease-model.md says which line of the
 * adapter each step stands for: whoever changes one changes the other.
 *
 * A term is one run of a node under one lease. Terms are never used again, so that the promises can tell two
 * leases apart even where the program cannot.
 */

/** The guards of the promises. Each may be left out, to see why it is there. */
export const GUARDS = {
  fence: 'a write fails when the lease of its process is gone (database.ts)',
  fenceLock: 'a write keeps its lease from being taken until its commit (fence: for key share)',
  adoptExpired: 'only the processes are adopted whose lease is over (GONE)',
  parkLate: 'what the dead held is looked for after their lease is gone, not before (PARK)',
  alone: 'one adoption at a time (ALONE)',
  newNumber: 'a process that joins again has a new number (TAKE)',
  stopFirst: 'a node stops sending before its lease is over (STOP_AFTER)',
  latch: 'a lease that was lost once stays lost, also when a late renewal succeeds (isLost)',
  claimsEnd: 'a node joins again when no claim is under way (forget)',
  forgetQueue: 'a worker forgets what waits in memory when the lease is lost (forget)',
  forgetRounds: 'the result of a request that began under an earlier lease is dropped (isOurs)',
  forgetResults: 'results that nobody has asked to write are forgotten with the lease (ResultWriter.forget)',
  ofRequest: 'results are written by the process that held their deliveries alone (ResultSettler)',
  mine: 'results are written to sets that this process holds (MINE)',
  settleLock: 'a set is locked while its results are written (MINE: for update)',
  skipLocked: 'a claim passes over what another one is taking (DUE: for update skip locked)',
  putBackMine: 'a claim in doubt puts back what this process holds alone (PUT_BACK)',
} as const;

export type Guard = keyof typeof GUARDS;

/** How often each thing may go wrong, in one scenario. */
export interface Chances {
  /** A node without an answered renewal for so long that its lease is over. */
  readonly losses?: number;
  readonly crashes?: number;
  /** Starts of a node that crashed. */
  readonly restarts?: number;
  /** Commits of claims that nobody hears of. */
  readonly doubts?: number;
  readonly erasures?: number;
  /** Deliveries that fail, and wait as a new set. */
  readonly retries?: number;
}

export interface Scenario extends Chances {
  readonly sets?: 1 | 2 | 3;
}

/** A delivery in the memory of a node, on its way from the claim to the row that its result deletes. */
interface Copy {
  readonly node: number;
  readonly term: number;
  /** Of the set: the row of a retry has another id. */
  readonly version: number;
  readonly at: At;
}

type At = 'taking' | 'back' | 'doubt' | 'claimed' | 'queued' | 'flight' | 'result' | 'asked' | 'settling';

/** A part of a state is replaced and never changed, so its text has to be made only once. */
export interface Part {
  /** Of its text, among all that were explored. */
  number?: number | undefined;
}

/** A row of "pending", with one delivery. */
export interface PendingSet extends Part {
  readonly name: string;
  readonly version: number;
  /** Process; 0 while it is parked. */
  readonly owner: number;
  /** In which it was claimed last. */
  readonly term: number;
  readonly end: '' | 'settled' | 'erased';
  /** Nodes whose adoption has seen it without a living owner. */
  readonly seenBy: readonly number[];
  readonly copies: readonly Copy[];
}

/** A row of "process"; `id` 0 where there is none. */
export interface Lease extends Part {
  readonly id: number;
  readonly isExpired: boolean;
  /** The node whose adoption has deleted the row, and not committed. */
  readonly takenBy: number | undefined;
}

/** Each transaction has how far it is, and the process that it writes as. */
export interface Node extends Part {
  readonly phase: 'up' | 'lost' | 'adopting' | 'down';
  /** The number of its process. */
  readonly lease: number;
  readonly term: number;
  /** By its own clock its lease may be over. */
  readonly isLate: boolean;
  readonly claim: {
    readonly at: '' | 'asked' | 'locked' | 'unheard';
    readonly as: number;
    readonly term: number;
  };
  /** `askedAs`: the process that held the deliveries. */
  readonly settle: { readonly at: '' | 'asked' | 'locked'; readonly as: number; readonly askedAs: number };
  /** `living`: the processes that its look for sets sees. */
  readonly adopt: {
    readonly at: '' | 'alone' | 'gone' | 'seen';
    readonly as: number;
    readonly living: readonly number[];
  };
}

const NO_CLAIM: Node['claim'] = { at: '', as: 0, term: 0 };
const NO_SETTLE: Node['settle'] = { at: '', as: 0, askedAs: 0 };
const NO_ADOPTION: Node['adopt'] = { at: '', as: 0, living: [] };
const IDLE = { isLate: false, claim: NO_CLAIM, settle: NO_SETTLE, adopt: NO_ADOPTION };
const NO_ROW: Lease = { id: 0, isExpired: false, takenBy: undefined };

/** A state, or one that is being made of another. */
export class State {
  readonly sets: PendingSet[];
  readonly leases: Lease[];
  readonly nodes: Node[];
  left: Required<Chances> & Part;
  terms: number;

  constructor({
    sets,
    leases,
    nodes,
    left,
    terms,
  }: Pick<State, 'sets' | 'leases' | 'nodes' | 'left' | 'terms'>) {
    this.sets = [...sets];
    this.leases = [...leases];
    this.nodes = [...nodes];
    this.left = left;
    this.terms = terms;
  }

  spend(chance: keyof Chances): void {
    this.left = { ...this.left, [chance]: this.left[chance] - 1, number: undefined };
  }

  set(at: number, change: Partial<PendingSet>): void {
    this.sets[at] = { ...this.sets[at]!, ...change, number: undefined };
  }

  lease(nth: number, change: Partial<Lease>): void {
    this.leases[nth] = { ...this.leases[nth]!, ...change, number: undefined };
  }

  node(nth: number, change: Partial<Node>): void {
    this.nodes[nth] = { ...this.nodes[nth]!, ...change, number: undefined };
  }

  /** Moves copies of a node on; without `to` they are gone. */
  move(nth: number, from: At, to?: At, only: (set: PendingSet) => boolean = () => true): void {
    for (const [at, set] of this.sets.entries()) {
      if (!only(set) || !has(set, nth, from)) continue;
      const copies = set.copies.flatMap((copy) => {
        if (copy.node !== nth || copy.at !== from) return copy;
        return to === undefined ? [] : { ...copy, at: to };
      });
      this.set(at, { copies });
    }
  }
}

const has = ({ copies }: PendingSet, nth: number, at: At) =>
  copies.some((copy) => copy.node === nth && copy.at === at);
const namesOf = (sets: readonly PendingSet[]) => sets.map(({ name }) => name).join(' and ') || 'nothing';
const nameOf = (nth: number) => `node ${nth + 1}`;

export function begin({ sets = 3, ...chances }: Scenario): State {
  const set = { version: 0, owner: 0, term: 0, end: '', seenBy: [], copies: [] } as const;
  return new State({
    sets: ['A', 'B', 'C'].slice(0, sets).map((name) => ({ name, ...set })),
    leases: [1, 2].map((id) => ({ ...NO_ROW, id })),
    nodes: [1, 2].map((lease) => ({ phase: 'up', lease, term: lease, ...IDLE })),
    left: { losses: 0, crashes: 0, restarts: 0, doubts: 0, erasures: 0, retries: 0, ...chances },
    terms: 2,
  });
}

/** `broken`: the promise that the step breaks. */
export interface Step {
  readonly label: string;
  readonly next: State;
  readonly broken?: string | undefined;
}

/** Makes the next state; returns the promise that is broken by it, if there is one. */
type Change = (next: State) => unknown;

/** Finds the steps that may come next. */
export class Steps {
  readonly #without: readonly Guard[];
  #state!: State;
  #found: Step[] = [];

  constructor(without: readonly Guard[]) {
    this.#without = without;
  }

  after(state: State): readonly Step[] {
    this.#state = state;
    this.#found = [];
    for (const nth of state.nodes.keys()) {
      this.#clock(nth);
      this.#membership(nth);
      this.#crash(nth);
      this.#adoption(nth);
      this.#claim(nth);
      this.#sending(nth);
      this.#settle(nth);
    }
    for (const [at, set] of state.sets.entries())
      if (state.left.erasures > 0 && set.end === '' && !this.#isLocked(set))
        this.#to(`${set.name} is erased`, (next) => {
          next.spend('erasures');
          next.set(at, { end: 'erased' });
        });
    return this.#found;
  }

  #has(guard: Guard): boolean {
    return !this.#without.includes(guard);
  }

  #to(label: string, change: Change): void {
    const next = new State(this.#state);
    const broken = change(next);
    this.#found.push({ label, next, broken: typeof broken === 'string' ? broken : undefined });
  }

  /** Time passes, and renewals are answered or not. */
  #clock(nth: number): void {
    const { nodes, leases, left } = this.#state;
    const { phase, isLate, lease: own } = nodes[nth]!;
    const { id, isExpired, takenBy } = leases[nth]!;
    const isHere = id !== 0 && takenBy === undefined;
    const isEarly = !isLate && phase !== 'down';
    if (isEarly && phase !== 'lost' && left.losses > 0)
      this.#to(`${nameOf(nth)} has had no renewal for 8 s, by its own clock`, (next) => {
        next.spend('losses');
        next.node(nth, { isLate: true });
      });
    if (isHere && !isExpired && (!isEarly || (!this.#has('stopFirst') && left.losses > 0)))
      this.#to(`the lease of process ${id} is over`, (next) => {
        if (isEarly) next.spend('losses');
        next.lease(nth, { isExpired: true });
      });
    if (isHere && phase === 'up' && isLate && id === own)
      this.#to(`a late renewal of process ${id} succeeds`, (next) => {
        next.lease(nth, { isExpired: false });
        if (!this.#has('latch')) next.node(nth, { isLate: false });
      });
  }

  /** Losing a lease, and joining again. */
  #membership(nth: number): void {
    const { nodes, leases, left, terms } = this.#state;
    const { phase, isLate, lease: own, claim, adopt } = nodes[nth]!;
    const { id, takenBy } = leases[nth]!;
    const isOver = isLate || id !== own;
    if (isOver && (phase === 'up' || (phase === 'adopting' && adopt.at === '')))
      this.#to(`${nameOf(nth)} notices that its lease is lost`, (next) => this.#lose(next, nth));
    const mayJoin = phase === 'lost' && (claim.at === '' || !this.#has('claimsEnd'));
    if (takenBy !== undefined || this.#isFenced(id) || !(mayJoin || (phase === 'down' && left.restarts > 0)))
      return;
    const lease = this.#has('newNumber') ? terms + 1 : own;
    this.#to(`${nameOf(nth)} joins as process ${lease}`, (next) => {
      if (phase === 'down') next.spend('restarts');
      next.terms++;
      next.lease(nth, { id: lease, isExpired: false });
      next.node(nth, { phase: 'adopting', lease, term: next.terms, isLate: false });
    });
  }

  /** A transaction of the dead may still be open in the database, with its commit on the way. */
  #crash(nth: number): void {
    const { nodes, left } = this.#state;
    const { phase, claim, settle, adopt } = nodes[nth]!;
    const isOpen = claim.at !== '' || settle.at !== '' || adopt.at !== '';
    const undo = (next: State, isKept: (at: At) => boolean) => {
      for (const [at, set] of next.sets.entries())
        next.set(at, { copies: set.copies.filter((copy) => copy.node !== nth || isKept(copy.at)) });
    };
    if (phase !== 'down' && left.crashes > 0)
      this.#to(`${nameOf(nth)} crashes`, (next) => {
        next.spend('crashes');
        undo(next, (at) => ['taking', 'back', 'settling'].includes(at));
        next.node(nth, {
          phase: 'down',
          isLate: false,
          claim: claim.at === 'locked' ? claim : NO_CLAIM,
          settle: settle.at === 'locked' ? settle : NO_SETTLE,
        });
      });
    if (phase === 'down' && isOpen)
      this.#to(`the database ends what ${nameOf(nth)} left open`, (next) => {
        undo(next, () => false);
        for (const [at, set] of next.sets.entries())
          if (set.seenBy.includes(nth)) next.set(at, { seenBy: set.seenBy.filter((one) => one !== nth) });
        for (const [at, { takenBy }] of next.leases.entries())
          if (takenBy === nth) next.lease(at, { takenBy: undefined });
        next.node(nth, IDLE);
      });
  }

  /** Everything that the program does at once when it hears that its lease is lost. */
  #lose(next: State, nth: number): void {
    next.node(nth, { phase: 'lost' });
    if (this.#has('forgetQueue')) next.move(nth, 'queued');
    if (this.#has('forgetRounds')) next.move(nth, 'flight');
    if (this.#has('forgetResults')) next.move(nth, 'result');
  }

  /** Freeing what the dead held: ALONE, GONE, PARK, and the commit. */
  #adoption(nth: number): void {
    const { nodes, leases, sets } = this.#state;
    const { phase, lease: own, adopt, isLate } = nodes[nth]!;
    const isOver = ({ id, isExpired }: Lease) =>
      id !== 0 && (isExpired || (!this.#has('adoptExpired') && id !== own));
    const isOrphan = ({ owner, end }: PendingSet, living: readonly number[]) =>
      owner !== 0 && end === '' && !living.includes(owner);
    const look = (next: State, at: 'alone' | 'seen', living: readonly number[]) => {
      next.node(nth, { adopt: { at, as: own, living } });
      for (const [place, set] of sets.entries())
        if (isOrphan(set, living)) next.set(place, { seenBy: [...set.seenBy, nth] });
    };
    const isAlone = !nodes.some((other, at) => at !== nth && other.adopt.at !== '');
    const isWanted = phase === 'adopting' || (phase === 'up' && leases.some(isOver));
    if (adopt.at === '' && isWanted && (isAlone || !this.#has('alone')))
      this.#fenced(nth, own, `${nameOf(nth)} begins to adopt`, (next) => {
        next.node(nth, { adopt: { at: 'alone', as: own, living: [] } });
        if (!this.#has('parkLate'))
          look(
            next,
            'alone',
            leases.filter((one) => !isOver(one)).map(({ id }) => id),
          );
      });
    const over = leases.filter(isOver);
    if (
      adopt.at === 'alone' &&
      over.every(({ id, takenBy }) => takenBy === undefined && !this.#isFenced(id, nth))
    )
      this.#to(
        `${nameOf(nth)} deletes the leases that are over: ${over.map(({ id }) => id).join(', ') || 'none'}`,
        (next) => {
          next.node(nth, { adopt: { ...adopt, at: this.#has('parkLate') ? 'gone' : 'seen' } });
          for (const [at, one] of leases.entries()) if (isOver(one)) next.lease(at, { takenBy: nth });
        },
      );
    if (adopt.at === 'gone')
      this.#to(`${nameOf(nth)} looks for sets whose process is gone`, (next) =>
        look(
          next,
          'seen',
          leases.filter(({ takenBy }) => takenBy !== nth).map(({ id }) => id),
        ),
      );
    const orphans = sets.filter((set) => set.seenBy.includes(nth) && isOrphan(set, adopt.living));
    if (adopt.at !== 'seen' || orphans.some((set) => this.#isLocked(set))) return;
    this.#to(`${nameOf(nth)} parks ${namesOf(orphans)}, and commits its adoption`, (next) => {
      for (const [at, set] of sets.entries())
        if (set.seenBy.includes(nth))
          next.set(at, {
            seenBy: set.seenBy.filter((one) => one !== nth),
            owner: orphans.includes(set) ? 0 : set.owner,
          });
      for (const [at, { takenBy }] of leases.entries()) if (takenBy === nth) next.lease(at, NO_ROW);
      next.node(nth, { adopt: NO_ADOPTION, phase: phase !== 'adopting' ? phase : isLate ? 'lost' : 'up' });
    });
  }

  /** Claiming parked sets: DUE with its locks, HOLD and the commit, and its answer. */
  #claim(nth: number): void {
    const { nodes, sets } = this.#state;
    const { claim, lease: own, term } = nodes[nth]!;
    const inDoubt = (set: PendingSet) =>
      set.copies.some(({ node, at, version }) => node === nth && at === 'doubt' && version === set.version);
    const isBack = (set: PendingSet) =>
      set.end === '' && inDoubt(set) && (set.owner === claim.as || !this.#has('putBackMine'));
    const isFree = (set: PendingSet) =>
      set.end === '' && (set.owner === 0 || isBack(set)) && !(this.#isLocked(set) && this.#has('skipLocked'));
    if (claim.at === '' && this.#maySend(nth) && sets.some((set) => isFree(set) || inDoubt(set)))
      this.#to(`${nameOf(nth)} asks for a claim`, (next) =>
        next.node(nth, { claim: { at: 'asked', as: own, term } }),
      );
    if (claim.at === 'asked') {
      const free = sets.filter(isFree);
      for (const found of free.length > 1 ? [free, free.slice(0, 1)] : [free])
        this.#fenced(
          nth,
          claim.as,
          `${nameOf(nth)} locks ${namesOf(found)} as process ${claim.as}`,
          (next) => {
            next.node(nth, { claim: { ...claim, at: 'locked' } });
            next.move(nth, 'doubt');
            for (const [at, set] of sets.entries()) {
              const now = found.includes(set) ? 'taking' : isBack(set) ? 'back' : undefined;
              const { copies, version } = next.sets[at]!;
              if (now !== undefined)
                next.set(at, { copies: [...copies, { node: nth, term: claim.term, version, at: now }] });
            }
          },
          (next) => next.node(nth, { claim: NO_CLAIM }),
        );
    }
    if (claim.at !== '') this.#endClaim(nth, claim);
  }

  #endClaim(nth: number, claim: Node['claim']): void {
    const { nodes, sets, left } = this.#state;
    const { phase } = nodes[nth]!;
    const commit = (next: State) => {
      for (const [at, set] of sets.entries())
        if (has(set, nth, 'taking')) next.set(at, { owner: claim.as, term: claim.term });
        else if (has(set, nth, 'back')) next.set(at, { owner: 0 });
    };
    const after = (next: State, at: '' | 'unheard', then: At | undefined) => {
      next.move(nth, 'back');
      next.move(nth, 'taking', then);
      next.node(nth, { claim: at === '' ? NO_CLAIM : { ...claim, at } });
    };
    if (claim.at === 'locked')
      this.#to(`${nameOf(nth)} commits its claim`, (next) => {
        commit(next);
        if (phase === 'down') after(next, '', undefined);
        else after(next, 'unheard', 'claimed');
      });
    if (claim.at === 'locked' && phase !== 'down' && left.doubts > 0)
      for (const isDone of [true, false])
        this.#to(
          `${nameOf(nth)} does not hear that its claim is${isDone ? '' : ' not'} committed`,
          (next) => {
            next.spend('doubts');
            if (isDone) commit(next);
            after(next, '', 'doubt');
          },
        );
    if (claim.at === 'unheard')
      this.#to(`${nameOf(nth)} has the answer to its claim`, (next) => {
        next.node(nth, { claim: NO_CLAIM });
        next.move(nth, 'claimed', this.#maySend(nth) ? 'queued' : undefined);
      });
  }

  /** Requests to the endpoint, and their answers. */
  #sending(nth: number): void {
    const { nodes, sets } = this.#state;
    for (const set of sets) {
      const { name, owner, version, end } = set;
      const only = (other: PendingSet) => other === set;
      if (has(set, nth, 'queued') && this.#maySend(nth))
        this.#to(`${nameOf(nth)} sends ${name}`, (next) => {
          next.move(nth, 'queued', 'flight', only);
          const isHeld = set.copies.every(
            ({ node, at, ...copy }) =>
              node !== nth ||
              at !== 'queued' ||
              (owner === nodes[nth]!.lease && set.term === copy.term && version === copy.version),
          );
          return isHeld || end === 'erased'
            ? undefined
            : `${name} is sent by a process that does not hold it`;
        });
      if (has(set, nth, 'flight'))
        this.#to(`${nameOf(nth)} has the answer for ${name}`, (next) =>
          next.move(nth, 'flight', 'result', only),
        );
    }
  }

  /** Writing results: MINE with its locks, and the commit. */
  #settle(nth: number): void {
    const { nodes, sets, left } = this.#state;
    const { settle, lease: own, phase } = nodes[nth]!;
    const of = (at: At) => sets.filter((set) => has(set, nth, at));
    if (settle.at === '' && phase !== 'down' && of('result').length > 0)
      this.#to(`${nameOf(nth)} asks to write the results of ${namesOf(of('result'))}`, (next) => {
        next.node(nth, { settle: { at: 'asked', as: 0, askedAs: own } });
        next.move(nth, 'result', 'asked');
      });
    const isMine = (set: PendingSet) =>
      set.end === '' &&
      set.copies.some(({ node, at, version }) => node === nth && at === 'asked' && version === set.version) &&
      (settle.askedAs === own || !this.#has('ofRequest')) &&
      (set.owner === own || !this.#has('mine'));
    const mine = of('asked').filter(isMine);
    if (settle.at === 'asked' && !mine.some((set) => this.#isLocked(set)))
      this.#fenced(
        nth,
        own,
        `${nameOf(nth)} locks ${namesOf(mine)} to write results as process ${own}`,
        (next) => {
          next.node(nth, { settle: mine.length > 0 ? { ...settle, at: 'locked', as: own } : NO_SETTLE });
          next.move(nth, 'asked', 'settling', isMine);
          next.move(nth, 'asked');
        },
        (next) => {
          next.node(nth, { settle: NO_SETTLE });
          next.move(nth, 'asked', this.#has('forgetResults') ? undefined : 'result');
        },
      );
    if (settle.at !== 'locked') return;
    const settling = of('settling');
    const commit = (next: State, isRetry: boolean) => {
      next.node(nth, { settle: NO_SETTLE });
      next.move(nth, 'settling');
      let broken: string | undefined;
      for (const [at, set] of sets.entries()) {
        const copy = set.copies.find((one) => one.node === nth && one.at === 'settling');
        if (copy === undefined) continue;
        if (set.end !== '' || copy.version !== set.version) broken = `${set.name} is settled twice`;
        else if (copy.term !== set.term) broken = `a result of an earlier lease settles ${set.name}`;
        next.set(at, isRetry ? { version: set.version + 1, owner: 0 } : { owner: 0, end: 'settled' });
      }
      return broken;
    };
    this.#to(`${nameOf(nth)} commits that ${namesOf(settling)} were delivered`, (next) =>
      commit(next, false),
    );
    if (left.retries > 0)
      this.#to(`${nameOf(nth)} commits that ${namesOf(settling)} are tried again`, (next) => {
        next.spend('retries');
        return commit(next, true);
      });
  }

  /**
   * The first step of a transaction, and the end of it when its lease is gone. While somebody takes the
   * lease, it waits.
   */
  #fenced(nth: number, as: number, label: string, change: Change, failed: Change = () => {}): void {
    const lease = this.#state.leases.find(({ id }) => id === as);
    const isWaiting = lease?.takenBy !== undefined;
    if (!this.#has('fence') || (lease !== undefined && !isWaiting)) this.#to(label, change);
    if (!this.#has('fence') || lease !== undefined) return;
    this.#to(`${nameOf(nth)} hears that process ${as} has lost its lease`, (next) => {
      if (this.#state.nodes[nth]!.lease === as) this.#lose(next, nth);
      failed(next);
    });
  }

  #maySend(nth: number): boolean {
    const { phase, isLate } = this.#state.nodes[nth]!;
    return phase === 'up' && !isLate;
  }

  /** Whether an open transaction keeps the lease from being taken; an adoption does not wait for itself. */
  #isFenced(id: number, except?: number): boolean {
    if (id === 0 || !this.#has('fence') || !this.#has('fenceLock')) return false;
    return this.#state.nodes.some(
      ({ claim, settle, adopt }, nth) =>
        (claim.at === 'locked' && claim.as === id) ||
        (settle.at === 'locked' && settle.as === id) ||
        (adopt.at !== '' && adopt.as === id && nth !== except),
    );
  }

  #isLocked({ copies }: PendingSet): boolean {
    return copies.some(
      ({ at }) => at === 'taking' || at === 'back' || (at === 'settling' && this.#has('settleLock')),
    );
  }
}
