import { ledgerOf } from '../../src/adapters/encoding/ledger.ts';
import { decodeSet, splitSet } from '../../src/adapters/encoding/pending-set.ts';
import type { Delivery } from '../../src/model/delivery.ts';
import type { Ledger } from '../../src/model/ledger.ts';
import type { Time } from '../../src/model/time.ts';
import type {
  Claim,
  DeliveryResult,
  HeldDelivery,
  PendingSetId,
  QueueStats,
  ReplayProgress,
  ReplaySlice,
  SettleResult,
} from '../../src/ports/delivery-queue.ts';
import {
  type BeforeCommit,
  bytesOf,
  type ClusterMember,
  type Dead,
  type InHand,
  type NewSet,
} from './cluster-member.ts';
import type { Row, Value } from './postgres.ts';

/** The statements of ports/delivery-queue.ts, played by one process. */
export class ClusterBacklog {
  readonly #member: ClusterMember;

  constructor(member: ClusterMember) {
    this.#member = member;
  }

  async claim(destination: number, max: number, now: Time, beforeCommit?: BeforeCommit): Promise<Claim> {
    const taken = new Map<PendingSetId, InHand>();
    const done = await this.#member.transaction(async () => {
      taken.clear();
      let room = max;
      while (room > 0) {
        const rows = await this.#member.call('claim.due', destination, now);
        for (const row of rows) {
          if (room === 0) break;
          const { id, set } = await this.#take(row, destination, room);
          taken.set(id, set);
          room -= set.left.length;
        }
        if (rows.length === 0) break;
      }
      const [next] = await this.#member.call('claim.next', destination);
      return next!['due'];
    }, beforeCommit);
    if (done.lost) return { deliveries: [] };
    for (const [id, set] of taken) this.#member.held.set(id, set);
    const deliveries: HeldDelivery[] = [...taken].flatMap(([set, { left, origin }]) =>
      left.map((delivery) => ({ set, delivery, ...(origin === null ? {} : { origin }) })),
    );
    return done.answer == null ? { deliveries } : { deliveries, nextDueAt: Number(done.answer) };
  }

  async #take(row: Row, destination: number, room: number): Promise<{ id: PendingSetId; set: InHand }> {
    const [id, due, since] = [Number(row['id']), Number(row['due']), Number(row['since'])];
    const origin = row['origin'] ?? null;
    const { taken, rest } = splitSet(bytesOf(row['refs']!), room);
    if (rest === undefined) {
      await this.#member.call('claim.hold', this.#member.id, [id]);
      return { id, set: { destination, origin, since, edits: Number(row['edits']), left: taken } };
    }
    await this.#member.leave([{ id, since, left: decodeSet(rest) }]);
    const [own] = await this.#member.owe([
      { destination, owner: this.#member.id, due, since, origin, deliveries: taken },
    ]);
    return { id: own!, set: { destination, origin, since, edits: 0, left: taken } };
  }

  async settle(results: readonly DeliveryResult[], beforeCommit?: BeforeCommit): Promise<SettleResult> {
    const now = new Map<PendingSetId, InHand>();
    let known: PendingSetId[] = [];
    const done = await this.#member.transaction(async () => {
      now.clear();
      const { held } = this.#member;
      known = [...new Set(results.map(({ set }) => set))].filter((set) => held.has(set));
      const edits = known.map((set) => held.get(set)!.edits);
      for (const row of await this.#member.call('settle.mine', this.#member.id, known, edits)) {
        const before = held.get(Number(row['id']))!;
        const left = row['refs'] == null ? [...before.left] : decodeSet(bytesOf(row['refs']));
        now.set(Number(row['id']), { ...before, left, edits: Number(row['edits']) + 1 });
      }
      return await this.#conclude(results, now);
    }, beforeCommit);
    for (const set of known) {
      const after = now.get(set);
      if (done.lost || after === undefined || after.left.length === 0) this.#member.held.delete(set);
      else this.#member.held.set(set, after);
    }
    return { ignored: done.lost ? results.length : done.answer };
  }

  async #conclude(
    results: readonly DeliveryResult[],
    sets: ReadonlyMap<PendingSetId, InHand>,
  ): Promise<number> {
    const valid = results.filter(({ set, destination, position }) => {
      const mine = sets.get(set);
      const at = mine?.left.findIndex((delivery) => delivery.position === position) ?? -1;
      if (mine === undefined || mine.destination !== destination || at < 0) return false;
      mine.left.splice(at, 1);
      return true;
    });
    const [retries, dead]: [NewSet[], Dead[]] = [[], []];
    for (const { set, destination, position, decision, attempts } of valid) {
      const { origin } = sets.get(set)!;
      const last = attempts.at(-1);
      const at = last === undefined ? 0 : Math.round(last.startedAt + last.latencyMs);
      if (decision.kind === 'retry') {
        const { at: due, next } = decision;
        const since = next.firstFailedAt ?? due;
        retries.push({ destination, owner: null, due, since, origin, deliveries: [next] });
      } else if (decision.kind === 'dead') {
        dead.push({
          destination,
          at,
          reason: decision.reason,
          origin,
          deliveries: [{ position, rounds: 0 }],
        });
      }
    }
    await this.#member.leave([...sets].map(([id, { since, left }]) => ({ id, since, left })));
    await this.#member.owe(retries);
    await this.#member.bury(dead);
    await this.#keepAttempts(valid);
    const delivered = valid.filter(({ decision }) => decision.kind === 'delivered');
    await this.#member.count(
      delivered.map(({ destination }) => ['destination', destination, 'delivered', 1] as const),
    );
    return results.length - valid.length;
  }

  async #keepAttempts(results: readonly DeliveryResult[]): Promise<void> {
    const rows = results.flatMap(({ position, destination, attempts }) =>
      attempts.flatMap(({ startedAt, latencyMs, endpoint, outcome, answer }): Value[][] => {
        if (outcome.kind === 'accepted') return [];
        const said = answer === undefined ? null : Buffer.from(answer);
        const { reason, status = null } = outcome;
        return [[position, destination, startedAt, latencyMs, endpoint, reason, status, said]];
      }),
    );
    if (rows.length > 0)
      await this.#member.call('settle.attempts', ...rows[0]!.map((_, at) => rows.map((row) => row[at]!)));
  }

  async release(destination: number, now: Time): Promise<number> {
    const done = await this.#member.transaction(() => this.#member.call('release.all', destination, now));
    return done.lost ? 0 : Number(done.answer[0]!['n']);
  }

  async expire(destination: number, before: Time, reason: string): Promise<number> {
    for (;;) {
      const done = await this.#member.transaction(async () => {
        const rows = await this.#member.call('expire.old', destination, before);
        const dead: Dead[] = [];
        const sets = rows.map((row) => {
          const [id, due] = [Number(row['id']), Number(row['due'])];
          const all = decodeSet(bytesOf(row['refs']!));
          const isOld = (one: Delivery) => (one.firstFailedAt ?? due) < before;
          const deliveries = all.filter(isOld);
          const origin = row['origin'] ?? null;
          if (deliveries.length > 0) dead.push({ destination, at: before, reason, origin, deliveries });
          const left = all.filter((one) => !isOld(one));
          return { id, left, since: Math.min(...left.map((one) => one.firstFailedAt ?? due)) };
        });
        await this.#member.leave(sets);
        await this.#member.bury(dead);
        return { rows: rows.length, n: dead.reduce((sum, { deliveries }) => sum + deliveries.length, 0) };
      });
      if (done.lost) return 0;
      if (done.answer.n > 0 || done.answer.rows === 0) return done.answer.n;
    }
  }

  async owe(slice: ReplaySlice): Promise<ReplayProgress> {
    const { origin, destinations, positions, from, to, now } = slice;
    const done = await this.#member.transaction(async () => {
      await this.#member.call('owe.begin', origin);
      const moved = await this.#member.call('owe.move', origin, from, to, positions.length);
      if (moved.length > 0 && positions.length > 0) {
        const deliveries = positions.map((position) => ({ position, rounds: 0 }));
        const set = { owner: null, due: now, since: now, origin, deliveries };
        await this.#member.owe(destinations.map((destination) => ({ destination, ...set })));
        const owed = destinations.map((id) => ['destination', id, 'owed', positions.length] as const);
        await this.#member.count(owed);
      }
      return await this.#member.call('owe.standing', origin);
    });
    const rows = done.lost ? [] : done.answer;
    const pending = rows.filter((row) => row['destination'] != null);
    return {
      ...{ cursor: Number(rows[0]?.['cursor'] ?? 0), events: Number(rows[0]?.['events'] ?? 0) },
      pending: new Map(pending.map((row) => [Number(row['destination']), Number(row['n'])])),
    };
  }

  async adopt(): Promise<number> {
    const done = await this.#member.transaction(async () => {
      await this.#member.call('adopt.alone');
      await this.#member.call('adopt.gone');
      const [parked] = await this.#member.call('adopt.park');
      await this.#member.call('adopt.fold');
      return Number(parked!['n']);
    });
    return done.lost ? 0 : done.answer;
  }

  async lanes(): Promise<QueueStats[]> {
    const done = await this.#member.transaction(() => this.#member.call('lanes.all'));
    const rows = done.lost ? [] : done.answer;
    return rows.map((row) => {
      const [held, retrying] = [Number(row['held']), Number(row['retrying'])];
      const stat = { destination: Number(row['destination']), held, retrying };
      const onDisk = Number(row['on_disk']);
      return row['next_due'] == null
        ? { ...stat, onDisk }
        : { ...stat, onDisk, nextDueAt: Number(row['next_due']) };
    });
  }

  async ledger(): Promise<Ledger> {
    const rows = await this.#member.call('ledger.all');
    const pending = rows.filter(({ name }) => name === 'pending');
    const counters = rows.filter(({ name }) => name !== 'pending');
    return ledgerOf({
      counters: counters.map((row) => ({
        scope: row['scope'] as 'source' | 'destination',
        id: Number(row['id']),
        name: row['name']!,
        value: Number(row['value']),
      })),
      pending: pending.map((row) => ({ destination: Number(row['id']), n: Number(row['value']) })),
    });
  }
}
