import type { AudienceDefinition, Condition } from '../../../src/model/definition.ts';
import { MINUTE } from '../../../src/model/time.ts';
import { START } from '../kernel.ts';
import type { PromiseFamily, WorldView } from './promise.ts';

/** The audience of users with so many orders. */
export const BUYERS = 'buyers';
const ORDERS = 3;
const WINDOW = 10 * MINUTE;
/** Events so near to the edge of the window may count or not: the timers of windows go by minutes. */
const SLACK = 3 * MINUTE;

/** The audiences of a world: users with so many orders, and those with two in ten minutes. */
export const AUDIENCES: readonly AudienceDefinition[] = [
  audience(1, BUYERS, ORDERS, undefined),
  audience(2, 'lately', 2, WINDOW),
];

function audience(id: number, name: string, least: number, within: number | undefined): AudienceDefinition {
  const of = {
    op: 'event' as const,
    type: 'track' as const,
    name: 'Order Placed',
    reduce: { op: 'count' as const },
  };
  const value = within === undefined ? of : { ...of, within };
  const definition: Condition = { op: '>=', value, to: least };
  const window = within === undefined ? '' : '.within(10 minutes)';
  const text = `event('Order Placed')${window}.count() >= ${least}`;
  return {
    ...{ id, version: 1, name, key: name, text, destinations: ['d1'], enabled: true },
    ...{ kind: 'audience', definition, includeAnonymous: false },
  };
}

/** Members are told as a naive look at all stored events has them. */
export const profiles: PromiseFamily = {
  name: 'profiles',
  headings: ['Audiences', 'Computation events', 'Computed traits'],
  watch: (world) => ({
    ended() {
      if (!world.hasProfiles) return undefined;
      const isClockSet = world.scenario.faults.some(({ kind }) => kind === 'wall clock');
      const orders = ordersByUser(world);
      const needed = ordersNeeded(world);
      const told = toldByUser(world);
      for (const [user, times] of orders) {
        // What was told of a user before a deletion is told anew, or not at all.
        if (world.deletedUsers.has(user)) continue;
        const isBuyer = times.length >= needed;
        if ((told.get(`${user} buyers`) ?? false) !== isBuyer)
          return world.fail(
            'audiences are right',
            `${user} has ${times.length} orders, and was told as ${told.get(`${user} buyers`)}`,
          );
        const now = START + world.kernel.now;
        const within = (window: number) => times.filter((at) => at > now - window).length >= 2;
        if (isClockSet || within(WINDOW - SLACK) !== within(WINDOW + SLACK)) continue;
        if ((told.get(`${user} lately`) ?? false) !== within(WINDOW))
          return world.fail(
            'windows are right',
            `${user} was told as ${told.get(`${user} lately`)}; orders before the end: ${times.map((at) => Math.round((now - at) / 1000)).join(', ')} s`,
          );
      }
      checkMembers(world, told);
      return undefined;
    },
  }),
};

/** The number in the definition that is in force. */
function ordersNeeded({ nodes }: WorldView): number {
  const { audiences } = nodes[0]!.pipeline.settings.now();
  return (audiences.find(({ name }) => name === BUYERS)!.definition as { readonly to: number }).to;
}

/** The number of members that is stored is that of the users who were told so last. */
function checkMembers({ store, fail }: WorldView, told: ReadonlyMap<string, boolean>): void {
  const members = store.membersStored?.();
  if (members === undefined) return;
  for (const { id, name } of AUDIENCES) {
    const isMember = ([key, value]: [string, boolean]) => value && key.endsWith(` ${name}`);
    const expected = [...told].filter(isMember).length;
    if ((members[id] ?? 0) !== expected)
      fail('members are counted', `${name} has ${members[id] ?? 0} members, and ${expected} were told`);
  }
}

function ordersByUser({ store }: WorldView): Map<string, number[]> {
  const orders = new Map<string, number[]>();
  for (const { json, userId, receivedAt } of store.contents.events.values()) {
    if (userId === undefined || !json.includes('"event":"Order Placed"')) continue;
    orders.set(userId, [...(orders.get(userId) ?? []), receivedAt]);
  }
  return orders;
}

/** The newest that was said of each user and audience. */
function toldByUser({ store }: WorldView): Map<string, boolean> {
  const told = new Map<string, boolean>();
  for (const { json, userId } of store.contents.events.values()) {
    const { type, traits = {} } = JSON.parse(json) as { type: string; traits?: Record<string, boolean> };
    if (type !== 'identify' || userId === undefined) continue;
    for (const { key } of AUDIENCES) if (key in traits) told.set(`${userId} ${key}`, traits[key]!);
  }
  return told;
}
