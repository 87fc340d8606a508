import type { Decision } from '../model/delivery.ts';
import { type Destination, isServed, placeOfLane } from '../model/destination.ts';
import { type Duration, type Monotonic, SECOND } from '../model/time.ts';
import type { Held, Result } from '../ports/backlog.ts';
import { wallTimeOf } from '../ports/clock.ts';
import type { InHand } from '../ports/deliverer.ts';
import type { DestinationType } from '../ports/destination-type.ts';
import type { DeliveryMeasures } from '../ports/measures.ts';
import type { Watching } from '../ports/observer.ts';
import type { Transport } from '../ports/transport.ts';
import { Allowance } from './allowance.ts';
import type { Breaker } from './breaker.ts';
import { decide } from './decide.ts';
import type { Endpoint } from './endpoint.ts';
import type { WatchedEndpoints } from './endpoints.ts';
import { Health } from './health.ts';
import { type LaneState, stateOf } from './lane-state.ts';
import { type BegunRound, Pulse } from './pulse.ts';
import { Ready } from './ready.ts';
import { type EndedRound, type RoundTools, SETTINGS_VERSIONS, sendRound } from './round.ts';
import { shownSettled } from './shown.ts';
import { type Supplied, Supply, type SupplyTools } from './supply.ts';
import { roomForNew, roomToClaim, type TotalHeld } from './window.ts';

/** Requests end by themselves within their time limit; a lane that is stopped waits no longer than this for them. */
const STOP_LIMIT: Duration = 5 * SECOND;

export interface LaneTools extends SupplyTools, Pick<RoundTools, 'traceparents'> {
  readonly transport: Transport;
  readonly type: DestinationType;
  readonly watching: Watching;
  /** The name of a source by its id, for those who watch. */
  readonly sourceName: (id: number) => string;
  readonly measures: DeliveryMeasures | undefined;
  readonly settle: (result: Result) => void;
  /** What all lanes have in memory. */
  readonly total: TotalHeld;
  /** The endpoints of its destination, of which it may have one or all. */
  readonly watched: WatchedEndpoints;
  /** From 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
}

/**
 * Delivers to one destination, with nothing shared that another destination could be slowed by: its own window in
 * memory, its own number of requests in flight, its own breaker, its own way to its backlog on disk.
 *
 * ```
 *   reserve ─▶ deliver ─▶ ready ─▶ in flight ─▶ settle
 *                           ▲ │
 *   parked, due ─▶ claim ───┘ └─▶ handed back, when the breaker opens or the destination is paused
 * ```
 * While the breaker is open the lane holds nothing but its probe: whatever the length of the outage, it costs no memory.
 */
export class Lane implements Supplied {
  readonly #tools: LaneTools;
  readonly #roundTools: RoundTools;
  readonly #health: Health;
  readonly #supply: Supply;
  readonly #ready = new Ready();
  readonly #pulse = new Pulse();
  readonly #allowance: Allowance;
  #destination: Destination;
  /** Deliveries in memory: reserved, ready or in flight. */
  #held = 0;
  #inFlight = 0;
  #stopping: Promise<void> | undefined;
  #idle: (() => void) | undefined;

  constructor(destination: Destination, tools: LaneTools) {
    this.#destination = destination;
    this.#tools = tools;
    this.#health = new Health(destination.name, tools.logger, tools.clock);
    this.#supply = new Supply(tools, this);
    this.#allowance = new Allowance(tools.clock, () => this.#pump());
    this.#allowance.configure(destination.settings);
    this.#roundTools = {
      type: tools.type,
      transport: tools.transport,
      clock: tools.clock,
      open: this.#allowance,
      endpointAt: (place) => this.#endpointAt(place),
      traceparents: tools.traceparents,
    };
  }

  get destination(): Destination {
    return this.#destination;
  }

  get breaker(): Breaker {
    return this.#pulse.breaker;
  }

  get room(): number {
    const { isBehind } = this.#supply;
    return roomToClaim({ held: this.#held, isBehind, limit: this.#pulse.limit }, this.#tools.total);
  }

  state(): LaneState {
    const { lastError, failingSince } = this.#health;
    const { breaker, limit } = this.#pulse;
    return {
      destination: this.#destination.id,
      state: stateOf(this.#destination, failingSince),
      held: this.#held,
      inFlight: this.#inFlight,
      limit,
      breaker: breaker.state,
      ...(breaker.state === 'open'
        ? { nextProbeAt: wallTimeOf(breaker.nextProbeAt, this.#tools.clock) }
        : {}),
      ...(failingSince === undefined ? {} : { failingSince }),
      ...(lastError === undefined ? {} : { lastError }),
    };
  }

  /** The settings that attempts use from now on. */
  configure(destination: Destination): void {
    const isChanged = destination.version !== this.#destination.version;
    this.#destination = destination;
    if (isChanged) this.#allowance.configure(destination.settings);
    if (isChanged) this.#pulse.settingsChanged(this.#tools.clock.monotonic());
    this.#pump();
    this.#supply.tend();
  }

  /** Takes up how its endpoints did under an earlier process. */
  recall(): void {
    const { endpoints } = this.#destination.settings;
    this.#health.recall(endpoints.flatMap((_, place) => this.#endpointAt(place) ?? []));
  }

  /** What an earlier process left on disk is due at this time. */
  resume(at: Monotonic): void {
    this.#supply.isBehind = at <= this.#tools.clock.monotonic();
    this.#supply.due(at);
  }

  /** The others must wait on disk: there is no room, or some are waiting there already and go first. Runs for each commit. */
  reserve(deliveries: number): number {
    const serves = this.#pulse.isClosed && this.#serves() && !this.#supply.isBehind;
    const taken = serves ? Math.min(deliveries, roomForNew(this.#held, this.#tools.total)) : 0;
    if (taken > 0) this.hold(taken);
    if (taken < deliveries) this.#supply.isBehind = true;
    return taken;
  }

  release(deliveries: number): void {
    this.hold(-deliveries);
    this.#supply.tend();
  }

  deliver(deliveries: readonly InHand[]): void {
    this.#ready.add(deliveries);
    this.#pump();
  }

  /** Something on disk is due at this time. */
  due(at: Monotonic): void {
    this.#supply.due(at);
  }

  /**
   * Starts nothing new and resolves when nothing is in flight, at the latest after five seconds. What is ready stays owed:
   * the store counts it as held by this process, and the next one adopts it.
   */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    const landed = new Promise<void>((resolve) => {
      this.#idle = resolve;
      if (this.#inFlight === 0) resolve();
    });
    const limit = Promise.withResolvers<void>();
    const cancel = this.#tools.clock.after(STOP_LIMIT, limit.resolve);
    await Promise.race([Promise.all([landed, this.#supply.stop()]), limit.promise]);
    cancel();
  }

  hold(deliveries: number): void {
    this.#held += deliveries;
    this.#tools.total.held += deliveries;
  }

  take(works: readonly InHand[]): void {
    const [probe] = works;
    if (this.#pulse.isProbing && this.#serves() && probe !== undefined) this.#send(probe, true);
    else this.deliver(works);
  }

  beginProbe(): void {
    this.#pulse.beginProbe();
  }

  withoutProbe(): void {
    this.#pulse.withoutProbe(this.#tools.clock.monotonic());
  }

  bury({ set, delivery: { position } }: Held, reason: string): void {
    this.hold(-1);
    const decision = { kind: 'dead', reason } as const;
    this.#tools.settle({ set, destination: this.#destination.id, position, attempts: [], decision });
  }

  released(onDisk: number): void {
    this.#health.recovered(onDisk);
  }

  #endpointAt(place: number): Endpoint | undefined {
    return this.#tools.watched.endpoints[placeOfLane(this.#destination.id) + place];
  }

  #serves(): boolean {
    return this.#stopping === undefined && isServed(this.#destination);
  }

  #pump(): void {
    if (this.#stopping !== undefined) return;
    if (!this.#pulse.isClosed || !isServed(this.#destination)) this.#handBack();
    while (this.#ready.size > 0 && this.#inFlight < this.#pulse.limit && this.#allowance.grants()) {
      this.#send(this.#ready.next()!, false);
    }
  }

  /**
   * What is only ready goes back to disk, into the place it came from: no later than what is there, and where an outage
   * counts its window from its parking, at the time of its parking.
   */
  #handBack(): void {
    const works = this.#ready.takeAll();
    if (works.length === 0) return;
    this.hold(-works.length);
    this.#supply.isBehind = true;
    const { outage, nextDueAt = Number.POSITIVE_INFINITY } = this.#supply;
    const now = Math.min(this.#tools.clock.monotonic(), nextDueAt);
    for (const { set, delivery, written } of works) {
      const parkedAt = outage === undefined ? now : Math.max(outage.since, written.arrivedAt);
      const decision = { kind: 'retry', at: Math.min(parkedAt, now), next: delivery } as const;
      const { position } = delivery;
      this.#tools.settle({ set, destination: this.#destination.id, position, attempts: [], decision });
    }
  }

  #send(work: InHand, isProbe: boolean): void {
    const destination = this.#destination;
    const begun = this.#pulse.begin(isProbe);
    this.#inFlight++;
    sendRound(work, destination, this.#roundTools, (round) => {
      this.#inFlight--;
      this.#conclude(work, round, { destination, begun });
      if (this.#inFlight === 0) this.#idle?.();
      this.#pump();
      this.#supply.tend();
    });
  }

  #conclude(work: InHand, { outcomes, attempts }: EndedRound, { destination, begun }: SentRound): void {
    const { clock, random } = this.#tools;
    const now = clock.monotonic();
    const settingsVersion = destination.version % SETTINGS_VERSIONS;
    const { pauses = NO_PAUSES } = this.#destination;
    const { isProbe } = begun;
    const round = { outcomes, now, settingsVersion, pauses, isProbe, random: random() };
    const decision = decide(work.delivery, round);
    this.#health.note(decision, attempts);
    this.#tools.measures?.ended(work.written.arrivedAt, attempts, decision, now);
    this.#settle(work, attempts, decision);
    const { position } = work.delivery;
    const { latencyMs = 0 } = attempts[0] ?? {};
    const change = this.#pulse.feel({ round: begun, position, outcomes, latencyMs, now, random: random() });
    if (change.kind === 'closed') this.#supply.outageEnded();
    else if (change.kind === 'opened') {
      this.#supply.outageBegan(change.outage);
      this.#health.opened(change.breaker);
    }
  }

  #settle(work: InHand, attempts: Result['attempts'], decision: Decision): void {
    this.hold(-1);
    const { id, name } = this.#destination;
    const { set, delivery, written } = work;
    this.#tools.settle({ set, destination: id, position: delivery.position, attempts, decision });
    const observer = this.#tools.watching();
    if (observer === undefined) return;
    const source = this.#tools.sourceName(work.source);
    const happened = { source, destination: name, event: written.event, attempts, decision };
    observer(shownSettled(happened, this.#tools.clock));
  }
}

const NO_PAUSES: NonNullable<Destination['pauses']> = [];

/** The settings a round was sent with, and its place among the others. */
interface SentRound {
  readonly destination: Destination;
  readonly begun: BegunRound;
}
