import { defined } from '../../src/model/json.ts';
import { HOUR, MINUTE, SECOND } from '../../src/model/time.ts';
import type { ErrorName, Kind } from '../support/disk-faults/control-page.ts';
import { Chance } from './random.ts';

/** How an endpoint answers for a while. */
const MODES = [
  ...(['refuses', 'hangs', 'error', 'wants_later', 'resets', 'resets_after', 'late', 'slow'] as const),
  ...(['flaky', 'poisoned', 'mixed', 'rejects'] as const),
] as const;
export type Mode = (typeof MODES)[number];

/** Something that goes wrong, or that somebody does, so many milliseconds after the beginning. */
export type Fault = { readonly at: number } & (
  | Kill
  | ({ readonly kind: 'power cut'; readonly node: number; readonly downFor: number } & PowerCut)
  | ({ readonly kind: 'disk fails'; readonly lasts?: number } & DiskFailing)
  | { readonly kind: 'stop'; readonly node: number; readonly downFor: number }
  | CutOff
  | {
      readonly kind: 'still';
      readonly node: number;
      readonly lasts: number;
      readonly areSocketsFirst: boolean;
    }
  | { readonly kind: 'store away'; readonly lasts: number }
  /** Nothing is answered, and nothing done, until it is over. */
  | { readonly kind: 'store silent'; readonly lasts: number }
  | { readonly kind: 'store slow'; readonly lasts: number; readonly latency: number }
  | RefusingStore
  | { readonly kind: 'store refuses contents'; readonly lasts: number }
  | DoubtfulStore
  | { readonly kind: 'wall clock'; readonly node: number; readonly by: number }
  | { readonly kind: 'endpoint'; readonly url: number; readonly mode: Mode; readonly lasts: number }
  | Flapping
  | Pause
  | { readonly kind: 'change'; readonly destination: number }
  | { readonly kind: 'change audience' }
  | { readonly kind: 'burst'; readonly calls: number }
  | { readonly kind: 'delete user'; readonly user: number }
  | { readonly kind: 'suppress user'; readonly user: number; readonly lasts: number }
  | { readonly kind: 'replay'; readonly destination: number; readonly back: number }
  | { readonly kind: 'redeliver'; readonly destination: number }
);

/** `only`: it does the other operations. */
interface RefusingStore {
  readonly kind: 'store refuses';
  readonly lasts: number;
  readonly share: number;
  readonly only?: 'append' | 'settle' | 'claim' | 'read' | 'advance';
}

/** `only`: the outcome of other operations is known. */
interface DoubtfulStore {
  readonly kind: 'store doubts';
  readonly lasts: number;
  readonly share: number;
  readonly only?: 'append' | 'settle' | 'claim' | 'advance' | 'create' | 'makeDue';
}

/** `isBesideClaim`: it begins when deliveries of the destination are claimed the next time. */
interface Pause {
  readonly kind: 'pause';
  readonly destination: number;
  readonly lasts: number;
  readonly isBesideClaim?: true;
}

/**
 * `behind`: the steps count from when the process has done this in the store the next time. `againAfter`: it
 * dies again so many steps after its next start.
 */
interface Kill {
  readonly kind: 'kill';
  readonly node: number;
  readonly behind?: string;
  readonly afterSteps: number;
  readonly downFor: number;
  readonly againAfter?: number;
}

/** A node does not reach the database. */
export interface CutOff {
  readonly kind: 'cut off';
  readonly node: number;
  readonly lasts: number;
  /** Nothing comes through, and nobody is told; otherwise connections break and are refused. */
  readonly isSilent: boolean;
  /** Of silence: what the node asks for is done, and it does not hear of it. */
  readonly isOfAnswers?: boolean;
}

/** How the power fails under an engine with real files. */
export interface PowerCut {
  /**
   * So many steps later; in the middle of the next commit; or when the writer has just opened its file anew,
   * because a call of the system had failed.
   */
  readonly when: 'later' | 'in a commit' | 'at a reopening';
  readonly afterSteps: number;
  /** The share of what was written and not synced that is on the disk all the same. */
  readonly reached: number;
  /** Bytes that are written whole or not at all; 1: bytes in their order, up to any of them. */
  readonly sector: 512 | 4096 | 1;
}

/** How calls of the system fail under an engine with real files. */
export interface DiskFailing {
  readonly calls: readonly Kind[];
  readonly error: ErrorName;
  /** Of each kind: the first call that fails, from 1. */
  readonly nth: number;
  /** Of each kind: so many calls fail; all where it is absent. */
  readonly times?: number;
}

/** An endpoint that comes and goes. `calls`: made in each time that it is down. */
interface Flapping {
  readonly kind: 'flaps';
  readonly url: number;
  readonly mode: Mode;
  readonly up: number;
  readonly down: number;
  readonly times: number;
  readonly calls: number;
}

/** Kinds that any store can have. */
export type FaultKind = Exclude<Fault['kind'], 'power cut' | 'disk fails' | 'cut off'>;

export interface DestinationPlan {
  readonly endpoints: number;
  readonly success: 'any' | 'each';
  readonly concurrency?: number;
  readonly rateLimit?: number;
}

/** Everything that is decided about a world before it begins: plain data, to be kept in a file. */
export interface Scenario {
  readonly seed: number;
  readonly nodes: number;
  /** Milliseconds until everything is well again. */
  readonly lasts: number;
  readonly destinations: readonly DestinationPlan[];
  readonly users: number;
  /** Mean milliseconds between two requests of clients, in quiet and in busy times. */
  readonly every: number;
  readonly everyBusy: number;
  /** Busy times, in which faults gather too. */
  readonly busy: readonly { readonly from: number; readonly to: number }[];
  /** Milliseconds by which the wall clock of each node is ahead at its start. */
  readonly clocksAhead?: readonly number[];
  /** Most calls in a request. */
  readonly batch: number;
  readonly clients: number;
  /** Whether the store keeps profiles, with an audience. */
  readonly hasProfiles: boolean;
  /** Nodes have the leases of the PostgreSQL adapter, over simulated rows (`rows/`). */
  readonly hasLeaseRows?: boolean;
  readonly faults: readonly Fault[];
}

/** A kind of world: what goes wrong in it, and for how long. */
interface Profile {
  readonly nodes: readonly number[];
  readonly kinds: readonly FaultKind[];
  /** Shortest and longest time until everything is well. */
  readonly lasts: readonly [number, number];
  /** One endpoint for each destination, without limits, under traffic all the time: breakers open there. */
  readonly isPlain?: boolean;
  /** Faults last hours. */
  readonly isLong?: boolean;
  /** Ten faults at least. */
  readonly hasManyFaults?: boolean;
  /** Deletions concern many events. */
  readonly hasFewUsers?: boolean;
  /** Clients are never quiet. */
  readonly isBusyAlways?: boolean;
  /** Share of the worlds in which every endpoint takes a second for an answer. */
  readonly slowEndpoints?: number;
  readonly hasProfiles?: boolean;
  /** How nodes stand still, in milliseconds. */
  readonly still?: readonly [number, number];
}

const EVERYTHING: readonly FaultKind[] = [
  ...(['kill', 'stop', 'still', 'store away', 'store silent', 'store slow'] as const),
  ...(['store refuses', 'store refuses contents', 'store doubts', 'change audience'] as const),
  ...(['wall clock', 'endpoint', 'flaps', 'pause', 'change', 'burst'] as const),
  ...(['delete user', 'suppress user', 'replay', 'redeliver'] as const),
];

/** Processes die all the time, also while they start. */
const KILLS: Profile = {
  nodes: [1, 1, 2],
  kinds: [
    ...(['kill', 'kill', 'kill', 'stop', 'stop', 'still', 'store slow', 'store slow'] as const),
    ...(['endpoint', 'burst', 'delete user', 'delete user', 'replay', 'change', 'pause'] as const),
    ...(['change audience'] as const),
  ],
  ...{ lasts: [30 * SECOND, 3 * MINUTE], hasManyFaults: true, hasFewUsers: true },
};

/** Somebody is deleted all the time, while nodes stand still and the store is slow. */
const DELETIONS: Profile = {
  nodes: [1, 2, 2, 3],
  kinds: [
    ...(['delete user', 'delete user', 'delete user', 'delete user', 'delete user'] as const),
    ...(['suppress user', 'still', 'still', 'store slow', 'store slow', 'store doubts'] as const),
    ...(['burst', 'burst', 'endpoint'] as const),
  ],
  ...{ lasts: [20 * SECOND, 3 * MINUTE], hasFewUsers: true, isBusyAlways: true, still: [2000, 15_000] },
  slowEndpoints: 0.3,
};

/** Definitions change and users go while their profiles are at work. */
const AUDIENCES: Profile = {
  nodes: [1],
  kinds: [
    ...(['change audience', 'change audience', 'change audience', 'burst', 'burst', 'kill', 'kill'] as const),
    ...(['delete user', 'delete user', 'store slow', 'store doubts', 'suppress user', 'stop'] as const),
  ],
  ...{ lasts: [20 * SECOND, 3 * MINUTE], hasFewUsers: true, isBusyAlways: true, hasProfiles: true },
};

/** Leases end while requests are on their way. */
const LEASES: Profile = {
  nodes: [2, 2, 3],
  kinds: [
    ...(['still', 'still', 'still', 'store away', 'store silent', 'store refuses'] as const),
    ...(['endpoint', 'endpoint', 'burst', 'flaps', 'store slow', 'delete user'] as const),
  ],
  ...{ lasts: [20 * SECOND, 3 * MINUTE], isBusyAlways: true, isPlain: true, still: [7000, 12_000] },
};

const PROFILES: readonly Profile[] = [
  { nodes: [1, 1, 1, 2, 3], kinds: EVERYTHING, lasts: [30 * SECOND, 20 * MINUTE] },
  { nodes: [1, 1, 1, 2, 3], kinds: EVERYTHING, lasts: [20 * SECOND, 5 * MINUTE] },
  {
    nodes: [1],
    kinds: ['endpoint', 'endpoint', 'flaps', 'flaps', 'flaps', 'burst', 'burst', 'change', 'change'],
    ...{ lasts: [MINUTE, 8 * MINUTE], isPlain: true },
  },
  {
    nodes: [1],
    kinds: ['flaps', 'flaps', 'flaps', 'burst', 'store slow', 'store doubts', 'store doubts'],
    ...{ lasts: [30 * SECOND, 4 * MINUTE], isPlain: true },
  },
  {
    nodes: [1, 1, 2],
    kinds: ['endpoint', 'endpoint', 'pause', 'pause', 'pause', 'change', 'store slow', 'flaps', 'burst'],
    ...{ lasts: [20 * SECOND, 4 * MINUTE], isPlain: true },
  },
  {
    nodes: [1],
    kinds: [
      ...(['store doubts', 'store refuses', 'store slow', 'store refuses contents', 'burst'] as const),
      ...(['kill', 'endpoint', 'delete user', 'change audience', 'change audience'] as const),
    ],
    lasts: [20 * SECOND, 5 * MINUTE],
  },
  {
    nodes: [1, 2],
    kinds: ['store refuses', 'store refuses', 'store doubts', 'burst', 'endpoint', 'flaps', 'store slow'],
    ...{ lasts: [20 * SECOND, 3 * MINUTE], isPlain: true },
  },
  {
    nodes: [1],
    kinds: ['endpoint', 'endpoint', 'pause', 'pause', 'wall clock', 'kill', 'redeliver', 'store refuses'],
    ...{ lasts: [6.5 * HOUR, 8 * HOUR], isPlain: true, isLong: true },
  },
  {
    nodes: [1],
    kinds: ['store doubts', 'store doubts', 'flaps', 'flaps', 'flaps', 'replay', 'replay', 'redeliver'],
    ...{ lasts: [MINUTE, 5 * MINUTE], isPlain: true, hasManyFaults: true },
  },
  {
    nodes: [2, 3],
    kinds: [
      ...(['store away', 'store refuses', 'store slow', 'still', 'still'] as const),
      ...(['kill', 'stop', 'burst', 'endpoint'] as const),
    ],
    ...{ lasts: [MINUTE, 5 * MINUTE], hasManyFaults: true },
  },
  {
    nodes: [1, 2, 2, 3],
    kinds: [
      ...(['delete user', 'delete user', 'suppress user', 'still', 'endpoint'] as const),
      ...(['burst', 'store slow', 'kill', 'replay', 'flaps'] as const),
    ],
    ...{ lasts: [MINUTE, 5 * MINUTE], hasFewUsers: true },
  },
  {
    nodes: [1, 1, 2],
    kinds: [
      ...(['replay', 'replay', 'redeliver', 'redeliver', 'endpoint'] as const),
      ...(['kill', 'store refuses', 'store doubts', 'burst', 'pause'] as const),
    ],
    lasts: [2 * MINUTE, 10 * MINUTE],
  },
  ...[KILLS, KILLS, KILLS],
  ...[DELETIONS, DELETIONS, DELETIONS, DELETIONS],
  ...[AUDIENCES, AUDIENCES],
  ...[LEASES, LEASES],
];

const MOST_FAULTS = 30;
/** Share of the faults that come some milliseconds after another. */
const COINCIDING = 0.3;
/** Nodes ask each other all the time: an hour of theirs costs a hundred times that of a server alone. */
const LONGEST_OF_SEVERAL = 20 * MINUTE;

export interface Wishes {
  readonly nodes?: number | undefined;
  readonly hours?: number | undefined;
}

/** The world of an integer. */
export function scenarioOf(seed: number, wishes: Wishes = {}): Scenario {
  const chance = new Chance(seed, 'scenario');
  const profile = chance.of(PROFILES);
  const nodes = wishes.nodes ?? chance.of(profile.nodes);
  const [shortest, longest] = profile.lasts;
  const drawn = chance.magnitude(shortest, nodes > 1 ? Math.min(longest, LONGEST_OF_SEVERAL) : longest);
  const lasts = wishes.hours === undefined ? drawn : wishes.hours * HOUR;
  const destinations = Array.from({ length: 1 + chance.below(4) }, () => destinationOf(chance, profile));
  const busy = busyTimes(chance, profile, lasts);
  const busyTime = busy.reduce((sum, { from, to }) => sum + to - from, 0);
  const batch = chance.of([1, 1, 1, 2, 5, 15]);
  const requests = ((profile.isPlain ? 150 : 50) + chance.below(250)) / Math.sqrt(batch);
  return {
    ...{ seed, nodes, lasts, destinations, busy, batch },
    users: 1 + chance.below(profile.hasFewUsers ? 4 : 40),
    every: Math.max(1000, lasts / 60),
    everyBusy: Math.max(20, busyTime / requests),
    clients: 1 + chance.below(4),
    // Profiles of several nodes are fenced by the database, which no world has.
    hasProfiles: (profile.hasProfiles ?? chance.is(0.5)) && nodes === 1,
    ...(chance.is(0.2) && { clocksAhead: Array.from({ length: nodes }, () => wrongBy(chance)) }),
    faults: faultsOf(chance, profile, { nodes, lasts, destinations, busy, batch }),
  };
}

/** By how much somebody sets a wall clock, either way. */
function wrongBy(chance: Chance): number {
  return chance.of([-1, 1]) * chance.magnitude(10, 30 * 24 * HOUR);
}

function destinationOf(chance: Chance, { isPlain = false }: Profile): DestinationPlan {
  const endpoints = isPlain ? 1 : chance.of([1, 1, 1, 2, 3]);
  return {
    endpoints,
    success: endpoints > 1 ? chance.of(['any', 'each'] as const) : 'any',
    ...(chance.is(isPlain ? 0 : 0.2) && { concurrency: 1 + chance.below(8) }),
    ...(chance.is(isPlain ? 0 : 0.1) && { rateLimit: 1 + chance.below(50) }),
  };
}

function busyTimes(
  chance: Chance,
  { isPlain, isBusyAlways = isPlain }: Profile,
  lasts: number,
): Scenario['busy'] {
  const drawn = Array.from({ length: 1 + chance.below(3) }, () => {
    const from = chance.between(0, lasts * 0.9);
    return { from, to: from + chance.magnitude(5000, 10 * MINUTE) };
  });
  return isBusyAlways ? [{ from: 0, to: lasts }] : drawn;
}

type Size = Pick<Scenario, 'nodes' | 'lasts' | 'destinations' | 'busy' | 'batch'>;

function faultsOf(chance: Chance, profile: Profile, size: Size): Fault[] {
  // Each world has some kinds of faults and not the others: a rare pair is met more often so.
  const share = profile.kinds === EVERYTHING ? 0.5 : 0.8;
  const kinds = profile.kinds.filter((kind) => chance.is(kind === 'endpoint' ? 0.8 : share));
  const count = kinds.length === 0 ? 0 : (profile.hasManyFaults ? 10 : 0) + chance.below(MOST_FAULTS);
  const faults: Fault[] = profile.isLong ? longOutage(chance, size) : [];
  if (chance.is(profile.slowEndpoints ?? 0)) faults.push(...slowEndpoints(size));
  while (faults.length < count) {
    const { from, to } = chance.of(size.busy);
    const isBusy = chance.is(profile.isLong ? 0.2 : 0.8);
    const drawn = isBusy ? chance.between(from, to + 30_000) : chance.between(0, size.lasts);
    // Some come right after another: two things at once are what nobody thinks of.
    const before = chance.is(COINCIDING) ? faults.at(-1) : undefined;
    const at = before === undefined ? drawn : before.at + chance.exponential(30);
    const fault = faultOf(chance, chance.of(kinds), profile, size);
    if (fault.kind === 'delete user' && chance.is(DOUBTFUL_DELETION)) faults.push(doubtBeside(chance, at));
    faults.push({ at, ...fault });
  }
  return faults.filter(({ at }) => at < size.lasts).sort((a, b) => a.at - b.at);
}

/** Share of the deletions of which a step is in doubt. */
const DOUBTFUL_DELETION = 0.15;

function doubtBeside(chance: Chance, at: number): Fault {
  const only = chance.of(['create', 'advance'] as const);
  const lasts = chance.magnitude(50, only === 'create' ? 500 : 8000);
  return { at: at - 1, kind: 'store doubts', lasts, share: 0.8, only };
}

function slowEndpoints({ destinations, lasts }: Size): Fault[] {
  const all = destinations.flatMap(({ endpoints }) => Array<Mode>(endpoints).fill('slow'));
  return all.map((mode, url) => ({ at: 0, kind: 'endpoint', url, mode, lasts: lasts + HOUR }));
}

/** An endpoint that is down for longer than deliveries are tried, with a pause in the middle of it. */
function longOutage(chance: Chance, { destinations, lasts }: Size): Fault[] {
  const destination = chance.below(destinations.length);
  const url = destinations.slice(0, destination).reduce((sum, { endpoints }) => sum + endpoints, 0);
  const at = chance.between(0, 20 * MINUTE);
  const pausedAt = at + chance.between(MINUTE, 2 * HOUR);
  return [
    { at, kind: 'endpoint', url, mode: chance.of(DOWN), lasts: lasts - at },
    { at: pausedAt, kind: 'pause', destination, lasts: chance.between(0.5 * HOUR, 2.5 * HOUR) },
  ];
}

type Drawn<Of = Fault> = Of extends Fault ? Omit<Of, 'at'> : never;

function faultOf(chance: Chance, kind: FaultKind, profile: Profile, size: Size): Drawn {
  const node = chance.below(size.nodes);
  const destination = chance.below(size.destinations.length);
  switch (kind) {
    case 'kill': {
      const behind = chance.is(0.4) ? chance.of(KILLED_BEHIND) : undefined;
      return {
        ...{ kind, node, afterSteps: chance.below(behind === undefined ? 60 : 4), ...defined({ behind }) },
        downFor: chance.magnitude(100, downtimeOf(profile)),
        ...(chance.is(0.4) && { againAfter: chance.below(25) }),
      };
    }
    case 'stop':
      return { kind, node, downFor: chance.magnitude(100, downtimeOf(profile)) };
    case 'still':
      return {
        ...{ kind, node, areSocketsFirst: chance.is(0.5) },
        // A node of several loses its lease after eight seconds.
        lasts: chance.magnitude(...(profile.still ?? [size.nodes > 1 ? 2000 : 20, 40_000])),
      };
    case 'wall clock':
      return { kind, node, by: wrongBy(chance) };
    case 'pause':
      return {
        ...{ kind, destination, lasts: pauseOf(chance, profile) },
        ...(chance.is(0.3) && { isBesideClaim: true as const }),
      };
    case 'change audience':
      return { kind };
    case 'change':
    case 'redeliver':
      return { kind, destination };
    case 'replay':
      return { kind, destination, back: chance.magnitude(MINUTE, 2 * HOUR) };
    case 'burst':
      return { kind, calls: Math.ceil(chance.magnitude(1, 150) / Math.sqrt(size.batch)) };
    case 'delete user':
      return { kind, user: chance.below(1000) };
    case 'suppress user':
      return { kind, user: chance.below(1000), lasts: chance.magnitude(1000, 5 * MINUTE) };
    case 'endpoint':
    case 'flaps':
      return endpointFault(chance, kind, profile, size);
    default:
      return storeFault(chance, kind);
  }
}

/** Operations of the store behind which a process dies: what it was about to do next is not done. */
const KILLED_BEHIND = [
  ...(['append', 'settle', 'claim', 'create', 'advance', 'erase', 'apply', 'enqueue', 'redeliver'] as const),
  ...(['profiles commit', 'profiles erase', 'profiles clear'] as const),
];

/** The longest time until a process is started again. */
function downtimeOf({ lasts }: Profile): number {
  return Math.min(5 * MINUTE, lasts[1] / 10);
}

function pauseOf(chance: Chance, { kinds, isLong = false }: Profile): number {
  if (isLong) return chance.magnitude(MINUTE, 3 * HOUR);
  return chance.magnitude(100, kinds === EVERYTHING ? 20 * MINUTE : MINUTE);
}

const REFUSED_ALONE = ['append', 'settle', 'settle', 'claim', 'read', 'advance'] as const;

const DOUBTED_ALONE = [
  ...(['append', 'settle', 'claim', 'advance', 'advance', 'create', 'makeDue', 'makeDue'] as const),
] as const;

type StoreFault = Extract<FaultKind, `store ${string}`>;

function storeFault(chance: Chance, kind: StoreFault): Drawn {
  const isShort = kind === 'store away' || kind === 'store silent';
  const lasts = chance.magnitude(isShort ? 20 : 1000, isShort ? MINUTE : 3 * MINUTE);
  switch (kind) {
    case 'store away':
    case 'store silent':
      return { kind, lasts };
    case 'store slow':
      return { kind, lasts, latency: chance.magnitude(5, chance.is(0.5) ? 250 : 3000) };
    case 'store refuses':
      return chance.is(0.5)
        ? { kind, lasts, share: chance.magnitude(0.01, 0.8) }
        : { kind, lasts: chance.magnitude(1000, 30_000), share: 1, only: chance.of(REFUSED_ALONE) };
    case 'store refuses contents':
      return { kind, lasts };
    case 'store doubts':
      return chance.is(0.6)
        ? { kind, lasts, share: chance.magnitude(0.01, 0.5) }
        : { kind, lasts: chance.magnitude(1000, 20_000), share: 0.8, only: chance.of(DOUBTED_ALONE) };
  }
}

const DOWN: readonly Mode[] = ['refuses', 'hangs', 'error', 'resets', 'wants_later', 'resets_after'];
const FLAPPING: readonly Mode[] = ['refuses', 'hangs', 'error', 'resets', 'late', 'mixed', 'mixed', 'mixed'];

function endpointFault(
  chance: Chance,
  kind: 'endpoint' | 'flaps',
  { kinds, isLong = false }: Profile,
  { destinations, lasts, batch }: Size,
): Drawn {
  const url = chance.below(destinations.reduce((sum, { endpoints }) => sum + endpoints, 0));
  if (kind === 'flaps') {
    const times = 3 + chance.below(25);
    return {
      ...{ kind, url, times, mode: chance.of(FLAPPING) },
      up: chance.magnitude(5, 5000),
      down: chance.magnitude(500, 20_000),
      calls: chance.is(0.7) ? Math.floor(chance.below(Math.min(40, 250 / times)) / Math.sqrt(batch)) : 0,
    };
  }
  const [shortest, longest] = isLong
    ? [2 * HOUR, 8 * HOUR]
    : kinds === EVERYTHING
      ? [50, 30 * MINUTE]
      : [200, 3 * MINUTE];
  const drawn = chance.magnitude(shortest, longest);
  const mode = chance.of<Mode>(isLong ? DOWN : MODES);
  return { kind, url, mode, lasts: Math.min(drawn, lasts) };
}
