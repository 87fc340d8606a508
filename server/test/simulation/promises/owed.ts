import { destinationOfLane } from '../../../src/model/lane.ts';
import { laneOf } from '../book.ts';
import type { PromiseFamily, WorldView } from './promise.ts';

const sum = (counts: Readonly<Record<string, number>>) => Object.values(counts).reduce((a, b) => a + b, 0);

/** Every planned delivery is pending, delivered, given up or erased, and counted so after every write. */
export const owed: PromiseFamily = {
  name: 'owed',
  headings: ['Ledger', 'At least once'],
  watch: (world) => ({
    applied({ operation }) {
      checkLedger(world, operation);
      if (operation === 'recoverOrphans') checkOwed(world);
    },
    ended() {
      checkLedger(world, 'the end');
      checkOwed(world);
    },
  }),
};

function checkOwed({ book, fail }: WorldView): void {
  for (const { id, fates, isErased, position } of book.byPosition.values()) {
    if (isErased) continue;
    for (const [key, fate] of fates) {
      if (fate !== 'owed' || book.isPending(key, position!)) continue;
      fail('nothing is lost', `${id} is owed to ${key}, and neither pending nor settled`);
      return;
    }
  }
}

function checkLedger({ store, fail }: WorldView, after: string): void {
  const { sources, destinations } = store.ledger();
  for (const [lane, { owed: total, delivered, pending, dead, dropped, erased }] of destinations) {
    const states = delivered + pending + sum(dead) + sum(dropped) + erased;
    if (states !== total)
      fail('ledger', `lane ${lane} owes ${total}, its states add up to ${states}, after ${after}`);
  }
  for (const [source, { received, accepted, duplicates, discarded }] of sources) {
    const states = accepted + duplicates + sum(discarded);
    if (states !== received)
      fail('ledger', `source ${source} got ${received}, its states add up to ${states}, after ${after}`);
  }
}

/** A delivery that is said to be delivered was accepted, and a dead one died for the reason that is given. */
export const settled: PromiseFamily = {
  name: 'settled',
  headings: ['Outcomes', 'Several endpoints', 'Retry window', 'Dead letters'],
  watch: (world) => ({
    applied(_, changes) {
      for (const { known, key, result } of changes.settled) {
        const { decision, attempts } = result;
        const lane = laneOf(key);
        const plan = world.planOf(destinationOfLane(lane));
        if (decision.kind === 'delivered') {
          const all = world.endpointsOf(destinationOfLane(lane));
          const ours = plan.success === 'each' ? all.filter((_one, place) => placeOf(lane) === place) : all;
          if (!ours.some(({ accepted }) => accepted.has(known.id)))
            world.fail(
              'delivered was accepted',
              `${known.id} is delivered to ${key}, and no endpoint has accepted it`,
            );
        }
        if (decision.kind !== 'dead') continue;
        const isStored = world.store.contents.events.has(known.position!);
        if ((decision.reason === 'event_gone' || decision.reason === 'event_damaged') && isStored)
          world.fail('dead for a reason', `${known.id} is dead as ${decision.reason} and is in the store`);
        if (decision.reason === 'no_endpoint')
          world.fail('dead for a reason', `${known.id} has no endpoint after ${attempts.length} requests`);
        if (decision.reason === 'retry_window_over')
          checkWindow(world, known.owedSince.get(key)!, { id: known.id, key });
      }
      for (const { known, key } of changes.expired)
        checkWindow(world, known.owedSince.get(key)!, { id: known.id, key });
    },
  }),
};

const MINUTE = 60_000;
/** The longest pause between two tries: a window ends where the next try would come after it. */
const WINDOW = 240 * MINUTE;
const LAST_DELAY = 40 * MINUTE;

function placeOf(lane: number): number {
  return Math.floor(lane / 2 ** 24);
}

function checkWindow(world: WorldView, since: number, { id, key }: { id: string; key: string }): void {
  const { now } = world.kernel;
  const pauses = world.pauses.get(destinationOfLane(laneOf(key))) ?? [];
  const paused = pauses.reduce(
    (total, { from, to = now }) => total + Math.max(0, Math.min(to, now) - Math.max(from, since)),
    0,
  );
  world.reached(paused > MINUTE ? 'retry window over after a pause' : 'retry window over');
  if (now - since - paused < WINDOW - LAST_DELAY)
    world.fail(
      'retry window',
      `${id} died on ${key} ${Math.round((now - since) / MINUTE)} minutes after it was owed`,
    );
}
