import type { Event } from '../model/event.ts';
import type { JsonLine, SerializedEvent } from '../model/serialized-event.ts';
import type { Source } from '../model/source.ts';
import type { Duration, Monotonic } from '../model/time.ts';
import type { IdRanges, NewEvent } from '../ports/event-log.ts';
import type { EncodedEvent } from './fast-path/encoder.ts';

/** Where an event is written, and what is known of it without reading its line. */
interface SerializedParts extends JsonLine {
  /** Where its messageId ends, both ids being ASCII without escapes; 0 where they are given as texts. */
  readonly idTo: number;
  /** Where its userId begins and ends; 0 where it has none. */
  readonly userFrom: number;
  readonly userTo: number;
  /** Its call said nothing of where it may go: no word on integrations. */
  readonly isUndirected: boolean;
}

interface Ids {
  readonly messageId: string;
  readonly userId?: string | undefined;
}

/** As many times its own length may be kept for the sake of one line. */
const MAX_BUFFER_RATIO = 4;

/** Where the messageId begins in every line. */
const ID_FROM = '{"messageId":"'.length;

/**
 * A call that became an event, as the line that is stored. The event as an object is made when somebody looks: parsing costs
 * more than all the rest of receiving, and an event that no destination takes is never looked at. So are texts of its ids.
 */
export class AcceptedEvent implements NewEvent, SerializedEvent, JsonLine, IdRanges {
  /** Where the call came from. */
  readonly origin: Source;
  /** Known when it is handed over for its commit. */
  arrivedAt: Monotonic = 0;
  readonly isUndirected: boolean;
  /** Its line, and those of others. */
  readonly bytes: Buffer;
  readonly from: number;
  readonly to: number;
  readonly idTo: number;
  readonly userFrom: number;
  readonly userTo: number;
  #ids: Ids | undefined;
  #event: Event | undefined;

  constructor(origin: Source, written: SerializedParts, ids?: Ids) {
    this.origin = origin;
    this.isUndirected = written.isUndirected;
    this.bytes = written.bytes;
    this.from = written.from;
    this.to = written.to;
    this.idTo = written.idTo;
    this.userFrom = written.userFrom;
    this.userTo = written.userTo;
    this.#ids = ids;
  }

  /** Of an event that has been made as an object. */
  static fromEvent(origin: Source, written: SerializedParts, event: Event): AcceptedEvent {
    const accepted = new AcceptedEvent(origin, written, event);
    accepted.#event = event;
    return accepted;
  }

  get source(): number {
    return this.origin.id;
  }

  get dedupeWindow(): Duration | undefined {
    return this.origin.dedupeWindow;
  }

  get messageId(): string {
    return this.#namedIds.messageId;
  }

  get userId(): string | undefined {
    return this.#namedIds.userId;
  }

  get #namedIds(): Ids {
    this.#ids ??= {
      messageId: this.bytes.toString('latin1', this.idFrom, this.idTo),
      userId: this.userTo === 0 ? undefined : this.bytes.toString('latin1', this.userFrom, this.userTo),
    };
    return this.#ids;
  }

  get idFrom(): number {
    return this.from + ID_FROM;
  }

  get idRanges(): IdRanges | undefined {
    return this.idTo === 0 ? undefined : this;
  }

  /** Itself: one object less for each event. */
  get line(): JsonLine {
    return this;
  }

  /** The same with a copy of its line where that stands among many: what waits for an endpoint must not keep them in memory. */
  detached(arrivedAt: Monotonic): SerializedEvent {
    this.arrivedAt = arrivedAt;
    if (this.bytes.length <= MAX_BUFFER_RATIO * this.length) return this;
    const written = {
      bytes: Buffer.from(this.bytes.subarray(this.from, this.to)),
      from: 0,
      to: this.length,
      idTo: this.idTo === 0 ? 0 : this.idTo - this.from,
      userFrom: this.userTo === 0 ? 0 : this.userFrom - this.from,
      userTo: this.userTo === 0 ? 0 : this.userTo - this.from,
      isUndirected: this.isUndirected,
    };
    const alone = new AcceptedEvent(this.origin, written, this.#ids);
    alone.arrivedAt = arrivedAt;
    alone.#event = this.#event;
    return alone;
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
}

/** An event that has been made as an object. `json` is its text. */
export function acceptEvent(source: Source, event: Event, json: string): AcceptedEvent {
  const bytes = Buffer.from(json);
  const line = { bytes, from: 0, to: bytes.length };
  return AcceptedEvent.fromEvent(source, { ...line, ...NO_ID_RANGES, isUndirected: false }, event);
}

const NO_ID_RANGES = { idTo: 0, userFrom: 0, userTo: 0 };

/** An event that was transcribed. */
export function acceptEncoded(source: Source, written: EncodedEvent): AcceptedEvent {
  if (!written.isUserEscaped) return new AcceptedEvent(source, written);
  const { bytes, from, idTo, userFrom, userTo } = written;
  const messageId = bytes.toString('latin1', from + ID_FROM, idTo);
  const userId = JSON.parse(bytes.toString('utf8', userFrom - 1, userTo + 1)) as string;
  return new AcceptedEvent(source, { ...written, ...NO_ID_RANGES }, { messageId, userId });
}
