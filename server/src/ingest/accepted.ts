import type { Event } from '../model/event.ts';
import type { Source } from '../model/source.ts';
import type { Duration } from '../model/time.ts';
import type { NewEvent } from '../ports/event-log.ts';

/** What is known of an event without reading its line, and where in the bytes that is. */
interface Place {
  readonly messageId: string;
  readonly userId: string | undefined;
  readonly from: number;
  readonly to: number;
}

/**
 * A call that became an event, as the line that is stored. The event as an object is made when somebody looks: parsing costs
 * more than all the rest of receiving, and an event that no destination takes is never looked at.
 */
export class AcceptedEvent implements NewEvent {
  /** Where the call came from. */
  readonly origin: Source;
  readonly messageId: string;
  readonly userId: string | undefined;
  /** Lines of this event and of others, in UTF-8. */
  readonly #bytes: Buffer;
  readonly #from: number;
  readonly #to: number;
  #event: Event | undefined;

  constructor(origin: Source, bytes: Buffer, { messageId, userId, from, to }: Place, event?: Event) {
    this.origin = origin;
    this.messageId = messageId;
    this.userId = userId;
    this.#bytes = bytes;
    this.#from = from;
    this.#to = to;
    this.#event = event;
  }

  get source(): number {
    return this.origin.id;
  }

  get dedupeWindow(): Duration | undefined {
    return this.origin.dedupeWindow;
  }

  /** Bytes of the line. */
  get length(): number {
    return this.#to - this.#from;
  }

  /** `JSON.stringify(event)`: a fixed point, parsing and writing it again gives the same text. */
  get json(): string {
    return this.#bytes.toString('utf8', this.#from, this.#to);
  }

  get event(): Event {
    this.#event ??= JSON.parse(this.json) as Event;
    return this.#event;
  }

  /** Writes the line, without a line feed; the place behind it. */
  copyTo(bytes: Uint8Array, at: number): number {
    return at + this.#bytes.copy(bytes, at, this.#from, this.#to);
  }
}

/** An event that has been made as an object. `json` is its text. */
export function acceptedEvent(source: Source, event: Event, json: string): AcceptedEvent {
  const bytes = Buffer.from(json);
  const { messageId, userId } = event;
  return new AcceptedEvent(source, bytes, { messageId, userId, from: 0, to: bytes.length }, event);
}
