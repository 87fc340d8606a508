import type { Position } from '../../model/event.ts';
import type { Duration, Time } from '../../model/time.ts';
import type { LogSize, Retention } from '../../ports/event-log.ts';
import type { Holder, MemoryContents } from './contents.ts';
import { arrivalOf, letGo } from './events.ts';
import { withdraw } from './owed.ts';
import { bury } from './tally.ts';

/** Positions that go in one slice. */
const SLICE = 10_000;

/** When it is, what must go, and whose deliveries are under way. */
export interface Upkeep {
  readonly holder: Holder;
  readonly now: Time;
  readonly retention: Required<Pick<Retention, 'messageIds'>> & Retention;
}

/**
 * Lets go of what is older than its retention, and of the oldest events while there are more bytes than allowed. The log
 * loses events at its front and in order: it stops at the first one that must stay, so what goes is always older in the
 * log than what stays.
 */
export function maintain(contents: MemoryContents, upkeep: Upkeep, budget: Duration): boolean {
  const end = performance.now() + budget;
  do {
    const busy =
      dropOld(contents, upkeep) ||
      dropOldRemnants(contents, upkeep) ||
      dropBeyondSpace(contents, upkeep) ||
      dropOldFailures(contents, upkeep) ||
      dropOldNames(contents, upkeep);
    if (!busy) return false;
  } while (performance.now() < end);
  return true;
}

/** Events past their retention go, except that those of dead letters stay readable. */
function dropOld(contents: MemoryContents, upkeep: Upkeep): boolean {
  const { retainedFrom, lastPosition } = contents;
  const young = upkeep.now - upkeep.retention.events;
  const end = Math.min(lowestHeld(contents, upkeep.holder), lastPosition + 1, retainedFrom + SLICE);
  let cut = retainedFrom;
  while (cut < end && arrivalOf(contents, cut)! < young) cut += 1;
  if (cut === retainedFrom) return false;
  buryBetween(contents, upkeep, [retainedFrom, cut]);
  for (let position = retainedFrom; position < cut; position++) {
    if (!contents.dead.has(position)) letGo(contents, position);
  }
  retainFrom(contents, cut);
  return true;
}

/** What was left only for its dead letters goes when they do. */
function dropOldRemnants(contents: MemoryContents, upkeep: Upkeep): boolean {
  const young = upkeep.now - upkeep.retention.deadLetters;
  const before = contents.events.size;
  for (const [position, { receivedAt }] of contents.events) {
    if (position >= contents.retainedFrom || receivedAt >= young) break;
    buryBetween(contents, upkeep, [position, position + 1]);
    letGo(contents, position);
  }
  return contents.events.size < before;
}

/** The space allowed is a bound for dead letters too: otherwise an outage that fills it would never end. */
function dropBeyondSpace(contents: MemoryContents, upkeep: Upkeep): boolean {
  const { holder, retention } = upkeep;
  let excess = contents.bytes - (retention.disk ?? Number.POSITIVE_INFINITY);
  if (excess <= 0) return false;
  const stop = lowestHeld(contents, holder);
  const going: Position[] = [];
  for (const [position] of contents.events) {
    if (excess <= 0 || position >= stop || going.length === SLICE) break;
    excess -= contents.events.lengthOf(position);
    going.push(position);
  }
  const last = going.at(-1);
  if (last === undefined) return false;
  buryBetween(contents, upkeep, [0, last + 1]);
  for (const position of going) letGo(contents, position);
  retainFrom(contents, last + 1);
  return true;
}

/** The log now begins here, unless it does so further on already. */
function retainFrom(contents: MemoryContents, cut: Position): void {
  for (let position = contents.retainedFrom; position < cut; position++) contents.gaps.delete(position);
  contents.retainedFrom = Math.max(contents.retainedFrom, cut);
}

/** Answers of endpoints are kept as long as the dead letters they explain. */
function dropOldFailures(contents: MemoryContents, { now, retention }: Upkeep): boolean {
  const { retainedFrom } = contents;
  const before = contents.failures.length + contents.letters.length;
  const young = now - retention.deadLetters;
  contents.failures = contents.failures.filter(
    ({ attempt, position }) => attempt.startedAt >= young || position >= retainedFrom,
  );
  contents.letters = contents.letters.filter(({ at, position }) => at >= young || position >= retainedFrom);
  return contents.failures.length + contents.letters.length < before;
}

function dropOldNames(contents: MemoryContents, { now, retention }: Upkeep): boolean {
  const before = contents.pastNames.size;
  for (const [name, at] of contents.pastNames)
    if (at <= now - retention.messageIds) contents.pastNames.delete(name);
  return contents.pastNames.size < before;
}

/** Infinite when this process holds nothing. */
function lowestHeld(contents: MemoryContents, holder: Holder): Position {
  let lowest = Number.POSITIVE_INFINITY;
  for (const set of contents.sets.values()) {
    if (set.holder !== holder) continue;
    for (const position of set.deliveries.keys()) {
      if (position >= contents.retainedFrom) lowest = Math.min(lowest, position);
    }
  }
  return lowest;
}

/** What this process holds is never below the position; what an earlier one held is owed on disk like the rest. */
function buryBetween(
  contents: MemoryContents,
  { holder, now }: Upkeep,
  [from, end]: readonly [Position, Position],
): void {
  const withdrawn = withdraw(
    contents,
    (position) => position >= from && position < end,
    (set) => set.holder !== holder,
  );
  for (const { destination, origin, positions } of withdrawn) {
    bury(contents, { destination, origin, reason: 'retention_over', at: now }, positions);
  }
}

/** What is left of events past their retention is not counted. */
export function sizeOf(contents: MemoryContents): LogSize {
  const { retainedFrom, lastPosition, bytes } = contents;
  const facts = { events: lastPosition - retainedFrom + 1, bytes };
  const oldestAt = arrivalOf(contents, retainedFrom);
  return oldestAt === undefined ? facts : { ...facts, oldestAt };
}
