import type { DatabaseSync } from 'node:sqlite';
import type { Producer } from '../../../ports/event-log.ts';
import { InstallationFacts } from '../installation.ts';

/**
 * The highest number that each producer has appended, written in the transaction of its batch. There are two or three producers,
 * so each number is a fact of the installation, with a checksum.
 *
 * A damaged number counts as 0: the events are then recognised by their messageIds, for as long as those are remembered. An event
 * too many is better than one too few.
 */
export class ProducerSequences {
  readonly #facts: InstallationFacts;

  constructor(database: DatabaseSync) {
    this.#facts = new InstallationFacts(database);
  }

  highest(producer: string): number {
    const value = this.#facts.number(factOf(producer));
    return value === undefined || value === 'damaged' ? 0 : value;
  }

  /** Moves the number of the batch's producer. The number of events at the beginning of the batch that it had appended before. */
  advance(producer: Producer, events: number): number {
    const highest = this.highest(producer.name);
    const last = producer.sequence + events - 1;
    if (last > highest) this.#facts.put(factOf(producer.name), last);
    return Math.min(events, Math.max(0, highest - producer.sequence + 1));
  }
}

function factOf(producer: string): string {
  return `producer:${producer}`;
}
