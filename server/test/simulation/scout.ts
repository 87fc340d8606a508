import { MINUTE } from '../../src/model/time.ts';
import type { AppendResult, Batch, Erasure } from '../../src/ports/event-log.ts';
import type { HttpResult } from '../../src/ports/http-client.ts';
import type { NodeToWaitFor } from '../../src/ports/nodes.ts';
import type { Changes } from './book.ts';
import type { Clients } from './clients.ts';
import type { ServerNode } from './node.ts';
import type { ClientCall, KnownSending, Watcher, WorldView } from './promises/promise.ts';
import { SITUATIONS, type Situation } from './situations.ts';
import type { Applied } from './world-store.ts';

const IN_DOUBT: Readonly<Record<string, Situation>> = {
  append: 'append in doubt',
  settle: 'settle in doubt',
  claim: 'claim in doubt',
  makeDue: 'makeDue in doubt',
  advance: 'advance in doubt',
  enqueue: 'enqueue in doubt',
};

function isSituation(text: string): text is Situation {
  return (SITUATIONS as readonly string[]).includes(text);
}

interface OpenRequest {
  readonly sending: KnownSending;
  readonly begunAt: number;
}

/** Notes which situations a world comes into. It promises nothing and changes nothing. */
export class Scout implements Watcher {
  readonly #world: WorldView;
  readonly #clients: Clients;
  /** By life. */
  readonly #open = new Map<string, Set<OpenRequest>>();
  readonly #requests = new Map<object, OpenRequest>();
  /** By lane: the node that sent to it last. */
  readonly #senders = new Map<number, { readonly node: ServerNode; readonly at: number }>();
  /** By endpoint: when it was heard of well after a bad time. */
  readonly #backAt = new Map<number, number>();
  readonly #breakers = new Map<string, string>();
  readonly #jobs = new Map<string, string>();
  /** By regulation: the life that erased for it last. */
  readonly #erasers = new Map<string, string>();
  readonly #failures = new Map<string, number>();

  constructor(world: WorldView, clients: Clients) {
    this.#world = world;
    this.#clients = clients;
  }

  applied({ operation, args, answer, life, isDoubted }: Applied, changes: Changes): void {
    const { reached, store } = this.#world;
    if (isDoubted && operation in IN_DOUBT) reached(IN_DOUBT[operation]!);
    if (operation === 'claim' && (answer as { deliveries: readonly unknown[] }).deliveries.length > 0) {
      reached('claimed from disk');
      if ((this.#channelOf(life.name)?.underWay.get('settle') ?? 0) > 0)
        reached('claim beside results of its lane');
    }
    if (operation === 'makeDue' && (answer as number) > 0) reached('makeDue moved deliveries');
    if (operation === 'recoverOrphans' && (answer as number) > 0)
      reached(store.isShared ? 'deliveries adopted' : 'started with deliveries of a dead process');
    if (changes.expired.length > 0) reached('expire gave deliveries up');
    if (changes.revived > 0) reached('dead letter revived');
    if (operation === 'join' && this.#world.nodes.some((node) => node.life === life && node.isReady))
      reached('joined again');
    if (operation === 'append') this.#appended(answer as AppendResult, args[0] as Batch);
    if (operation === 'settle') this.#settled(changes, args[0] as never);
    if (operation === 'erase') this.#erased((args[0] as Erasure).regulation ?? '', life.name);
    if (operation === 'takeProbe' && (answer as number) > 0) reached('turn to probe refused');
  }

  sending(sending: KnownSending): void {
    const { reached, kernel } = this.#world;
    const request = { sending, begunAt: kernel.now };
    this.#requests.set(sending.request, request);
    const open = this.#open.get(sending.life.name) ?? new Set();
    this.#open.set(sending.life.name, open.add(request));
    const before = this.#senders.get(sending.lane);
    if (before !== undefined && before.node !== sending.node && kernel.now - before.at < 1000)
      reached('two nodes sent to one lane');
    this.#senders.set(sending.lane, { node: sending.node, at: kernel.now });
    const replays = [...(sending.known?.fates ?? [])].filter(
      ([key]) => Number.parseInt(key, 10) === sending.lane,
    );
    if (replays.filter(([, fate]) => fate === 'owed').length > 1)
      reached('event sent by a replay and by its call');
  }

  accepted({ endpoint, id, request }: KnownSending): void {
    const { reached, kernel } = this.#world;
    if (endpoint.accepted.get(id) === 2) reached('accepted twice');
    const begunAt = this.#requests.get(request)?.begunAt ?? kernel.now;
    if (kernel.now - begunAt > request.timeout) reached('accepted after the time limit');
  }

  heard(sending: KnownSending, answer: HttpResult): void {
    const { reached, kernel, planOf } = this.#world;
    const { request, endpoint, life, destination } = sending;
    const begun = this.#requests.get(request)!;
    this.#requests.delete(request);
    this.#open.get(life.name)?.delete(begun);
    const isGood = answer.kind === 'answered' && answer.status < 300;
    if (answer.kind === 'answered' && answer.retryAfter !== undefined) reached('told to come later');
    if (answer.kind === 'failed' && answer.reason === 'timeout' && endpoint.accepted.has(sending.id))
      reached('accepted after the time limit');
    const backAt = this.#backAt.get(endpoint.place) ?? Number.POSITIVE_INFINITY;
    if (isGood && kernel.now > endpoint.badUntil && endpoint.badUntil > 0)
      this.#backAt.set(endpoint.place, Math.min(backAt, kernel.now));
    if (kernel.now <= endpoint.badUntil) this.#backAt.delete(endpoint.place);
    else if (!isGood && begun.begunAt < backAt && backAt < kernel.now)
      reached('round failed after the endpoint was back');
    if (planOf.call(this.#world, destination).endpoints > 1 && isGood) this.#acceptedByOne(sending);
    // The states of all destinations are dear: they are asked for only where a breaker may not be closed.
    if (kernel.now < endpoint.badUntil + MINUTE) this.#lookAtBreaker(sending, isGood);
  }

  acknowledged(_call: ClientCall): void {}

  /** An operation that changes nothing was answered. */
  looked(operation: string, answer: unknown, node: ServerNode): void {
    const { reached } = this.#world;
    if (operation === 'read' && (answer as readonly unknown[]).includes(undefined))
      reached('erased event read');
    if (operation === 'erasedAfter' && (answer as readonly unknown[]).length > 0)
      reached('erasure told to another node');
    if (operation !== 'toWaitFor') return;
    const others = (answer as readonly NodeToWaitFor[]).filter(
      (one) => !('name' in one) || one.name !== node.name,
    );
    if (others.length > 0) reached('waited for another node');
  }

  refused(operation: string): void {
    const situation = `${operation} refused`;
    if (isSituation(situation)) this.#world.reached(situation);
  }

  /** A line of a node's log. */
  logged(node: ServerNode, event: string, facts: Readonly<Record<string, unknown>>): void {
    const { reached } = this.#world;
    if (event === 'replay.ended' && facts['state'] === 'done') reached('replay done');
    if (event !== 'job.begun') return;
    const job = String(facts['job']);
    const before = this.#jobs.get(job);
    if (before !== undefined && before !== node.name) reached('job taken over');
    this.#jobs.set(job, node.name);
  }

  killing(node: ServerNode): void {
    const { reached, store } = this.#world;
    const { underWay } = node.opened?.channel ?? { underWay: new Map<string, number>() };
    for (const operation of ['append', 'settle', 'claim'] as const)
      if ((underWay.get(operation) ?? 0) > 0)
        reached(
          `killed with ${operation === 'append' ? 'an append' : operation === 'settle' ? 'a settle' : 'a claim'} under way`,
        );
    if (this.#openOf(node).size > 0) reached('killed with requests in flight');
    if (!node.isReady) reached('killed while it starts');
    const { regulations, replayRecords } = store.contents;
    if ([...regulations.values()].some(({ step }) => step !== 'done'))
      reached('killed with a deletion under way');
    if ([...replayRecords.values()].some(({ state }) => state === 'running'))
      reached('killed with a replay under way');
    if (this.#world.scenario.hasProfiles && store.areProfilesBehind()) reached('killed with profiles behind');
  }

  stopping(node: ServerNode): void {
    if (this.#openOf(node).size > 0) this.#world.reached('stopped with requests in flight');
  }

  pausing(destination: number): void {
    for (const node of this.#world.nodes) {
      for (const { sending } of this.#openOf(node))
        if (sending.destination === destination) this.#world.reached('paused with requests in flight');
      if (!node.isReady) continue;
      const state = node.pipeline.dispatcher.states().find((one) => one.destination === destination);
      if (state?.breaker === 'open') this.#world.reached('paused with an open breaker');
    }
  }

  resuming(destination: number): void {
    const isWaiting = [...this.#world.store.contents.sets.values()].some(
      (set) => set.destination === destination && set.holder === undefined,
    );
    if (isWaiting) this.#world.reached('resumed with deliveries on disk');
  }

  changing(destination: number): void {
    for (const node of this.#world.nodes)
      for (const { sending } of this.#openOf(node))
        if (sending.destination === destination) this.#world.reached('changed with requests in flight');
  }

  deleting(user: string): void {
    const { reached, book, nodes } = this.#world;
    if ((this.#clients.unanswered.get(user) ?? 0) > 0)
      reached('user deleted with a call of theirs unanswered');
    for (const node of nodes)
      for (const { sending } of this.#openOf(node))
        if (sending.known?.user === user) reached('user deleted with a request in flight');
    const events = [...book.byPosition.values()];
    if (events.some(({ user: of, fates }) => of === user && [...fates.values()].includes('owed')))
      reached('user deleted with deliveries pending');
  }

  clockSet(by: number): void {
    const { sets } = this.#world.store.contents;
    const isWaiting = [...sets.values()].some(
      ({ holder, deliveries }) =>
        holder === undefined && [...deliveries.values()].some(({ rounds }) => rounds > 0),
    );
    if (isWaiting)
      this.#world.reached(
        by < 0 ? 'wall clock set back with retries waiting' : 'wall clock set forward with retries waiting',
      );
  }

  lostLease(node: ServerNode): void {
    this.#world.reached('lease lost');
    if (this.#openOf(node).size > 0) this.#world.reached('lease lost with requests in flight');
  }

  #appended({ positions }: AppendResult, batch: Batch): void {
    if (positions.includes(undefined)) this.#world.reached('duplicate found');
    for (const { discarded } of batch.received)
      if ((discarded['suppressed'] ?? 0) > 0) this.#world.reached('call of a suppressed user discarded');
  }

  #settled(
    { settled }: Changes,
    results: readonly { destination: number; position: number; decision: { kind: string } }[],
  ): void {
    const { reached, scenario } = this.#world;
    for (const { destination, position, decision } of results) {
      const key = `${destination} ${position}`;
      const failures = decision.kind === 'retry' ? (this.#failures.get(key) ?? 0) + 1 : 0;
      this.#failures.set(key, failures);
      if (failures === 3) reached('delivery failed three times');
    }
    for (const { known, result } of settled) {
      const { decision } = result;
      if (decision.kind === 'dead' && decision.reason.startsWith('status_4')) reached('refused for good');
      if (decision.kind === 'delivered' && known.user === undefined && !known.id.startsWith('del_'))
        reached('computation event delivered');
      const isEach = scenario.destinations[(result.destination % 2 ** 24) - 1]?.success === 'each';
      if (isEach && [...known.fates.values()].includes('owed')) reached('one lane of several settled');
    }
  }

  #erased(regulation: string, life: string): void {
    const before = this.#erasers.get(regulation);
    if (before !== undefined && before !== life) this.#world.reached('step of a deletion repeated');
    this.#erasers.set(regulation, life);
  }

  #acceptedByOne({ destination, id }: KnownSending): void {
    const all = this.#world.endpointsOf(destination);
    if (all.some(({ accepted }) => accepted.has(id)) && !all.every(({ accepted }) => accepted.has(id)))
      this.#world.reached('one of several endpoints accepted');
  }

  #breakerOf({ node, destination }: KnownSending): string | undefined {
    if (!node.isReady) return undefined;
    return node.pipeline.dispatcher.states().find((one) => one.destination === destination)?.breaker;
  }

  #lookAtBreaker(sending: KnownSending, isGood: boolean): void {
    const key = `${sending.life.name} ${sending.lane}`;
    const before = this.#breakers.get(key) ?? 'closed';
    if (isGood && before === 'closed') return;
    const now = this.#breakerOf(sending);
    if (now === undefined) return;
    if (!isGood && now === 'probing') this.#world.reached('probe failed');
    this.#breakers.set(key, now);
    if (before === 'closed' && now !== 'closed') this.#world.reached('breaker open');
    if (before !== 'closed' && now === 'closed') this.#world.reached('breaker closed again');
  }

  #openOf({ life }: ServerNode): ReadonlySet<OpenRequest> {
    return this.#open.get(life.name) ?? new Set();
  }

  #channelOf(life: string) {
    return this.#world.nodes.find((node) => node.life.name === life)?.opened?.channel;
  }
}
