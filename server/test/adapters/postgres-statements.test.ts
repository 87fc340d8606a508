import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { DAY, HOUR, MINUTE } from '../../src/model/time.ts';
import type { HeldDelivery } from '../../src/ports/delivery-queue.ts';
import {
  batch,
  CRM,
  duplicatesOf,
  event,
  events,
  owedBatch,
  positionsOf,
  SITE,
} from '../conformance/batches.ts';
import { START } from '../conformance/harness.ts';
import { dead, delivered, heldFrom, retried } from '../conformance/holdings.ts';
import { Cluster, type Process, STATEMENTS } from '../support/cluster.ts';
import { hashOf } from '../support/cluster-log.ts';
import { bytesOf } from '../support/cluster-member.ts';
import { findPostgres, type Postgres, startPostgres } from '../support/postgres.ts';

const bin = findPostgres();
if (bin === undefined)
  console.log('left out: "statements of the cluster" needs PostgreSQL 15, which is not installed');

describe.runIf(bin !== undefined)('statements of the cluster', () => {
  const played = new Set(['schema.tables']);
  let postgres: Postgres;
  let schemas = 0;
  let cluster: Cluster;
  let a: Process;
  let b: Process;

  beforeAll(async () => {
    postgres = await startPostgres(bin!);
  });
  afterAll(() => postgres.stop());
  beforeEach(async () => {
    cluster = await Cluster.open(postgres, `test${++schemas}`);
    a = cluster.first;
    b = await cluster.join('b');
  });
  afterEach(async () => {
    for (const name of await cluster.close()) played.add(name);
  });

  const hold = async ({ log }: Process, of = events(4)) => {
    const one = owedBatch(of, 'held');
    return heldFrom(one, await log.append(one));
  };
  const inHand = (deliveries: readonly HeldDelivery[]) =>
    deliveries.map((held) => ({ ...held, destination: CRM }));
  const idsOf = async ({ log }: Process, holdings: readonly HeldDelivery[]) =>
    (await log.read(holdings.map(({ delivery }) => delivery.position))).map((one) => one?.messageId);

  describe('append', () => {
    it('stores an event once, whichever process it comes to, and counts the others', async () => {
      const first = await a.log.append(owedBatch([event('x'), event('y'), event('x')], 'held'));
      expect(duplicatesOf(first)).toEqual([2]);
      const second = await b.log.append(owedBatch([event('y'), event('z'), event('x', 2)], 'parked'));
      expect(duplicatesOf(second)).toEqual([0]);
      const positions = [...first.positions, ...second.positions].map((one) => one ?? -1);
      expect((await b.log.read(positions)).map((one) => one?.messageId)).toEqual([
        'x',
        'y',
        undefined,
        undefined,
        'z',
        'x',
      ]);
      expect(await cluster.expectBalanced(CRM)).toMatchObject({ owed: 4, pending: 4 });
    });

    it('gives the same batch the same answer, also while its first commit is under way', async () => {
      const one = owedBatch(events(3), 'held');
      const { beforeCommit, answer } = cluster.meanwhile(b, () => b.log.append(one));
      const first = await a.log.append(one, beforeCommit);
      expect(await answer()).toEqual(first);
      for (let n = 0; n < 63; n++) await a.log.append(batch([event(`other${n}`)]));
      expect(await a.log.append(one)).toEqual(first);
      expect(await cluster.expectBalanced(CRM)).toMatchObject({ owed: 3 });
      await a.log.append(batch([]));
      expect(await cluster.ask('select count(*) from batch')).toEqual(['64']);
    });

    it('waits for another process with the same new event, and believes only its commit', async () => {
      const [mine, yours] = [batch([event('n'), event('m')]), batch([event('m'), event('o'), event('n')])];
      const { beforeCommit, answer } = cluster.meanwhile(b, () => b.log.append(yours));
      expect(duplicatesOf(await a.log.append(mine, beforeCommit))).toEqual([]);
      expect(duplicatesOf(await answer())).toEqual([0, 2]);

      const again = cluster.meanwhile(b, () => b.log.append(batch([event('new')])));
      const failing = a.log.append(batch([event('new')]), async () => {
        await again.beforeCommit();
        throw new Error('the disk is full');
      });
      await expect(failing).rejects.toThrow('the disk is full');
      expect(duplicatesOf(await again.answer())).toEqual([]);
    });

    it('stores an event whose hash is another one’s, and one that comes after its window', async () => {
      const [position] = (await a.log.append(batch([event('one')]))).positions;
      await cluster.ask(
        `insert into key(slot, hash, nth, position) values (1, ${hashOf(SITE, 'two')}, 0, ${position})`,
      );
      expect(duplicatesOf(await b.log.append(batch([event('two'), event('two')])))).toEqual([1]);
      expect(duplicatesOf(await a.log.append(batch([event('two')])))).toEqual([0]);
      const brief = (at: number) =>
        batch([{ ...event('one'), dedupeWindow: MINUTE }], { receivedAt: START + at });
      expect(duplicatesOf(await b.log.append(brief(MINUTE)))).toEqual([]);
      expect(duplicatesOf(await a.log.append(brief(2 * MINUTE - 1)))).toEqual([0]);
    });

    it('asks closed slots as far back as the window reaches; closing one waits for appends under way', async () => {
      const closing = cluster.meanwhile(b, () => b.upkeep.rotate(2));
      await a.log.append(batch([event('old')]), closing.beforeCommit);
      await closing.answer();
      expect(await cluster.ask('select youngest from slot order by id')).toEqual([String(START), null]);
      expect(duplicatesOf(await b.log.append(batch([event('old'), event('new')])))).toEqual([0]);
      expect(duplicatesOf(await a.log.append(batch([event('old')], { receivedAt: START + DAY })))).toEqual(
        [],
      );
      expect(await cluster.ask('select slot from chunk order by first')).toEqual(['1', '2', '2']);
    });
  });

  describe('claim', () => {
    it('never gives one delivery to two processes, and splits a set between them', async () => {
      for (const prefix of ['p', 'q', 'r']) await a.log.append(owedBatch(events(10, prefix), 'parked'));
      let second: Promise<{ deliveries: readonly HeldDelivery[] }> | undefined;
      const first = await a.backlog.claim(CRM, 4, START, async () => {
        // Sets that the other process is just taking are passed over and not waited for.
        second = b.backlog.claim(CRM, 100, START);
        await second;
      });
      expect((await second!).deliveries).toEqual([]);
      const rounds = await Promise.all([a, b, a, b, b, a].map((one) => one.backlog.claim(CRM, 5, START)));
      const all = [first, ...rounds].flatMap(({ deliveries }) => deliveries);
      const rest = (await b.backlog.claim(CRM, 100, START)).deliveries;
      const positions = [...all, ...rest].map(({ delivery }) => delivery.position);
      expect(positions).toHaveLength(30);
      expect(new Set(positions).size).toBe(30);
      expect(await a.backlog.lanes()).toEqual([{ destination: CRM, held: 30, onDisk: 0, retrying: 0 }]);
      expect(await b.backlog.settle(inHand(rest).map(delivered))).toEqual({ ignored: 0 });
    });

    it('leaves what waits for later, says when it is due, and hands it out to anybody then', async () => {
      const [one, two] = await hold(a, events(2));
      const next = { firstFailedAt: START, endpoints: 5, settingsVersion: 3 };
      await a.backlog.settle([retried(one!, START + HOUR, next), retried(two!, START + MINUTE, next)]);
      await b.log.append(owedBatch(events(1, 'untried'), 'held'));
      expect(await a.backlog.lanes()).toMatchObject([{ held: 1, onDisk: 2, retrying: 2 }]);
      expect(await b.backlog.claim(CRM, 9, START)).toEqual({ deliveries: [], nextDueAt: START + MINUTE });
      const { deliveries } = await b.backlog.claim(CRM, 9, START + MINUTE);
      expect(deliveries.map(({ delivery }) => delivery)).toEqual([{ ...two!.delivery, ...next, rounds: 1 }]);
      expect(await a.backlog.release(CRM, START + MINUTE)).toBe(1);
      expect(await idsOf(b, (await b.backlog.claim(CRM, 9, START + MINUTE)).deliveries)).toEqual(['m0']);
    });

    it('parks into the set of this second, unless somebody has it', async () => {
      await a.log.append(owedBatch(events(3), 'parked'));
      const [set] = await cluster.ask('select id from pending');
      expect(
        await a.member.call(
          'append.grow',
          set!,
          0,
          3,
          bytesOf((await cluster.ask('select refs from pending'))[0]!),
        ),
      ).toHaveLength(1);
      await b.backlog.claim(CRM, 3, START, async () => {
        expect(await a.member.call('append.grow', set!, 1, 4, Buffer.of(1))).toEqual([]);
      });
    });
  });

  describe('settle', () => {
    it('writes every way a delivery can go, and ignores what was settled before', async () => {
      const holdings = await hold(a);
      const results = [delivered(holdings[0]!), dead(holdings[1]!), retried(holdings[2]!, START + HOUR)];
      expect(await a.backlog.settle(results)).toEqual({ ignored: 0 });
      expect(await a.backlog.settle([...results, delivered(holdings[3]!)])).toEqual({ ignored: 3 });
      expect(await cluster.expectBalanced(CRM)).toMatchObject({
        owed: 4,
        delivered: 2,
        dead: { status_400: 1 },
        pending: 1,
      });
      expect(await cluster.ask('select reason from failed_attempt')).toEqual(['status_503', 'status_503']);
    });

    it('ignores what a process does not hold', async () => {
      const holdings = await hold(a);
      b.member.held.set(holdings[0]!.set, { ...a.member.held.get(holdings[0]!.set)! });
      expect(await b.backlog.settle(holdings.map(delivered))).toEqual({ ignored: 4 });
      expect(await cluster.expectBalanced(CRM)).toMatchObject({ delivered: 0, pending: 4 });
    });
  });

  describe('a lease', () => {
    it('that has run out is still good until somebody adopts, and worth nothing after', async () => {
      const holdings = await hold(a);
      await cluster.lapse(a);
      expect(await a.backlog.settle([delivered(holdings[0]!)])).toEqual({ ignored: 0 });
      expect(await a.member.renew()).toBe(true);
      expect(await b.backlog.adopt()).toBe(0);
      await cluster.lapse(a);
      expect(await b.backlog.adopt()).toBe(3);
      expect(await a.member.renew()).toBe(false);
      expect(await a.backlog.settle(holdings.map(delivered))).toEqual({ ignored: 4 });
      await expect(a.log.append(batch([event('late')]))).rejects.toThrow('lost its lease');
      expect((await a.backlog.claim(CRM, 9, START)).deliveries).toEqual([]);
      expect(await cluster.expectBalanced(CRM)).toMatchObject({ delivered: 1, pending: 3 });
      const heir = inHand((await b.backlog.claim(CRM, 9, START)).deliveries);
      expect(await idsOf(b, heir)).toEqual(['m1', 'm2', 'm3']);
      expect(await b.backlog.settle(heir.map(delivered))).toEqual({ ignored: 0 });
      expect(await cluster.ask('select distinct process from ledger order by 1')).toEqual([
        '0',
        String(b.member.id),
      ]);
    });

    it('is not taken from a transaction under way, and what that one leaves is adopted with the rest', async () => {
      const holdings = await hold(a);
      await cluster.lapse(a);
      const settling = cluster.meanwhile(b, () => b.backlog.adopt());
      await a.backlog.settle(holdings.slice(0, 2).map(delivered), settling.beforeCommit);
      expect(await settling.answer()).toBe(2);

      const c = await cluster.join('c');
      await cluster.lapse(c);
      const appending = cluster.meanwhile(b, () => b.backlog.adopt());
      const answer = await c.log.append(owedBatch(events(5, 'c'), 'held'), appending.beforeCommit);
      expect(answer.held[0]).toBeDefined();
      expect(await appending.answer()).toBe(5);
      expect(await b.backlog.lanes()).toEqual([
        { destination: CRM, held: 0, onDisk: 7, retrying: 0, nextDueAt: START },
      ]);
    });

    it('goes over to the next start of the same node at once', async () => {
      const holdings = await hold(a);
      const next = await cluster.join('a');
      expect(await next.backlog.adopt()).toBe(4);
      expect(await a.backlog.settle(holdings.map(delivered))).toEqual({ ignored: 4 });
    });
  });

  describe('owe', () => {
    const again = { origin: 'r1', destinations: [CRM], from: 0, to: 10, now: START };

    it('owes a slice once, whichever process asks, with its origin until it is delivered', async () => {
      await a.log.append(owedBatch(events(3), 'parked'));
      const positions = await a.log.upwards({ from: START, to: START + 1 });
      const slice = { ...again, positions };
      const standing = { cursor: 10, events: 3, pending: new Map([[CRM, 3]]) };
      expect(await Promise.all([a, b].map(({ backlog }) => backlog.owe(slice)))).toEqual([
        standing,
        standing,
      ]);
      expect(await b.backlog.owe({ ...slice, from: 10, to: 20, positions: [] })).toEqual({
        ...standing,
        cursor: 20,
      });
      const { deliveries } = await b.backlog.claim(CRM, 5, START);
      const rest = await a.backlog.claim(CRM, 9, START);
      const all = [...deliveries, ...rest.deliveries];
      expect(all.map(({ origin }) => origin).sort()).toEqual([
        'r1',
        'r1',
        'r1',
        undefined,
        undefined,
        undefined,
      ]);
      await b.backlog.settle(inHand(deliveries).map((one) => retried(one, START + HOUR)));
      await cluster.lapse(a);
      await b.backlog.adopt();
      expect(await b.backlog.expire(CRM, START + 1, 'retry_window_over')).toBe(1);
      const waiting = (await b.backlog.claim(CRM, 9, START + HOUR)).deliveries;
      const buried = await cluster.ask('select origin from dead_letter');
      expect([...waiting.map(({ origin }) => origin ?? null), ...buried].sort()).toEqual(
        all.map(({ origin }) => origin ?? null).sort(),
      );
      await b.backlog.settle(inHand(waiting).map(delivered));
      expect(await cluster.expectBalanced(CRM)).toMatchObject({ owed: 6, delivered: 5, pending: 0 });
    });

    it('finds in the order of the log, and nothing beyond what is on its way', async () => {
      const [first] = (await a.log.append(batch([event('x')]))).positions;
      await a.upkeep.rotate(2);
      const walking = cluster.meanwhile(b, () => b.log.upwards({ from: START, to: START + 1 }));
      const answer = await a.log.append(batch(events(2)), walking.beforeCommit);
      expect(await walking.answer()).toEqual([first, ...positionsOf(answer)]);
      expect(await b.log.upwards({ from: START + 1, to: START + 2 })).toEqual([]);
    });
  });

  it('gives up what is old and leaves what is young in its set', async () => {
    const holdings = await hold(a);
    const at = START + HOUR;
    await a.backlog.settle(holdings.map((one, n) => retried(one, at, { firstFailedAt: START + n * MINUTE })));
    expect(await b.backlog.expire(CRM, START + 2 * MINUTE, 'retry_window_over')).toBe(2);
    expect(await b.backlog.expire(CRM, START + 2 * MINUTE, 'retry_window_over')).toBe(0);
    expect(await cluster.expectBalanced(CRM)).toMatchObject({ dead: { retry_window_over: 2 }, pending: 2 });
    expect(await idsOf(a, (await a.backlog.claim(CRM, 9, at)).deliveries)).toEqual(['m2', 'm3']);
  });

  describe('erase', () => {
    const byTurns = (count: number, prefix: string) =>
      Array.from({ length: count }, (_, n) =>
        event(`${prefix}${n}`, SITE, { userId: n % 2 === 0 ? 'gone' : 'stays' }),
      );

    it('takes a user out of every set, also out of one that another process is just dividing', async () => {
      const holdings = await hold(a, byTurns(4, 'h'));
      await a.log.append(owedBatch(byTurns(6, 'p'), 'parked'));
      await b.log.append(
        owedBatch([event('x', SITE, { userId: 'gone' })], 'parked', { receivedAt: START + 1 }),
      );
      const erasing = cluster.meanwhile(b, () => b.upkeep.erase('gone', [0, 1]));
      const { deliveries } = await a.backlog.claim(CRM, 3, START, erasing.beforeCommit);
      expect(await erasing.answer()).toBe(6);
      expect(await cluster.expectBalanced(CRM)).toMatchObject({ owed: 11, erased: 6, pending: 5 });
      expect(await a.backlog.settle(holdings.map(delivered))).toEqual({ ignored: 2 });
      expect(await a.backlog.settle(inHand(deliveries).map(delivered))).toEqual({ ignored: 2 });
      expect(await idsOf(b, (await b.backlog.claim(CRM, 9, START)).deliveries)).toEqual(['p3', 'p5']);
      expect(await a.log.find({ userId: 'gone' })).toEqual([]);
      expect(await a.log.find({ userId: 'stays' })).toHaveLength(5);
      expect(duplicatesOf(await a.log.append(batch([event('h0'), event('h1')])))).toEqual([1]);
    });

    it('leaves no byte of them in the files of the tables', async () => {
      const gone = '"userId":"gone"';
      // The text is large enough to be kept beside the table.
      const large = byTurns(2, 'secret').map((one) => ({
        ...one,
        json: one.json.replace(/}$/, `,"x":"${'x'.repeat(3000)}"}`),
      }));
      const [one] = await hold(a, large);
      const failed = dead(one!);
      const attempts = failed.attempts.map((attempt) => ({ ...attempt, answer: gone }));
      await a.backlog.settle([{ ...failed, attempts }]);
      const holding = async (text: string) => {
        await cluster.ask('checkpoint');
        const paths = await cluster.ask(
          `select pg_relation_filepath(oid) from pg_class where relnamespace = current_schema()::regnamespace
             or oid in (select reltoastrelid from pg_class where relnamespace = current_schema()::regnamespace)`,
        );
        const files = paths
          .filter((path) => path !== null)
          .map((path) => join(postgres.folder, 'data', path));
        return files.filter((file) => readFileSync(file, 'latin1').includes(text)).length;
      };
      expect(await holding('secret1')).toBe(1);
      expect(await holding(gone)).toBe(2);
      await b.upkeep.rotate(2);
      expect(await b.upkeep.erase('gone', [0, 1])).toBe(1);
      await b.member.script('erase.bytes', 1);
      expect(await holding('secret1')).toBe(1);
      expect(await holding(gone)).toBe(0);
    });
  });

  describe('upkeep', () => {
    const RETENTION = { events: 7 * DAY, deadLetters: 30 * DAY };
    const NOW = START + 8 * DAY;

    it('merges the small chunks of a closed slot, and no event moves', async () => {
      const positions = [];
      for (let n = 0; n < 5; n++) positions.push(...positionsOf(await a.log.append(batch([event(`s${n}`)]))));
      await a.upkeep.rotate(2);
      expect(await b.upkeep.seal(1)).toBe(1);
      expect((await a.log.read(positions)).map((one) => one?.messageId)).toEqual([
        's0',
        's1',
        's2',
        's3',
        's4',
      ]);
      expect(await a.log.find({ from: START, to: START + 1 })).toEqual([...positions].reverse());
      await a.member.call('settings.apply', ['source'], ['site'], ['{}']);
      expect(await a.log.find({ messageId: 's3' })).toEqual([positions[3]]);
    });

    it('buries what is owed of what it lets go of, keeps dead letters readable, and drops the partitions', async () => {
      const [one] = await hold(a, events(2, 'd'));
      await a.log.append(owedBatch(events(3, 'p'), 'parked'));
      await a.backlog.settle([dead(one!)]);
      await a.upkeep.rotate(2);
      await b.log.append(owedBatch([event('young')], 'parked', { receivedAt: NOW }));

      // d1 is still held: its chunk and all later ones stay.
      expect(await b.upkeep.retain(NOW, RETENTION)).toBe(false);
      const [, two] = await a.log.find({ from: START, to: START + 1 }).then((all) => [...all].reverse());
      const held = [...a.member.held].map(([set]) => ({
        ...one!,
        set,
        delivery: { position: two!, rounds: 0 },
      }));
      expect(await a.backlog.settle(held.map(delivered))).toEqual({ ignored: 0 });
      while (await b.upkeep.retain(NOW, RETENTION));
      const counts = { owed: 6, delivered: 1, pending: 1, dead: { status_400: 1, retention_over: 3 } };
      expect(await cluster.expectBalanced(CRM)).toMatchObject(counts);
      expect(await a.log.find({ userId: 'u1' })).toHaveLength(5);
      expect(await b.upkeep.drop(1)).toBe(true);
      expect(await b.upkeep.drop(2)).toBe(false);

      // A delivery given up by retention is a dead letter like any other, and keeps its event as long.
      expect(await cluster.ask('select count(*) from chunk where slot = 0')).toEqual(['2']);
      expect(await cluster.ask("select to_regclass('chunk_1')")).toEqual([null]);
      // The events go with their dead letters. The youngest event was still owed; its delivery is given up now.
      await b.upkeep.retain(NOW + 31 * DAY, RETENTION);
      expect(await cluster.ask('select at from chunk where slot = 0')).toEqual([String(NOW)]);
      expect(await cluster.ask('select reason from dead_letter')).toEqual(['retention_over']);
      expect(await cluster.ask('select count(*) from failed_attempt')).toEqual(['0']);
    });
  });

  it('gives a name its id for ever and a changed destination a new version', async () => {
    const apply = (one: Process, document: string) =>
      one.member.call('settings.apply', ['destination', 'source'], ['crm', 'site'], [document, '{}']);
    await Promise.all([apply(a, '{"v":1}'), apply(b, '{"v":1}')]);
    await apply(b, '{"v":1}');
    await apply(a, '{"v":2}');
    const rows = await b.member.call('settings.load');
    expect(rows.map(({ kind, version }) => [kind, version])).toEqual([
      ['destination', '2'],
      ['source', '1'],
    ]);
    expect(await a.member.call('log.size')).toEqual([]);
  });

  it('keeps the id of a record that goes and comes again, and who did what', async () => {
    const put = () => a.member.call('settings.apply', ['destination'], ['crm'], ['{}']);
    await put();
    await a.member.call('settings.remove', ['destination'], ['crm']);
    const [gone] = await b.member.call('settings.load');
    await put();
    const [back] = await b.member.call('settings.load');
    expect(gone).toMatchObject({ gone: 't', version: '2' });
    expect(back).toMatchObject({ id: gone!['id'], gone: 'f', version: '3' });
    await a.member.call('settings.note', 5, 'ci', ['created'], ['destination'], ['crm'], [null], ['{}']);
    const trail = await b.member.call('settings.audit', 'destination', null, 1000, 10);
    expect(trail).toMatchObject([
      { at: '5', by: 'ci', action: 'created', name: 'crm', before: null, after: '{}' },
    ]);
  });

  it('are planned as index scans, on empty tables and on full ones', async () => {
    const calls = {
      'append.keys': "3, 1, '{1,2}', '{1,2}'",
      'read.chunks': "'{1,2}'",
      'claim.due': '1, 1',
      'expire.old': '1, 1',
      'find.user': '1, 1, 1',
      'settle.mine': "1, '{1}', '{0}'",
    };
    for (const round of [2, 3]) {
      for (const [name, values] of Object.entries(calls)) {
        const plan = await a.member.session.run(`explain execute "${name}"(${values})`);
        const text = plan.map((row) => Object.values(row)[0]).join('\n');
        expect(text, name).toMatch(/Index (Only )?Scan/);
        expect(text, name).not.toMatch(/Seq Scan|Bitmap|Materialize|Hash/);
      }
      for (const prefix of ['x', 'y', 'z']) {
        const one = owedBatch(events(300, `${prefix}${round}-`), 'parked', { receivedAt: START + round });
        await b.log.append(one);
      }
      await b.upkeep.rotate(round);
      await a.member.session.run('analyze');
    }
  });

  it('are all of the page', () => {
    // Every test before this one has its part in it.
    expect(STATEMENTS.filter((name) => !played.has(name))).toEqual([]);
  });
});
