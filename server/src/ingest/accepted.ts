import type { Event } from '../model/event.ts';
import type { Source } from '../model/source.ts';
import type { Duration, Time } from '../model/time.ts';
import type { Line, WrittenEvent } from '../model/written-event.ts';
import type { NewEvent } from '../ports/event-log.ts';

/** What is known of an event without reading its line. */
interface Known {
  readonly messageId: string;
  readonly userId: string | undefined;
  readonly arrivedAt: Time;
  /** Its call said nothing of where it may go: no word on integrations. */
  readonly isUndirected: boolean;
}

/** As many times its own length may be kept for the sake of one line. */
const AMONG_FEW = 4;

/**
 * A call that became an event, as the line that is stored. The event as an object is made when somebody looks: parsing costs
 * more than all the rest of receiving, and an event that no destination takes is never looked at.
 */
export class AcceptedEvent implements NewEvent, WrittenEvent, Line {
  /** Where the call came from. */
  readonly origin: Source;
  readonly messageId: string;
  readonly userId: string | undefined;
  readonly arrivedAt: Time;
  readonly isUndirected: boolean;
  /** Its line, and those of others. */
  readonly bytes: Buffer;
  readonly from: number;
  readonly to: number;
  #event: Event | undefined;

  constructor(origin: Source, line: Line, known: Known, event?: Event) {
    const { messageId, userId, arrivedAt, isUndirected } = known;
    this.origin = origin;
    this.messageId = messageId;
    this.userId = userId;
    this.arrivedAt = arrivedAt;
    this.isUndirected = isUndirected;
    this.bytes = line.bytes;
    this.from = line.from;
    this.to = line.to;
    this.#event = event;
  }

  get source(): number {
    return this.origin.id;
  }

  get dedupeWindow(): Duration | undefined {
    return this.origin.dedupeWindow;
  }

  /** Itself: one object less for each event. */
  get line(): Line {
    return this;
  }

  /** The same with a copy of its line where that stands among many: what waits for an endpoint must not keep them in memory. */
  alone(): WrittenEvent {
    if (this.bytes.length <= AMONG_FEW * this.length) return this;
    const line = Buffer.from(this.bytes.subarray(this.from, this.to));
    return new AcceptedEvent(this.origin, { bytes: line, from: 0, to: line.length }, this, this.#event);
  }

  /** Bytes of the line. */
  get length(): number {
    return this.to - this.from;
  }

  /** `JSON.stringify(event)`: a fixed point, parsing and writing it again gives the same text. */
  get json(): string {
    return this.bytes.toString('utf8', this.from, this.to);
  }

  get event(): Event {
    this.#event ??= JSON.parse(this.json) as Event;
    return this.#event;
  }

  /** Writes the line, without a line feed; the place behind it. */
  copyTo(bytes: Uint8Array, at: number): number {
    return at + this.bytes.copy(bytes, at, this.from, this.to);
  }
}

/** An event that has been made as an object. `json` is its text. */
export function acceptedEvent(source: Source, event: Event, json: string): AcceptedEvent {
  const bytes = Buffer.from(json);
  const { messageId, userId } = event;
  const arrivedAt = Date.parse(event.receivedAt);
  const line = { bytes, from: 0, to: bytes.length };
  return new AcceptedEvent(source, line, { messageId, userId, arrivedAt, isUndirected: false }, event);
}
