import { isDelivering } from '../../../src/model/destination.ts';
import { SECOND } from '../../../src/model/time.ts';
import type { DeliveryResult } from '../../../src/ports/delivery-queue.ts';
import type { OutboundRequest } from '../../../src/ports/http-client.ts';
import type { Known } from '../book.ts';
import type { ServerNode } from '../node.ts';
import type { KnownSending, PromiseFamily, WorldView } from './promise.ts';

/** How long several nodes take until all know how many they are. */
const STEADY = 25 * SECOND;
/** A node with results that are older begins no more requests. */
const UNWRITTEN = 1500;

/** No request begins for what is settled, and what was accepted is not sent again by who has heard of it. */
export const notAgain: PromiseFamily = {
  name: 'not again',
  headings: ['At least once', 'Exact bytes'],
  watch: (world) => {
    /** By lease and delivery: it has heard of an acceptance. */
    const heardOf = new Set<string>();
    const sentBy = new WeakMap<OutboundRequest, string>();
    const digests = new Map<string, number>();
    return {
      sending({ known, key, id, node, endpoint, lane, request }) {
        if (known?.position === undefined)
          return world.fail('sent is stored', `${id} is sent to ${endpoint.url} and was never stored`);
        const fate = known.fates.get(key);
        if (fate === undefined)
          return world.fail('sent is owed', `${id} is sent to ${key} and was never owed`);
        if (fate !== 'owed' && fate !== 'erased')
          return world.fail('settled is not sent again', `${id} is sent to ${key} after it was ${fate}`);
        if (
          world.planOf(lane % 2 ** 24).success === 'any' &&
          heardOf.has(`${node.lease} ${key} ${known.position}`)
        )
          return world.fail('accepted is not repeated', `${node.life.name} sends ${id} to ${key} again`);
        sentBy.set(request, node.lease);
        checkBody(world, digests, `${known.position} ${endpoint.place}`, request.body);
        return undefined;
      },
      heard({ known, key, node, request }, answer) {
        if (known === undefined || answer.kind !== 'answered' || answer.status >= 300) return;
        if (sentBy.get(request) !== node.lease || known.fates.get(key) !== 'owed') return;
        heardOf.add(`${node.lease} ${key} ${known.position}`);
      },
      applied({ operation }, { revived }) {
        // A dead letter may have been accepted by one of its requests that came too late.
        if (operation === 'redeliver' || revived > 0) heardOf.clear();
      },
    };
  },
};

/** Body and id of an event are the same in all requests to an endpoint. */
function checkBody(world: WorldView, digests: Map<string, number>, key: string, body: Buffer): void {
  let digest = body.length;
  for (let at = 0; at < body.length; at += 7) digest = (Math.imul(digest, 31) + body[at]!) | 0;
  const before = digests.get(key);
  if (before !== undefined && before !== digest)
    world.fail('bodies stay as they are', `the body of ${key} differs from that of an earlier request`);
  digests.set(key, digest);
}

/** However many nodes deliver to an endpoint that fails, one of them probes it. */
export const oneProbes: PromiseFamily = {
  name: 'one probes',
  headings: ['Endpoints that are down'],
  watch: (world) => {
    /** By lane: probes under way, with the nodes that have sent them. */
    const open = new Map<number, Map<OutboundRequest, ServerNode>>();
    return {
      sending({ endpoint, lane, destination, node, request }) {
        const isDown = endpoint.modeAt(world.kernel.now) !== 'up';
        if (world.nodes.length === 1 || !isDown || !isProbing(node, destination)) return;
        const probes = open.get(lane) ?? new Map<OutboundRequest, ServerNode>();
        open.set(lane, probes.set(request, node));
        const other = [...probes.values()].find((one) => one !== node);
        if (other !== undefined && isSteady(world))
          world.fail('one node probes', `${node.name} and ${other.name} probe lane ${lane} at once`);
      },
      heard({ lane, request }) {
        open.get(lane)?.delete(request);
      },
    };
  },
};

function isProbing({ pipeline }: ServerNode, destination: number): boolean {
  const state = pipeline.dispatcher.states().find((one) => one.destination === destination);
  return state?.breaker === 'probing';
}

/** Whether all nodes know each other, and nothing but endpoints is wrong. */
function isSteady({ troubles, kernel }: WorldView): boolean {
  const { death, ready, still, store, lostLease } = troubles;
  return kernel.now - Math.max(death, ready, still, store, lostLease) > STEADY;
}

/** Nothing is sent without a lease, to a paused destination, or beyond its limits. */
export const notNow: PromiseFamily = {
  name: 'not now',
  headings: ['Pausing and disabling', 'Settings', 'At least once'],
  watch: (world) => {
    const unwritten = new Unwritten();
    const sentBy = new WeakMap<OutboundRequest, string>();
    return {
      sending(sending) {
        const { node, id, destination, request } = sending;
        sentBy.set(request, node.lease);
        const settings = node.settings.now().destinations.find((one) => one.id === destination)!;
        if (!isDelivering(settings))
          return world.fail(
            'paused is not sent',
            `${node.life.name} sends ${id} to ${settings.name}, which is paused`,
          );
        const nodes = node.opened?.nodes;
        if (nodes !== undefined && !nodes.maySend())
          return world.fail('no sending without a lease', `${node.life.name} sends ${id} without a lease`);
        checkConcurrency(world, sending);
        const oldest = unwritten.oldestOf(node.lease);
        if (nodes === undefined || oldest === undefined) return undefined;
        if (world.kernel.now - oldest > UNWRITTEN)
          world.fail(
            'results are written',
            `${node.life.name} sends ${id} with a result unwritten for ${Math.round(world.kernel.now - oldest)} ms`,
          );
        return undefined;
      },
      heard({ known, key, lane, node, request }, answer) {
        // Results of an earlier lease are not written: its deliveries belong to others.
        if (sentBy.get(request) !== node.lease) return;
        if (answer.kind !== 'answered' || answer.status >= 300 || known?.fates.get(key) !== 'owed') return;
        const acceptance = { known, key, heardAt: world.kernel.now };
        unwritten.add(node.lease, `${lane} ${known.position}`, acceptance);
      },
      applied({ operation, args, life }) {
        if (operation !== 'settle') return;
        const { lease } = world.nodeOf(life);
        const oldest = unwritten.oldestOf(lease) ?? world.kernel.now;
        if (world.kernel.now - oldest > SECOND) world.reached('results unwritten for a second');
        unwritten.settle(lease, args[0] as readonly DeliveryResult[]);
      },
    };
  },
};

interface Acceptance {
  readonly known: Known;
  readonly key: string;
  readonly heardAt: number;
}

/** By lease: acceptances that were heard of and are not written yet, the oldest first. */
class Unwritten {
  readonly #byLease = new Map<string, Map<string, Acceptance>>();

  oldestOf(lease: string): number | undefined {
    const all = this.#byLease.get(lease) ?? new Map<string, Acceptance>();
    for (const [delivery, { known, key, heardAt }] of all) {
      if (known.fates.get(key) === 'owed') return heardAt;
      // Its event was erased: nothing of it is written any more.
      all.delete(delivery);
    }
    return undefined;
  }

  add(lease: string, delivery: string, acceptance: Acceptance): void {
    const all = this.#byLease.get(lease) ?? new Map<string, Acceptance>();
    this.#byLease.set(lease, all);
    if (!all.has(delivery)) all.set(delivery, acceptance);
  }

  settle(lease: string, results: readonly DeliveryResult[]): void {
    const all = this.#byLease.get(lease);
    for (const { destination, position } of results) all?.delete(`${destination} ${position}`);
  }
}

function checkConcurrency(world: WorldView, { destination, endpoint }: KnownSending): void {
  const { concurrency } = world.planOf(destination);
  if (concurrency === undefined) return;
  if (endpoint.open === concurrency - 1) world.reached('concurrency used up');
  if (endpoint.open < concurrency) return;
  // Requests of a dead process end at the endpoint only when they have taken their time.
  const isAlone = world.nodes.length === 1;
  const isKnown = isAlone ? world.kernel.now - world.troubles.death > 6 * SECOND : isSteady(world);
  if (isKnown)
    world.fail('concurrency', `${endpoint.url} has ${endpoint.open + 1} open requests of ${concurrency}`);
}
