import type { DatabaseSync } from 'node:sqlite';
import type { Position } from '../../model/event.ts';
import type { Duration, Time } from '../../model/time.ts';
import type { ClockMark } from '../../ports/clock.ts';
import { InstallationFacts } from './installation.ts';

/** How far maintenance has come; kept with the rest, so that a restart goes on where it was. */
export class Marks {
  readonly #facts: InstallationFacts;
  #sealedTo: Position;
  #retainedFrom: Position;
  #keysFrom: Position;
  #verifyBegan: Time;
  #verifiedTo: Position;
  /** Rows of lower positions may stand without checksums: format 1 wrote them. */
  readonly sumsFrom: Position;
  #clocks: ClockMark | undefined;
  #clocksWritten: ClockMark | undefined;

  constructor(database: DatabaseSync) {
    this.#facts = new InstallationFacts(database);
    // From the beginning is always right, only slower: maintenance comes by again, and changes nothing twice.
    const read = (name: string, otherwise = 0) => {
      const value = this.#facts.number(name) ?? 0;
      return value === 'damaged' ? otherwise : value;
    };
    this.#sealedTo = read('sealed_to');
    this.#retainedFrom = read('retained_from');
    this.#keysFrom = read('keys_from');
    this.#verifyBegan = read('verify_began');
    this.#verifiedTo = read('verified_to');
    this.sumsFrom = read('sums_from', Number.POSITIVE_INFINITY);
    this.#clocks = clocksIn(database);
    this.#clocksWritten = this.#clocks;
  }

  /** The clocks as they were told last. */
  set clocks(mark: ClockMark) {
    this.#clocks = mark;
    // Setting the wall clock is worth a commit of its own; otherwise this rides along with the next one.
    if (aheadIn(mark) !== aheadIn(this.#clocksWritten)) this.writeClocks();
  }

  writeClocks(): void {
    if (this.#clocks === undefined || this.#clocks === this.#clocksWritten) return;
    this.#facts.put(CLOCKS, Buffer.from(JSON.stringify(this.#clocks)));
    this.#clocksWritten = this.#clocks;
  }

  /** Keys of events below are nowhere any more. */
  get keysFrom(): Position {
    return this.#keysFrom;
  }

  set keysFrom(position: Position) {
    this.#keysFrom = position;
    this.#facts.put('keys_from', position);
  }

  /** When upkeep began to look through everything stored the last time, and how far it has come; 0: to the end. */
  get verifyBegan(): Time {
    return this.#verifyBegan;
  }

  set verifyBegan(time: Time) {
    this.#verifyBegan = time;
    this.#facts.put('verify_began', time);
  }

  get verifiedTo(): Position {
    return this.#verifiedTo;
  }

  set verifiedTo(position: Position) {
    this.#verifiedTo = position;
    this.#facts.put('verified_to', position);
  }

  /** Chunks below are merged. */
  get sealedTo(): Position {
    return this.#sealedTo;
  }

  set sealedTo(position: Position) {
    this.#sealedTo = position;
    this.#facts.put('sealed_to', position);
  }

  /** Events below are past their retention; what is left of them is kept for its dead letters. */
  get retainedFrom(): Position {
    return this.#retainedFrom;
  }

  set retainedFrom(position: Position) {
    this.#retainedFrom = position;
    this.#facts.put('retained_from', position);
    if (this.#sealedTo < position) this.sealedTo = position;
  }
}

const CLOCKS = 'clocks';

/** How the clocks stood when that was written the last time; as good as never written where it is damaged. */
export function clocksIn(database: DatabaseSync): ClockMark | undefined {
  const written = new InstallationFacts(database).bytes(CLOCKS);
  if (written === undefined || written === 'damaged') return undefined;
  return JSON.parse(Buffer.from(written).toString()) as ClockMark;
}

function aheadIn(mark: ClockMark | undefined): Duration | undefined {
  return mark?.steps.at(-1)?.ahead;
}
