import type { Position } from '../../src/model/event.ts';
import type { DestinationCounts, Ledger, SourceCounts } from '../../src/model/ledger.ts';
import type { CallCounts } from '../../src/ports/event-log.ts';
import type { DestinationCounters, MemoryContents, MemoryDeadLetter, SourceCounters } from './contents.ts';

/** The running counts of a source, made at first sight of it. */
export function countersOfSource(contents: MemoryContents, source: number): SourceCounters {
  const known = contents.sources.get(source);
  if (known !== undefined) return known;
  const tally = { received: 0, accepted: 0, duplicates: 0, discarded: new Map<string, number>() };
  contents.sources.set(source, tally);
  return tally;
}

/** The running counts of a destination, made at first sight of it. */
export function countersOfDestination(contents: MemoryContents, destination: number): DestinationCounters {
  const known = contents.destinations.get(destination);
  if (known !== undefined) return known;
  const tally = {
    owed: 0,
    delivered: 0,
    dead: new Map<string, number>(),
    erased: 0,
    skipped: new Map<string, number>(),
  };
  contents.destinations.set(destination, tally);
  return tally;
}

/** A reason that never happened is left out of the ledger, so zeros are not written. */
export function addCount(counts: Map<string, number>, reason: string, count: number): void {
  if (count > 0) counts.set(reason, (counts.get(reason) ?? 0) + count);
}

/**
 * Gives up deliveries that have left their set. Whoever does so calls this and not `add`: it also notes which events the
 * dead letters are about, because those stay readable longer than others.
 */
export function addDeadLetters(
  contents: MemoryContents,
  { destination, reason, at, origin }: Omit<MemoryDeadLetter, 'position'>,
  positions: readonly Position[],
): void {
  addCount(countersOfDestination(contents, destination).dead, reason, positions.length);
  for (const position of positions) {
    contents.letters.push({ destination, position, reason, at, origin });
    if (contents.events.has(position)) contents.dead.add(position);
  }
}

/** Adds what the parser saw. */
export function addReceived(contents: MemoryContents, received: CallCounts): void {
  const tally = countersOfSource(contents, received.source);
  tally.received += received.calls;
  for (const [reason, count] of Object.entries(received.discarded)) addCount(tally.discarded, reason, count);
}

/** The whole ledger as it stands. `pending` comes from the sets, so that the balance checks the tallies. */
export function ledgerOf(contents: MemoryContents): Ledger {
  const sources = new Map<number, SourceCounts>();
  for (const [id, tally] of contents.sources) {
    sources.set(id, { ...tally, discarded: Object.fromEntries(tally.discarded) });
  }
  const pending = new Map<number, number>();
  for (const set of contents.sets.values()) {
    pending.set(set.destination, (pending.get(set.destination) ?? 0) + set.deliveries.size);
  }
  const destinations = new Map<number, DestinationCounts>();
  for (const id of new Set([...contents.destinations.keys(), ...pending.keys()])) {
    const tally = contents.destinations.get(id);
    destinations.set(id, {
      owed: tally?.owed ?? 0,
      delivered: tally?.delivered ?? 0,
      pending: pending.get(id) ?? 0,
      dead: Object.fromEntries(tally?.dead ?? []),
      erased: tally?.erased ?? 0,
      skipped: Object.fromEntries(tally?.skipped ?? []),
    });
  }
  return { sources, destinations };
}
