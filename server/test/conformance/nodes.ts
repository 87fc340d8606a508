import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { HOUR } from '../../src/model/time.ts';
import type { DeliveryQueue } from '../../src/ports/delivery-queue.ts';
import type { EventLog } from '../../src/ports/event-log.ts';
import type { LeaseFollower, Nodes } from '../../src/ports/nodes.ts';
import { SettingsMovedError, type SettingsStore } from '../../src/ports/settings-store.ts';
import { CRM, event, events, owedBatch } from './batches.ts';
import { START } from './harness.ts';
import { delivered, heldFrom } from './holdings.ts';

/** One process that has contents open together with others. */
export interface OpenedNode {
  readonly nodes: Nodes;
  readonly log: Pick<EventLog, 'append'>;
  readonly settings: Pick<SettingsStore, 'load' | 'apply'>;
  readonly queue: Pick<DeliveryQueue, 'claim' | 'settle' | 'recoverOrphans' | 'ledger'>;
  /** Another number under each lease. */
  process(): number;
  stop(): Promise<void>;
  /** Its end without a word: the lease stays as it is, and is renewed no more. */
  abandon(): Promise<void>;
}

/** The suite's access to the adapter under test. */
export interface NodesHarness {
  /** Opens the contents of this test for one more process, which has a lease when this resolves. */
  open(name: string): Promise<OpenedNode>;
  /** The lease of a process ends so many seconds from now. */
  lapse(node: OpenedNode, seconds: number): Promise<void>;
  /** Removes the contents. */
  close(): Promise<void>;
}

/** Hears of leases; `lost` resolves with the first loss, `back` when the process is back after it. */
function followed(node: OpenedNode, catchUp: () => Promise<void> = async () => {}) {
  const lost = Promise.withResolvers<void>();
  const back = Promise.withResolvers<void>();
  const follower: LeaseFollower = {
    lost: async () => lost.resolve(),
    catchUp,
    joined: back.resolve,
    awaited: () => {},
  };
  node.nodes.follow(follower);
  return { lost: lost.promise, back: back.promise };
}

/** The sentences of ports/nodes.ts. */
export function nodesConformance(name: string, harness: NodesHarness): void {
  describe(`several processes: ${name}`, () => {
    let a: OpenedNode;
    let b: OpenedNode;
    const opened: OpenedNode[] = [];

    async function open(node: string): Promise<OpenedNode> {
      const one = await harness.open(node);
      opened.push(one);
      return one;
    }

    /** As if it had not renewed its lease in time. */
    const lapse = (node: OpenedNode) => harness.lapse(node, -1);

    beforeEach(async () => {
      a = await open('a');
      b = await open('b');
    });
    afterEach(async () => {
      for (const one of opened.splice(0)) await one.stop();
      await harness.close();
    });

    it('each have a number and a name, and know which one they are', async () => {
      expect(a.process()).not.toBe(b.process());
      const selves = async (one: OpenedNode) =>
        (await one.nodes.list()).map(({ name: of, isSelf }) => [of, isSelf]);
      expect(await selves(a)).toEqual([
        ['a', true],
        ['b', false],
      ]);
      expect(await selves(b)).toEqual([
        ['a', false],
        ['b', true],
      ]);
      for (const { leaseLeft } of await a.nodes.list()) {
        expect(leaseLeft).toBeGreaterThan(0);
        expect(leaseLeft).toBeLessThanOrEqual(10_000);
      }
      for (const { nodes } of [a, b]) {
        expect(nodes.maySend()).toBe(true);
        expect(nodes.problems()).toEqual([]);
      }
    });

    it('give one of them the turn to probe a lane, until it gives it back or is gone', async () => {
      expect(await a.nodes.takeProbe(7)).toBe(0);
      const wait = await b.nodes.takeProbe(7);
      expect(wait).toBeGreaterThan(0);
      expect(wait).toBeLessThanOrEqual(2000);
      expect(await b.nodes.takeProbe(8)).toBe(0);
      await a.nodes.giveBackProbe(7, HOUR);
      // A pause keeps everybody from it, also the one that had the turn.
      expect(await a.nodes.takeProbe(7)).toBeGreaterThan(0);
      expect(await b.nodes.takeProbe(7)).toBeGreaterThan(0);
      await b.nodes.giveBackProbe(7, 0);
      const both = await Promise.all([a.nodes.takeProbe(7), b.nodes.takeProbe(7)]);
      expect(both.filter((left) => left === 0)).toHaveLength(1);
      await a.nodes.giveBackProbe(7, 0);
      expect(await a.nodes.takeProbe(7)).toBe(0);
      await a.stop();
      await b.queue.recoverOrphans();
      expect(await b.nodes.takeProbe(7)).toBe(0);
    });

    it('give a job to one of them, until it gives it back or is gone', async () => {
      const both = await Promise.all([a.nodes.take('alerts'), b.nodes.take('alerts')]);
      expect(both.toSorted()).toEqual([false, true]);
      const [has, other] = both[0] ? [a, b] : [b, a];
      expect(await has.nodes.take('alerts')).toBe(true);
      expect(await other.nodes.take('alerts')).toBe(false);
      // It is not the other's to give.
      await other.nodes.giveBack('alerts');
      expect(await other.nodes.take('alerts')).toBe(false);
      expect((await a.nodes.list()).flatMap(({ jobs }) => jobs)).toEqual(['alerts']);
      await has.nodes.giveBack('alerts');
      expect(await other.nodes.take('alerts')).toBe(true);
      await other.abandon();
      expect(await has.nodes.take('alerts')).toBe(false);
      await lapse(other);
      await has.queue.recoverOrphans();
      expect(await has.nodes.take('alerts')).toBe(true);
    });

    it('adopt what a dead one held, once, and take nothing from the living', async () => {
      await a.log.append(owedBatch(events(40), 'held'));
      await b.log.append(owedBatch(events(5, 'b'), 'held'));
      await a.abandon();
      await harness.lapse(a, 600);
      const c = await open('c');
      expect(await b.queue.recoverOrphans()).toBe(0);
      await lapse(a);
      const adopted = await Promise.all([b, c].map((one) => one.queue.recoverOrphans()));
      expect(adopted.toSorted((x, y) => x - y)).toEqual([0, 40]);
      const { deliveries } = await c.queue.claim(CRM, 100, START + HOUR);
      expect(deliveries).toHaveLength(40);
      expect((await c.nodes.list()).map(({ name: of }) => of)).toEqual(['b', 'c']);
    });

    it('write nothing more when they were adopted, also no result of a delivery', async () => {
      const one = owedBatch(events(3), 'held');
      const holdings = heldFrom(one, await a.log.append(one));
      await lapse(a);
      expect(await b.queue.recoverOrphans()).toBe(3);
      const late = [
        a.queue.settle(holdings.map(delivered)),
        a.log.append(owedBatch([event('late')], 'held')),
      ];
      const [, append] = await Promise.allSettled(late);
      expect(append!.status).toBe('rejected');
      const { destinations, sources } = await b.queue.ledger();
      expect(destinations.get(CRM)).toMatchObject({ owed: 3, delivered: 0, pending: 3 });
      expect([...sources.values()]).toMatchObject([{ accepted: 3 }]);
    });

    it('join again under another number when their lease was taken, and send nothing meanwhile', async () => {
      const [asked, known] = Array.from({ length: 2 }, () => Promise.withResolvers<void>());
      const { lost, back } = followed(a, async () => {
        asked!.resolve();
        await known!.promise;
      });
      const before = a.process();
      await lapse(a);
      await b.queue.recoverOrphans();
      await lost;
      expect(a.nodes.maySend()).toBe(false);
      await asked!.promise;
      // It does not know yet what the others have changed.
      expect(a.nodes.maySend()).toBe(false);
      expect(a.nodes.problems()).toHaveLength(1);
      known!.resolve();
      await back;
      expect(a.process()).toBeGreaterThan(before);
      expect(a.nodes.maySend()).toBe(true);
      expect(a.nodes.problems()).toEqual([]);
      expect(await a.log.append(owedBatch([event('again')], 'held'))).toMatchObject({
        positions: [expect.anything()],
      });
    });

    it('find what they held themselves under the lease before', async () => {
      const { back } = followed(a);
      await a.log.append(owedBatch(events(7), 'held'));
      await lapse(a);
      await b.nodes.changes();
      await b.queue.recoverOrphans();
      await back;
      expect((await a.queue.claim(CRM, 100, START + HOUR)).deliveries).toHaveLength(7);
    });

    it('change no settings by what they knew before another has changed them', async () => {
      const token = { name: 't', role: 'viewer' as const, digest: 'd', hint: 'h', createdAt: START };
      const change = { sources: [], destinations: [], tokens: [token], audit: [] };
      const before = await a.settings.load();
      const known = await b.settings.apply(change, await b.settings.load());
      await expect(a.settings.apply(change, before)).rejects.toThrow(SettingsMovedError);
      await b.settings.apply(change, known);
      expect((await a.nodes.changes()).settings).toBe(2);
      await a.settings.apply(change, await a.settings.load());
    });

    it('know who has not done yet what all are to do', async () => {
      const names = async (one: OpenedNode) =>
        (await one.nodes.toWaitFor({ suppressions: 7 })).map((node) => 'name' in node && node.name);
      expect(await names(a)).toEqual(['a', 'b']);
      await a.nodes.acknowledge({ suppressions: 7 });
      await b.nodes.acknowledge({ suppressions: 6, erasures: 9 });
      expect(await names(b)).toEqual(['b']);
      await b.nodes.acknowledge({ suppressions: 8 });
      // An older answer that comes late takes nothing back.
      await b.nodes.acknowledge({ suppressions: 6 });
      expect(await names(a)).toEqual([]);
      expect((await b.nodes.changes()).acknowledged).toEqual({ suppressions: 8, erasures: 9 });
      expect((await a.nodes.changes()).acknowledged).toEqual({ suppressions: 7, erasures: 0 });
    });

    it('wait for requests of one that lost its lease, and for none of one that was stopped', async () => {
      await a.nodes.acknowledge({ suppressions: 7 });
      await b.stop();
      expect(await a.nodes.toWaitFor({ suppressions: 7 })).toEqual([]);
      const c = await open('c');
      await c.abandon();
      await lapse(c);
      expect(await a.nodes.toWaitFor({ suppressions: 7 })).toEqual([{ state: 'behind', name: 'c' }]);
      await a.queue.recoverOrphans();
      const goneFor = async () => {
        const [gone] = await a.nodes.toWaitFor({ suppressions: 7 });
        expect(gone).toMatchObject({ state: 'gone', goneFor: expect.any(Number) });
        return (gone as { goneFor: number }).goneFor;
      };
      expect(await goneFor()).toBeLessThanOrEqual(await goneFor());
    });
  });
}
