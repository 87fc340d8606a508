import { decodeSet, encodeSet, summaryOf } from '../../src/adapters/encoding/pending-set.ts';
import type { Event, Position } from '../../src/model/event.ts';
import type { Time } from '../../src/model/time.ts';
import type { Retention } from '../../src/ports/event-log.ts';
import { type Chunk, type ClusterLog, chunkOf, hashOf } from './cluster-log.ts';
import { bytesOf, type ClusterMember } from './cluster-member.ts';

/** Most events in one chunk. */
const MAX_EVENTS = 500;

/** Somebody holds a delivery of an event that was to go. */
class StillHeld extends Error {
  readonly first: Position;

  constructor(first: Position) {
    super(`position ${first} is held`);
    this.first = first;
  }
}

/** The statements of upkeep and of erasing, played by one process. */
export class ClusterUpkeep {
  readonly #member: ClusterMember;
  readonly #log: ClusterLog;

  constructor(member: ClusterMember, log: ClusterLog) {
    this.#member = member;
    this.#log = log;
  }

  /** Empties the lines of a user in these slots, and the rows that refer to them. Resolves to their number. */
  async erase(userId: string, slots: readonly number[]): Promise<number> {
    const done = await this.#member.transaction(async () => {
      await this.#member.call('erase.turn');
      const gone = new Map<Position, string>();
      for (const slot of slots) await this.#eraseIn(slot, userId, gone);
      const positions = [...gone.keys()];
      if (positions.length === 0) return 0;
      await this.#member.call('erase.keys', [...gone.values()], positions);
      await this.#member.call('erase.attempts', positions);
      while (await this.#eraseOwed(new Set(positions)));
      return positions.length;
    });
    return done.lost ? 0 : done.answer;
  }

  async #eraseIn(slot: number, userId: string, gone: Map<Position, string>): Promise<void> {
    for (const { first, lines, users, sources } of await this.#log.ofUser(slot, userId)) {
      for (const [nth, line] of lines.entries()) {
        const event = line === '' ? undefined : (JSON.parse(line) as Event);
        if (event?.userId !== userId) continue;
        gone.set(first + nth, hashOf(sources[nth]!, event.messageId));
        [lines[nth], users[nth]] = ['', '0'];
      }
      await this.#member.call('erase.chunk', slot, first, 0, users, Buffer.from(lines.join('\n')));
    }
  }

  /** One round over all sets. True when another must follow, because a process changed a set meanwhile. */
  async #eraseOwed(gone: ReadonlySet<Position>): Promise<boolean> {
    let again = false;
    for (const row of await this.#member.call('erase.sets', Math.max(...gone))) {
      const [id, edits] = [Number(row['id']), Number(row['edits'])];
      const all = decodeSet(bytesOf(row['refs']!));
      const left = all.filter(({ position }) => !gone.has(position));
      if (left.length === all.length) continue;
      const refs = encodeSet(left);
      const [changed] =
        left.length === 0
          ? await this.#member.call('erase.empty', id, edits)
          : await this.#member.call('erase.set', id, edits, summaryOf(refs).first, left.length, refs);
      if (changed === undefined) again = true;
      else
        await this.#member.count([
          ['destination', Number(row['destination']), 'erased', all.length - left.length],
        ]);
    }
    return again;
  }

  /** Makes the next slot and closes the open one. */
  async rotate(next: number): Promise<void> {
    await this.#member.script('maintain.make', next);
    // Not fenced: the fence uses the very gate that is closed here.
    await this.#member.session.run('begin');
    await this.#member.call('maintain.close');
    await this.#member.call('maintain.open', next);
    await this.#member.session.run('commit');
  }

  /** Merges small neighbours of a closed slot that arrived at the same time. Resolves to how many chunks are left. */
  async seal(slot: number): Promise<number> {
    const done = await this.#member.transaction(async () => {
      await this.#member.call('maintain.turn');
      const groups: Chunk[][] = [];
      for (const chunk of (await this.#member.call('maintain.small', slot, 0)).map(chunkOf)) {
        const group = groups.at(-1) ?? [];
        const events = group.reduce((sum, { lines }) => sum + lines.length, chunk.lines.length);
        const last = group.at(-1);
        const isNext = last?.at === chunk.at && last.first + last.lines.length === chunk.first;
        if (isNext && events <= MAX_EVENTS) group.push(chunk);
        else groups.push([chunk]);
      }
      for (const group of groups.filter(({ length }) => length > 1)) {
        const { first, at } = group[0]!;
        const lines = group.flatMap((chunk) => chunk.lines);
        const sources = Buffer.from(JSON.stringify(group.flatMap((chunk) => chunk.sources)));
        const users = group.flatMap((chunk) => chunk.users);
        await this.#member.call(
          'maintain.gone',
          slot,
          group.map((chunk) => chunk.first),
        );
        const facts = [slot, first, lines.length, at, at, 0];
        await this.#member.call(
          'append.chunk',
          ...facts,
          sources,
          null,
          users,
          Buffer.from(lines.join('\n')),
        );
      }
      return groups.length;
    });
    return done.lost ? 0 : done.answer;
  }

  /** Deletes events past their retention. True when there may be more. */
  async retain(now: Time, { events, deadLetters }: Retention): Promise<boolean> {
    await this.#member.transaction(async () => {
      await this.#member.call('maintain.letters', now - deadLetters);
      await this.#member.call('maintain.attempts', now - deadLetters);
      await this.#member.call('maintain.remnants', now - deadLetters);
    });
    let end = Number.MAX_SAFE_INTEGER;
    for (;;) {
      try {
        const done = await this.#member.transaction(() => this.#letGo(now, now - events, end));
        return !done.lost && done.answer;
      } catch (error) {
        if (!(error instanceof StillHeld)) throw error;
        end = error.first;
      }
    }
  }

  async #letGo(now: Time, before: Time, end: Position): Promise<boolean> {
    const [turn] = await this.#member.call('maintain.turn');
    if (turn!['mine'] !== 't') return false;
    // Deliveries held by a dead process must not keep their events for ever.
    await this.#member.call('adopt.alone');
    await this.#member.call('adopt.park');
    const oldest = (await this.#member.call('maintain.oldest')).map((row) => ({
      slot: Number(row['slot']),
      first: Number(row['first']),
      end: Number(row['first']) + Number(row['n']),
      until: Number(row['until']),
    }));
    const stays = oldest.findIndex((chunk) => chunk.until >= before || chunk.end > end);
    const going = stays < 0 ? oldest : oldest.slice(0, stays);
    if (going.length === 0) return false;
    await this.#buryBelow(going.at(-1)!.end, now);
    for (const { slot, first } of going) await this.#letGoOf(slot, first);
    return true;
  }

  async #buryBelow(cut: Position, at: Time): Promise<void> {
    for (const row of await this.#member.call('maintain.owed', cut)) {
      const all = decodeSet(bytesOf(row['refs']!));
      const deliveries = all.filter(({ position }) => position < cut);
      const left = all.filter(({ position }) => position >= cut);
      const destination = Number(row['destination']);
      await this.#member.leave([{ id: Number(row['id']), since: Number(row['since']), left }]);
      if (deliveries.length > 0)
        await this.#member.bury([
          { destination, at, reason: 'retention_over', origin: row['origin'] ?? null, deliveries },
        ]);
    }
    const [held] = await this.#member.call('maintain.held', cut);
    if (held !== undefined) throw new StillHeld(Number(held['first']));
  }

  /** Deletes a chunk, except for the events of dead letters. */
  async #letGoOf(slot: number, first: Position): Promise<void> {
    const [chunk] = await this.#log.chunks([first]);
    const { lines, users, sources } = chunk!;
    const letters = await this.#member.call('maintain.dead', first, first + lines.length);
    const dead = new Set(
      letters.flatMap(({ refs }) => decodeSet(bytesOf(refs!)).map(({ position }) => position)),
    );
    const kept = lines.map((line, nth) => (dead.has(first + nth) ? line : ''));
    if (kept.every((line) => line === '')) {
      await this.#member.call('maintain.gone', slot, [first]);
      return;
    }
    const keptUsers = users.map((user, nth) => (kept[nth] === '' ? '0' : user));
    await this.#member.call('maintain.remnant', slot, first, 0, keptUsers, Buffer.from(kept.join('\n')));
    const positions = kept.flatMap((line, nth) => (line === '' ? [] : [first + nth]));
    const hashes = positions.map((position) => {
      const { messageId } = JSON.parse(lines[position - first]!) as Event;
      return hashOf(sources[position - first]!, messageId);
    });
    await this.#member.call('maintain.remember', slot, hashes, positions);
  }

  /** Drops a closed slot's partitions when they are empty. */
  async drop(slot: number): Promise<boolean> {
    const done = await this.#member.transaction(() => this.#member.call('maintain.empty', slot));
    if (done.lost || done.answer.length === 0) return false;
    await this.#member.script('maintain.drop', slot);
    return true;
  }
}
