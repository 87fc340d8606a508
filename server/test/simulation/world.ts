import { destinationOfLane } from '../../src/model/lane.ts';
import { AUDIENCES_SOURCE } from '../../src/model/settings.ts';
import type { Claim } from '../../src/ports/delivery-queue.ts';
import type { HttpResult } from '../../src/ports/http-client.ts';
import type { LogLevel } from '../../src/ports/logger.ts';
import { Book, deliveryKey } from './book.ts';
import { Clients } from './clients.ts';
import { Kernel, type Life } from './kernel.ts';
import { Endpoint, Network, type Sending } from './network.ts';
import { ServerNode } from './node.ts';
import { Operators } from './operators.ts';
import { PROMISES } from './promises/all.ts';
import { AUDIENCES } from './promises/profiles.ts';
import type { KnownSending, Troubles, Watcher, WorldView } from './promises/promise.ts';
import { CALM } from './promises/recovery.ts';
import { Chance } from './random.ts';
import type { DestinationPlan, Fault, PowerCut, Scenario } from './scenario.ts';
import { Scout } from './scout.ts';
import type { Reached, Situation } from './situations.ts';
import { LONG_SLOW, SimulatedStore } from './store.ts';
import { type Applied, FAIR, type StoreListener, type Weather, type WorldStore } from './world-store.ts';

/** The promise that was broken, and how. */
export interface Broken {
  readonly promise: string;
  readonly message: string;
}

/** How a world ended. */
export interface Outcome {
  readonly broken: Broken | undefined;
  readonly digest: string;
  readonly steps: number;
  /** Simulated milliseconds. */
  readonly lasted: number;
  readonly reached: Reached;
  readonly counts: Counts;
}

export interface Counts {
  kills: number;
  'power cuts': number;
  'disk faults': number;
  sent: number;
  acknowledged: number;
  events: number;
  erased: number;
}

type MakeStore = (
  parts: { readonly kernel: Kernel; readonly chance: Chance; readonly isShared: boolean },
  listener: StoreListener,
) => WorldStore;

const POWER_FAILED: Readonly<Record<PowerCut['when'], Situation>> = {
  later: 'power failed',
  'in a commit': 'power failed in a commit',
  'at a reopening': 'power failed at a reopening',
};

/** A whole installation with its clients, endpoints, operators and faults. */
export class World implements WorldView {
  readonly scenario: Scenario;
  readonly seed: number;
  readonly hasProfiles: boolean;
  readonly kernel: Kernel;
  readonly network: Network;
  readonly store: WorldStore;
  readonly book: Book;
  readonly nodes: readonly ServerNode[];
  readonly troubles: Troubles = {
    ...{ death: -Infinity, ready: -Infinity, still: -Infinity, store: -Infinity },
    ...{ lostLease: -Infinity, slow: -Infinity },
  };
  readonly #clients: Clients;
  readonly #operators: Operators;
  readonly #watchers: readonly Watcher[];
  readonly #reached: Reached = new Map();
  readonly #counts: Counts = {
    kills: 0,
    'power cuts': 0,
    'disk faults': 0,
    sent: 0,
    acknowledged: 0,
    events: 0,
    erased: 0,
  };
  readonly #endpoints = new Map<number, Endpoint[]>();
  readonly #scout: Scout;
  /** By destination: how long it is paused when it claims the next time. */
  readonly #pausedByClaim = new Map<number, number>();
  #weathers: { readonly weather: Partial<Weather>; readonly until: number }[] = [];
  /** The newest that lasts. */
  #diskFault: Extract<Fault, { kind: 'disk fails' }> | undefined;
  /** The next death is one of the machine. */
  #powerFault: PowerCut | undefined;
  #broken: Broken | undefined;

  /** @param makeStore the store of the world; one in memory unless another is given */
  constructor(scenario: Scenario, makeStore: MakeStore = (...given) => new SimulatedStore(...given)) {
    const { seed } = scenario;
    this.scenario = scenario;
    this.seed = seed;
    this.hasProfiles = scenario.hasProfiles;
    this.kernel = new Kernel(seed);
    const parts = { kernel: this.kernel, chance: new Chance(seed, 'store'), isShared: scenario.nodes > 1 };
    this.store = makeStore(parts, {
      applied: (applied) => this.#applied(applied),
      appliedByThread: (operation, life) => this.#killBehind(`profiles ${operation}`, this.nodeOf(life)),
      looked: (operation, answer, life) => this.#scout.looked(operation, answer, this.nodeOf(life)),
      refused: (operation) => this.#scout.refused(operation),
      reached: this.reached,
      broken: this.fail,
    });
    this.book = new Book(this.store);
    this.network = new Network(this.kernel, new Chance(seed, 'network'), {
      sending: (sending) => this.#sending(sending),
      accepted: (sending) => this.#tell((watcher) => watcher.accepted?.(this.#about(sending))),
      heard: (sending, answer) => this.#heard(sending, answer),
    });
    this.nodes = Array.from({ length: scenario.nodes }, (_, place) => new ServerNode(this, place));
    this.#clients = new Clients(this, {
      taken: (taken) => this.#tell((watcher) => watcher.taken?.(taken)),
      answered: (...answered) => this.#tell((watcher) => watcher.answered?.(...answered)),
      acknowledged: (call) => this.#tell((watcher) => watcher.acknowledged?.(call)),
    });
    this.#operators = new Operators(this);
    this.#scout = new Scout(this, this.#clients);
    this.#watchers = [...PROMISES.map((family) => family.watch(this)), this.#scout];
    this.kernel.afterStep = () => this.#afterStep();
  }

  get pauses() {
    return this.#operators.pauses;
  }

  get callsWaiting() {
    return this.#clients.waiting;
  }

  get deletedUsers() {
    return this.#operators.deletedUsers;
  }

  get suppressedUsers() {
    return this.#operators.suppressedUsers;
  }

  readonly fail = (promise: string, message: string): void => {
    if (this.#broken !== undefined) return;
    const at = `at ${(this.kernel.now / 1000).toFixed(3)} s, step ${this.kernel.steps}`;
    this.#broken = { promise, message: `${message} (${at})` };
    this.kernel.note('BROKEN', promise, message);
  };

  readonly reached = (situation: Situation): void => {
    this.#reached.set(situation, (this.#reached.get(situation) ?? 0) + 1);
  };

  nodeOf(life: Life): ServerNode {
    return this.nodes.find(({ name }) => life.name.startsWith(`n${name.slice(4)}.`))!;
  }

  planOf(destination: number): DestinationPlan {
    return this.scenario.destinations[destination - 1]!;
  }

  endpointsOf(destination: number): readonly Endpoint[] {
    return this.#endpoints.get(destination)!;
  }

  ready(_node: ServerNode): void {
    this.troubles.ready = this.kernel.now;
  }

  lostLease(node: ServerNode): void {
    this.kernel.note('lease lost', node.life.name);
    this.troubles.lostLease = this.kernel.now;
    node.lostLease = node.lease;
    this.#scout.lostLease(node);
  }

  logged(node: ServerNode, level: LogLevel, event: string, facts: object): void {
    this.kernel.note('log', event);
    if (this.kernel.keepsLines)
      this.kernel.say(`    ${level} ${event} ${JSON.stringify(facts, errorsAsText)}`);
    if (event.endsWith('invariant_failed') || event === 'destination.failed')
      this.fail('invariants hold', JSON.stringify(facts, errorsAsText));
    this.#scout.logged(node, event, facts as never);
  }

  startFailed(_node: ServerNode, error: unknown): void {
    this.kernel.note('start failed');
    // Its text may name a folder, which no two runs have in common.
    this.kernel.say(String(error));
    const isOfStore = error instanceof Error && error.name === 'StorageError';
    if (isOfStore && this.#diskFault !== undefined) this.reached('start refused by a failing disk');
    if (!isOfStore)
      this.fail('nodes start', `a node cannot start: ${error instanceof Error ? error.stack : error}`);
  }

  /** Lives the whole scenario, and then well until nothing waits any more. */
  live(): Outcome {
    try {
      this.#live();
    } catch (error) {
      this.fail('nothing is thrown past its step', String(error instanceof Error ? error.stack : error));
    }
    const { kernel } = this;
    const { acknowledged } = this.#clients;
    return {
      ...{ broken: this.#broken, digest: kernel.digest, steps: kernel.steps, lasted: kernel.now },
      ...{ reached: this.#reached, counts: { ...this.#counts, acknowledged } },
    };
  }

  #live(): void {
    const { scenario, kernel } = this;
    this.#prepareSettings();
    for (const node of this.nodes) node.start();
    for (const fault of scenario.faults) kernel.later(fault.at, fault.kind, () => this.#do(fault));
    this.#clients.start();
    const isOver = () => this.#broken !== undefined;
    kernel.run(scenario.lasts, isOver);
    if (!isOver()) this.#becomeCalm();
    let isIdle = false;
    const look = () => {
      isIdle = this.#isIdle();
      if (!isIdle) kernel.later(20_000, 'look whether all is done', look);
    };
    kernel.later(130_000, 'look whether all is done', look);
    if (!isOver()) kernel.run(scenario.lasts + CALM, () => isOver() || isIdle);
    if (!isOver()) this.#tell((watcher) => watcher.ended?.());
  }

  #isIdle(): boolean {
    const { sets, regulations, replayRecords } = this.store.contents;
    return (
      sets.size === 0 &&
      this.callsWaiting === 0 &&
      this.nodes.every(({ isReady }) => isReady) &&
      (!this.hasProfiles || !this.store.areProfilesBehind()) &&
      [...regulations.values()].every(({ step }) => step === 'done') &&
      [...replayRecords.values()].every(({ state }) => state !== 'running')
    );
  }

  #prepareSettings(): void {
    const sources = ['website', 'app'].map((name, nth) => {
      const source = { id: nth + 1, name, writeKeys: [`wk${nth + 1}`], trust: 'server' as const };
      return { ...source, enabled: true, mode: 'standard' as const, whenDisabled: 'refuse' as const };
    });
    const destinations = this.scenario.destinations.map((plan, nth) => {
      const id = nth + 1;
      const first = this.network.endpoints.size;
      const made = Array.from(
        { length: plan.endpoints },
        (_, place) => new Endpoint(`http://e${first + place}/`, first + place),
      );
      for (const endpoint of made) this.network.endpoints.set(endpoint.url, endpoint);
      this.#endpoints.set(id, made);
      const { endpoints: _, ...policy } = plan;
      return {
        ...{ id, name: `d${id}`, type: 'webhooks', sources: nth === 1 ? ['website'] : ['website', 'app'] },
        ...{ enabled: true, version: 1, ...policy },
        settings: { endpoints: made.map(({ url }) => ({ url, headers: {} })), format: 'documented' },
      };
    });
    const own = { ...AUDIENCES_SOURCE, id: sources.length + 1 };
    const audiences = this.hasProfiles ? AUDIENCES : [];
    this.store.prepare({ sources: [...sources, own], destinations, audiences });
  }

  #tell(call: (watcher: Watcher) => void): void {
    for (const watcher of this.#watchers) if (this.#broken === undefined) call(watcher);
  }

  #applied(applied: Applied): void {
    const changes = this.book.apply(applied, this.kernel.now);
    this.#counts.events += changes.stored.length;
    this.#counts.erased += changes.erased.length;
    this.#pauseBesideClaim(applied);
    this.#killBehind(applied.operation, this.nodeOf(applied.life));
    this.#tell((watcher) => watcher.applied?.(applied, changes));
  }

  #about(sending: Sending): KnownSending {
    const { request, id, life } = sending;
    const destination = destinationOfLane(request.pool);
    const lane = this.planOf(destination).success === 'each' ? request.pool : destination;
    return {
      ...{ ...sending, destination, lane, node: this.nodeOf(life), known: this.book.find(id) },
      key: deliveryKey(lane, request.headers['X-Replay-Id']),
    };
  }

  #sending(sending: Sending): void {
    this.#counts.sent++;
    const about = this.#about(sending);
    this.#tell((watcher) => watcher.sending?.(about));
  }

  #heard(sending: Sending, answer: HttpResult): void {
    const about = this.#about(sending);
    this.#tell((watcher) => watcher.heard?.(about, answer));
  }

  #do(fault: Fault): void {
    this.kernel.note('fault', JSON.stringify(fault));
    (this.#faults[fault.kind] as (fault: Fault) => void)(fault);
  }

  readonly #faults: { [Kind in Fault['kind']]: (fault: Extract<Fault, { kind: Kind }>) => void } = {
    kill: ({ node: place, afterSteps, downFor, againAfter, behind }) => {
      const node = this.nodes[place]!;
      if (node.life.isOver || node.dyingIn !== undefined) return;
      Object.assign(node, { downFor, againAfter });
      if (behind === undefined) node.dyingIn = afterSteps;
      else node.dyingBehind = { operation: behind, steps: afterSteps };
    },
    'power cut': (fault) => {
      const node = this.nodes[fault.node]!;
      if (node.life.isOver || node.dyingIn !== undefined) return;
      node.downFor = fault.downFor;
      const die = () => {
        node.dyingIn = 0;
      };
      const isArmed = this.store.failPower?.(fault, die) ?? false;
      if (fault.when === 'later' || !isArmed) node.dyingIn = fault.afterSteps;
      this.#powerFault = isArmed ? fault : undefined;
    },
    'disk fails': (fault) => this.#failDisk(fault),
    stop: ({ node: place, downFor }) => {
      const node = this.nodes[place]!;
      if (node.life.isOver || !node.isReady || node.dyingIn !== undefined) return;
      this.#scout.stopping(node);
      node.stop(downFor);
    },
    'cut off': ({ node, ...how }) => {
      this.reached('cut off from the database');
      this.troubles.store = Math.max(this.troubles.store, this.kernel.now + how.lasts);
      this.store.cutOff?.(this.nodes[node]!.life, how);
    },
    still: (fault) => this.#standStill(this.nodes[fault.node]!, fault),
    'wall clock': ({ node, by }) => {
      this.#scout.clockSet(by);
      this.nodes[node]!.clock.set(Math.round(by));
    },
    endpoint: (fault) => this.#spoil(this.#endpointAt(fault.url), fault),
    flaps: (fault) => this.#flap(fault),
    burst: ({ calls }) => {
      for (let left = calls; left > 0; left--) this.#clients.call();
    },
    'store away': ({ lasts }) => this.#setWeather({ isAway: true }, lasts),
    'store slow': ({ latency, lasts }) => this.#setWeather({ latency }, lasts),
    'store silent': ({ lasts }) => {
      this.reached('store silent');
      // What is asked for meanwhile is answered at its end, also when everything else is calm by then.
      const left = Math.min(lasts, this.scenario.lasts - this.kernel.now);
      this.#setWeather({ silentUntil: this.kernel.now + left }, left);
    },
    'store refuses': ({ share, lasts, only }) =>
      this.#setWeather({ refuses: share, refusesOnly: only }, lasts),
    'store refuses contents': ({ lasts }) => this.#setWeather({ refusesContents: true }, lasts),
    'store doubts': ({ share, lasts, only }) => this.#setWeather({ doubts: share, doubtsOnly: only }, lasts),
    pause: ({ destination, lasts, isBesideClaim = false }) => {
      if (isBesideClaim) this.#pausedByClaim.set(destination + 1, lasts);
      else this.#pause(destination + 1, lasts);
    },
    'change audience': () => {
      if (this.hasProfiles) this.#operators.changeAudience();
    },
    change: ({ destination }) => {
      this.#scout.changing(destination + 1);
      this.#operators.change(destination + 1);
    },
    replay: ({ destination, back }) => this.#operators.replay(destination + 1, back),
    redeliver: ({ destination }) => this.#operators.redeliver(destination + 1),
    'delete user': ({ user }) => {
      this.#scout.deleting(this.#userOf(user));
      this.#operators.delete(this.#userOf(user));
    },
    'suppress user': ({ user, lasts }) => this.#operators.suppress(this.#userOf(user), lasts),
  };

  #killBehind(operation: string, node: ServerNode): void {
    if (node.dyingBehind?.operation !== operation) return;
    this.reached('killed behind a chosen operation');
    node.dyingIn = node.dyingBehind.steps;
    node.dyingBehind = undefined;
  }

  #pause(id: number, lasts: number): void {
    this.#scout.pausing(id);
    this.#operators.switch(id, true);
    this.kernel.later(lasts, 'resume', () => {
      this.#scout.resuming(id);
      this.#operators.switch(id, false);
    });
  }

  /** Somebody pauses a destination at the moment at which it gets what waits for it. */
  #pauseBesideClaim({ operation, args, answer }: Applied): void {
    if (operation !== 'claim' || (answer as Claim).deliveries.length === 0) return;
    const destination = destinationOfLane(args[0] as number);
    const lasts = this.#pausedByClaim.get(destination);
    this.#pausedByClaim.delete(destination);
    if (lasts !== undefined) this.kernel.later(0, 'pause', () => this.#pause(destination, lasts));
  }

  #userOf(number: number): string {
    return `u${number % this.scenario.users}`;
  }

  #endpointAt(place: number): Endpoint {
    return [...this.network.endpoints.values()][place]!;
  }

  #standStill(
    node: ServerNode,
    { lasts, areSocketsFirst }: { lasts: number; areSocketsFirst: boolean },
  ): void {
    if (node.life.isOver) return;
    // What it has put off waits until the end of its stand-still, also when everything else is calm by then.
    const until = Math.min(this.kernel.now + lasts, this.scenario.lasts);
    node.life.stillUntil = Math.max(node.life.stillUntil, until);
    node.life.areSocketsFirst = areSocketsFirst;
    this.troubles.still = Math.max(this.troubles.still, node.life.stillUntil);
    this.reached(
      areSocketsFirst ? 'stood still, and sockets came first' : 'stood still, and timers came first',
    );
  }

  #spoil(
    endpoint: Endpoint,
    { mode, lasts }: { mode: Endpoint['modes'][number]['mode']; lasts: number },
  ): void {
    const until = this.kernel.now + lasts;
    endpoint.modes.push({ mode, until });
    // One that takes its time is well.
    if (mode === 'slow') return;
    endpoint.badUntil = Math.max(endpoint.badUntil, until);
    this.kernel.later(lasts + 120_000, 'look whether an endpoint was noticed', () =>
      this.#tell((watcher) => watcher.endpointBack?.(endpoint, until)),
    );
  }

  #flap({ url, mode, up, down, times, calls }: Extract<Fault, { kind: 'flaps' }>): void {
    const { kernel, scenario } = this;
    const endpoint = this.#endpointAt(url);
    for (let nth = 0; nth < times; nth++) {
      kernel.later(nth * (up + down), 'flap', () => {
        if (kernel.now >= scenario.lasts) return;
        this.#spoil(endpoint, { mode, lasts: down });
        for (let call = 0; call < calls; call++)
          kernel.later((down * call) / calls, 'call', () => this.#clients.call());
      });
    }
  }

  /** Without an end it fails until the process dies. */
  #failDisk(fault: Extract<Fault, { kind: 'disk fails' }>): void {
    if (this.store.failDisk?.(fault) !== true) return;
    this.#counts['disk faults']++;
    this.#diskFault = fault;
    this.troubles.store = Math.max(this.troubles.store, this.kernel.now + (fault.lasts ?? Infinity));
    if (fault.lasts !== undefined)
      this.kernel.later(fault.lasts, 'disk is well', () => this.#healDisk(fault));
  }

  #healDisk(fault = this.#diskFault): void {
    // Another one may have taken its place.
    if (fault === undefined || fault !== this.#diskFault) return;
    this.#diskFault = undefined;
    this.store.healDisk?.();
    if (fault.lasts === undefined) this.troubles.store = this.kernel.now;
  }

  #setWeather(weather: Partial<Weather>, lasts: number): void {
    const until = this.kernel.now + lasts;
    this.#weathers.push({ weather, until });
    if (weather.refusesContents !== true && (weather.latency ?? LONG_SLOW + 1) > LONG_SLOW)
      this.troubles.store = Math.max(this.troubles.store, until);
    if ((weather.latency ?? 0) > LONG_SLOW) this.troubles.slow = Math.max(this.troubles.slow, until);
    this.#applyWeather();
    this.kernel.later(lasts + 0.001, 'weather ends', () => this.#applyWeather());
  }

  #applyWeather(): void {
    this.#weathers = this.#weathers.filter(({ until }) => until > this.kernel.now);
    this.store.weather = Object.assign({}, FAIR, ...this.#weathers.map(({ weather }) => weather));
  }

  #afterStep(): void {
    for (const node of this.nodes) {
      if (node.dyingIn === undefined || node.dyingIn-- > 0) continue;
      this.#countDeath();
      this.troubles.death = this.kernel.now;
      this.#scout.killing(node);
      node.die(node.downFor);
      if (this.#diskFault?.lasts === undefined) this.#healDisk();
    }
  }

  #countDeath(): void {
    const cut = this.#powerFault;
    this.#powerFault = undefined;
    if (cut === undefined) this.#counts.kills++;
    else {
      this.#counts['power cuts']++;
      this.reached(POWER_FAILED[cut.when]);
    }
  }

  /** Every fault ends. */
  #becomeCalm(): void {
    this.kernel.note('calm');
    this.#weathers = [];
    this.#applyWeather();
    this.#healDisk();
    for (const endpoint of this.network.endpoints.values()) {
      if (endpoint.badUntil > this.kernel.now) endpoint.badUntil = this.kernel.now;
      endpoint.modes.length = 0;
    }
    for (const node of this.nodes) {
      node.life.stillUntil = 0;
      node.dyingIn = undefined;
      node.dyingBehind = undefined;
      node.againAfter = undefined;
    }
    this.troubles.still = Math.min(this.troubles.still, this.kernel.now);
    this.troubles.store = Math.min(this.troubles.store, this.kernel.now);
    this.troubles.slow = Math.min(this.troubles.slow, this.kernel.now);
    this.#pausedByClaim.clear();
    for (const id of this.#endpoints.keys()) this.#operators.switch(id, false);
  }
}

function errorsAsText(_: string, value: unknown): unknown {
  return value instanceof Error ? value.message : value;
}
