import { afterEach, describe, expect, it } from 'vitest';
import { type Database, LostLeaseError, type Transaction } from '../../src/adapters/postgres/database.ts';
import { Member } from '../../src/adapters/postgres/member.ts';
import { PostgresNodes } from '../../src/adapters/postgres/nodes.ts';
import { systemClock } from '../../src/adapters/system/clock.ts';

/** The suite's access to a server of PostgreSQL, or to what stands for one. */
export interface LeasesHarness {
  /** The connections of one process to the database of this test; `connections` at most. */
  open(connections?: number): Promise<Database>;
  /** The lease of a node ends so many seconds from now. */
  lapse(node: string, seconds: number): Promise<void>;
  /** Writes a name in a transaction. */
  put(write: Transaction, name: string): Promise<unknown>;
  /** The names that are committed. */
  names(database: Database): Promise<readonly string[]>;
  /** Resolves when a statement waits for a lock. */
  isBlocked(): Promise<void>;
  /** Stops what was opened, and removes the database. */
  close(): Promise<void>;
}

/** Locks and conditions that the leases of the PostgreSQL adapter go by. */
export function leasesConformance(name: string, harness: LeasesHarness): void {
  describe(`leases: ${name}`, () => {
    const members: Member[] = [];

    async function memberOf(database: Database, node: string, onLost?: () => void): Promise<Member> {
      const member = await Member.join(database, { clock: systemClock, node, ...(onLost && { onLost }) });
      members.push(member);
      return member;
    }

    async function join(node: string, onLost?: () => void) {
      const database = await harness.open();
      return { database, member: await memberOf(database, node, onLost) };
    }

    /** Begins a write that goes on when it is told to. */
    async function write(database: Database, name: string) {
      const begun = Promise.withResolvers<void>();
      const goOn = Promise.withResolvers<void>();
      const done = database.write(async (transaction) => {
        await harness.put(transaction, name);
        begun.resolve();
        await goOn.promise;
      });
      await begun.promise;
      return { done, goOn: goOn.resolve };
    }

    afterEach(async () => {
      for (const one of members.splice(0)) await one.stop(false);
      await harness.close();
    });

    it('write nothing for a process whose lease another one has taken', async () => {
      let lost = 0;
      const { database, member } = await join('a', () => lost++);
      await harness.lapse('a', 0);
      const next = await join('a');
      expect(next.member.id).toBeGreaterThan(member.id);
      await expect(database.write((late) => harness.put(late, 'late'))).rejects.toThrow(LostLeaseError);
      expect([member.isLost, lost, await member.renew()]).toEqual([true, 1, false]);
      expect(await harness.names(next.database)).toEqual([]);
      expect([next.member.isLost, await next.member.renew()]).toEqual([false, true]);
    });

    it('tell of a loss whoever had the lease when the work began', async () => {
      const database = await harness.open(1);
      const other = await harness.open();
      const told: string[] = [];
      await memberOf(database, 'a', () => told.push('first'));
      // The only connection is in use: the write has begun, and has not come to the server.
      const goOn = Promise.withResolvers<void>();
      const using = database.session(() => goOn.promise);
      const late = database.write((transaction) => harness.put(transaction, 'late'));
      late.catch(() => undefined);
      await harness.lapse('a', 0);
      const second = await memberOf(other, 'a');
      database.guardBy(second.id, () => told.push('second'));
      goOn.resolve();
      await using;
      await expect(late).rejects.toThrow(LostLeaseError);
      expect(told).toEqual(['first']);
    });

    it('are given back, also when a renewal arrives after that', async () => {
      let told = 0;
      const { database, member } = await join('a', () => told++);
      await member.stop(true);
      expect(await member.renew()).toBe(false);
      expect(told).toBe(0);
      // The second process does not wait for the connections of the first.
      const next = await memberOf(await harness.open(), 'a');
      expect(next.id).toBeGreaterThan(member.id);
      expect(await harness.names(database)).toEqual([]);
    });

    it('let a transaction under way end before their process is replaced', async () => {
      const { database } = await join('a');
      const other = await harness.open();
      const { done, goOn } = await write(database, 'in time');
      await harness.lapse('a', 0);
      const joining = memberOf(other, 'a');
      await harness.isBlocked();
      goOn();
      await done;
      await joining;
      expect(await harness.names(other)).toEqual(['in time']);
    });

    it('let a transaction under way end before they are adopted, and renew none after that', async () => {
      const { database, member } = await join('a');
      const other = await join('b');
      const { done, goOn } = await write(database, 'in time');
      await harness.lapse('a', 0);
      const adopting = other.member.adopt();
      await harness.isBlocked();
      // Waits for the adoption, and finds nothing then.
      const renewing = member.renew();
      goOn();
      await done;
      await adopting;
      expect(await renewing).toBe(false);
      expect(await harness.names(other.database)).toEqual(['in time']);
    });

    it('are adopted in one order by two that are over themselves', async () => {
      const [a, b] = [await join('a'), await join('b')];
      for (const node of ['a', 'b']) await harness.lapse(node, 0);
      // Each waits for the other: the database ends one, which begins anew and has lost its lease then.
      const both = await Promise.allSettled([a.member.adopt(), b.member.adopt()]);
      expect(both.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      const reasons = both.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
      expect(reasons[0]).toBeInstanceOf(LostLeaseError);
    });

    it('have one living process of a name: a second is told what to do, and waits for no dead one', async () => {
      const first = await join('a');
      // Two that start at the same time besides.
      const both = await Promise.allSettled([join('b'), join('b')]);
      expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
      await expect(join('a')).rejects.toThrow(/another process is the node "a".*MILLRACE_NODE/);
      expect([first.member.isLost, await first.member.renew()]).toEqual([false, true]);
      await first.member.stop(false);
      // A process that waited for the lease of the dead one would wait for an hour.
      await harness.lapse('a', 3600);
      await first.database.abandon();
      const second = await join('a');
      // One that stands still has its connections, and renews nothing.
      await second.member.stop(false);
      await harness.lapse('a', 1);
      const third = await join('a');
      expect(third.member.id).toBeGreaterThan(second.member.id);
      expect(await second.member.renew()).toBe(false);
    });

    it('are remembered when they were adopted, until their node is back', async () => {
      const [dead, stopped] = [await join('dead'), await join('stopped')];
      await stopped.member.stop(true);
      await dead.member.stop(false);
      await harness.lapse('dead', 0);
      const database = await harness.open();
      const nodes = await PostgresNodes.join(database, { clock: systemClock, node: 'a' });
      expect(await nodes.gone()).toEqual([]);
      await nodes.adopt();
      const [gone, ...others] = await nodes.gone();
      expect([gone, others]).toEqual([
        expect.objectContaining({ name: 'dead', roles: [], version: '', takenOverBy: 'a' }),
        [],
      ]);
      // Its lease of ten seconds was over just then.
      expect(gone!.takenOverAt - gone!.lastSeen).toBeGreaterThanOrEqual(10_000);
      expect((await nodes.list()).map((one) => one.name)).toEqual(['a']);
      await join('dead');
      expect(await nodes.gone()).toEqual([]);
      await nodes.stop(true);
    });
  });
}
