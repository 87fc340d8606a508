import type { Position } from '../../../model/event.ts';
import type { ErasedCounts } from '../../../model/regulation.ts';
import { eventLine, redactEvents } from '../../encoding/chunk-lines.ts';
import { type EraseAnswer, type EraseMessage, isDeleteNotification } from '../../encoding/erasure-slices.ts';
import type { LedgerTable } from '../ledger-table.ts';
import type { QueueTables } from '../queue/queue-tables.ts';
import type { Chunks } from './chunks.ts';

/** Chunks rewritten in one transaction: some thirty milliseconds for which commits wait. */
const SLICE_CHUNKS = 16;

export interface EventEraserDependencies {
  readonly chunks: Chunks;
  readonly queue: QueueTables;
  readonly ledger: LedgerTable;
  /** Adds to the receipt of a regulation. */
  readonly countErased: (regulation: string, counts: ErasedCounts) => void;
}

/** Erases events with everything that is owed of them, a slice at a time inside the caller's transaction. */
export class EventEraser {
  readonly #dependencies: EventEraserDependencies;

  constructor(dependencies: EventEraserDependencies) {
    this.#dependencies = dependencies;
  }

  erase({ positions, keepsNotifications, regulation }: EraseMessage): EraseAnswer {
    const { queue, countErased } = this.#dependencies;
    const { taken, gone, byChunk } = this.#slice(positions, keepsNotifications);
    const counts = { events: 0, deliveries: 0, deadLetters: 0 };
    for (const [first, those] of byChunk) counts.events += this.#redact(first, those);
    counts.deliveries = this.#takeOut(gone);
    counts.deadLetters = queue.deadLetters.erase(gone);
    queue.failedAttempts.erase(gone);
    if (regulation !== undefined) countErased(regulation, counts);
    return { taken, gone: [...gone], ...counts };
  }

  /** The first positions, of a few chunks: all that are to go, and those with an event by chunk. */
  #slice(positions: Float64Array, keepsNotifications: boolean) {
    const { chunks } = this.#dependencies;
    const gone = new Set<Position>();
    const byChunk = new Map<Position, Set<Position>>();
    let [taken, wiped] = [0, 0];
    for (const position of positions) {
      const chunk = chunks.at(position);
      if (chunk === undefined) {
        if (byChunk.size + wiped >= SLICE_CHUNKS) break;
        // The bytes of a damaged chunk may still show what a person did. Its other events cannot be read
        // either.
        if (chunks.isDamaged(position)) {
          chunks.wipe(position);
          wiped++;
        }
        gone.add(position);
      } else {
        let those = byChunk.get(chunk.first);
        if (those === undefined && byChunk.size + wiped >= SLICE_CHUNKS) break;
        const line = eventLine(chunk, position);
        if (!keepsNotifications || !isDeleteNotification(line)) {
          gone.add(position);
          if (line.length > 0) {
            those ??= new Set();
            those.add(position);
            byChunk.set(chunk.first, those);
          }
        }
      }
      taken++;
    }
    return { taken, gone, byChunk };
  }

  #redact(first: Position, those: ReadonlySet<Position>): number {
    const { chunks } = this.#dependencies;
    const chunk = chunks.at(first);
    if (chunk === undefined) return 0;
    const redacted = redactEvents(chunk, (position) => those.has(position));
    chunks.put(chunk.first, redacted, chunk.stage, chunk.batchAnswer);
    return those.size;
  }

  #takeOut(gone: ReadonlySet<Position>): number {
    const { queue, ledger } = this.#dependencies;
    let deliveries = 0;
    for (const [destination, n] of queue.pending.erase(gone)) {
      ledger.add('destination', destination, 'erased', n);
      deliveries += n;
    }
    return deliveries;
  }
}
