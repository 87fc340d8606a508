import { destinationOfLane } from '../../../src/model/lane.ts';
import { MINUTE, SECOND } from '../../../src/model/time.ts';
import { START } from '../kernel.ts';
import type { Endpoint } from '../network.ts';
import type { KnownSending, PromiseFamily, WorldView } from './promise.ts';

/** So long after an endpoint was back, everything that an open breaker held back has been tried. */
const TRIED_WITHIN = 25 * SECOND;

/** An endpoint that is back is asked soon, and gets what waited for it; nothing waits for ever. */
export const soon: PromiseFamily = {
  name: 'soon',
  headings: ['Endpoints that are down', 'Isolation', 'Endpoints that rest'],
  watch: (world) => {
    /** Endpoints whose first answer after a bad time was looked at. */
    const seenBack = new Map<number, number>();
    return {
      heard(sending, answer) {
        const { endpoint } = sending;
        const isBack = world.kernel.now > endpoint.badUntil && endpoint.badUntil > 0;
        if (answer.kind !== 'answered' || answer.status >= 300 || !isBack) return;
        if (seenBack.get(endpoint.place) === endpoint.badUntil) return;
        seenBack.set(endpoint.place, endpoint.badUntil);
        if (isHeldByBreaker(sending)) checkTriedLater(world, sending);
      },
      endpointBack(endpoint, backAt) {
        checkNoticed(world, endpoint, backAt);
      },
      ended() {
        checkEnd(world);
      },
    };
  },
};

function isHeldByBreaker({ node, destination }: KnownSending): boolean {
  const state = node.pipeline.dispatcher.states().find((one) => one.destination === destination);
  return state !== undefined && state.breaker !== 'closed';
}

/** Whether nothing but the endpoint was wrong since then. */
function isQuietSince(world: WorldView, since: number, destination: number): boolean {
  const { death, store, still } = world.troubles;
  const pause = world.pauses.get(destination)?.at(-1);
  const resumedAt = pause === undefined ? Number.NEGATIVE_INFINITY : (pause.to ?? Number.POSITIVE_INFINITY);
  return Math.max(death, store, still, resumedAt) <= since;
}

function checkTriedLater(world: WorldView, { endpoint, lane, destination }: KnownSending): void {
  const { endpoints, rateLimit, concurrency } = world.planOf(destination);
  const isLimited = endpoints > 1 || rateLimit !== undefined || concurrency !== undefined;
  if (isLimited || world.nodes.length > 1) return;
  const backAt = world.kernel.now;
  world.kernel.later(TRIED_WITHIN, 'look whether what waited was tried', () => {
    if (endpoint.badUntil > backAt || !isQuietSince(world, backAt - SECOND, destination)) return;
    for (const set of world.store.contents.sets.values()) {
      if (set.destination !== lane) continue;
      for (const position of set.deliveries.keys()) {
        const { id, storedAt } = world.book.byPosition.get(position)!;
        const due = (set.dueAt - START - world.kernel.now) / SECOND;
        if (storedAt < backAt - SECOND && set.origin === undefined)
          return world.fail(
            'back is soon',
            `${endpoint.url} is back since ${backAt.toFixed()} ms, and ${id} waits for ${due.toFixed()} s more`,
          );
      }
    }
  });
}

/** An endpoint that is back while an open breaker holds deliveries is asked within two minutes. */
function checkNoticed(world: WorldView, endpoint: Endpoint, backAt: number): void {
  const destination = [...world.scenario.destinations.keys()]
    .map((nth) => nth + 1)
    .find((id) => world.endpointsOf(id).includes(endpoint))!;
  const isAsked = endpoint.badUntil > backAt || endpoint.askedAt > backAt;
  if (isAsked || world.planOf(destination).endpoints > 1 || world.nodes.length > 1) return;
  if (!isQuietSince(world, backAt - 30 * SECOND, destination) || !world.nodes[0]!.isReady) return;
  const state = world.nodes[0]!.pipeline.dispatcher.states().find((one) => one.destination === destination);
  if (state === undefined || state.breaker === 'closed') return;
  const isOwed = [...world.store.contents.sets.values()].some(
    (set) => destinationOfLane(set.destination) === destination,
  );
  if (isOwed)
    world.fail(
      'back is noticed',
      `${endpoint.url} is back for two minutes, its breaker is ${state.breaker}, and it was not asked`,
    );
}

function checkEnd(world: WorldView): void {
  const { sets } = world.store.contents;
  const [waiting] = sets.values();
  if (waiting !== undefined) {
    const { destination, deliveries, holder, dueAt } = waiting;
    const [position] = deliveries.keys();
    const due = Math.round((dueAt - START - world.kernel.now) / SECOND);
    const how = holder === undefined ? `due in ${due} s` : `held by ${holder}`;
    world.fail(
      'nothing waits for ever',
      `lane ${destination} has ${deliveries.size} deliveries (${how}) after long good times, such as ${world.book.byPosition.get(position!)?.id}`,
    );
  }
  for (const node of world.nodes) {
    if (!node.isReady) {
      world.fail('nodes start', `${node.name} is not up`);
      continue;
    }
    for (const { destination, held, inFlight, breaker } of node.pipeline.dispatcher.states()) {
      const of = `${node.life.name}, destination ${destination}:`;
      if (held !== 0 || inFlight !== 0)
        world.fail('room is given back', `${of} ${held} held, ${inFlight} in flight, and nothing is owed`);
      if (breaker !== 'closed' && world.nodes.length === 1)
        world.fail('breakers close', `${of} the breaker is ${breaker}`);
    }
  }
}

/** The longest time that everything may take to come right. */
export const CALM = 50 * MINUTE;

const MOST_CLAIMS = 400;

/** Nothing is done over and over, and what a call was discarded for counts once. */
export const bounded: PromiseFamily = {
  name: 'bounded',
  headings: ['Isolation', 'Ledger', 'Invalid calls'],
  watch: (world) => {
    const claims = new Map<string, { second: number; count: number }>();
    return {
      applied({ operation, args, life }) {
        if (operation !== 'claim') return;
        const key = `${life.name} ${args[0]}`;
        const second = Math.floor(world.kernel.now / SECOND);
        const counted = claims.get(key);
        if (counted?.second !== second) claims.set(key, { second, count: 1 });
        else if (++counted.count > MOST_CLAIMS)
          world.fail(
            'nothing spins',
            `${life.name} claims from lane ${args[0]} ${MOST_CLAIMS} times in a second`,
          );
      },
    };
  },
};
