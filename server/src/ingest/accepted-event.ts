import type { Event } from '../model/event.ts';
import type { JsonLine, SerializedEvent } from '../model/serialized-event.ts';
import type { Source } from '../model/settings.ts';
import type { Duration, Monotonic } from '../model/time.ts';
import type { IdRanges, NewEvent } from '../ports/event-log.ts';

/** The line of an event, and facts about it that would otherwise need the parsed event. */
export interface EventLine extends JsonLine, IdRanges {
  readonly bytes: Buffer;
  /** Unknown when 0: the event then exists as an object, and its ids are read from that. */
  readonly idTo: number;
  /** The userId is escaped or not ASCII. Its text must then be read with `JSON.parse`. */
  readonly isUserEscaped: boolean;
  /** True when neither the call nor its batch has a key in `integrations`. False also when this was not checked. */
  readonly hasNoIntegrations: boolean;
  /** Its timestamp is not corrected, because the client's clock is too far off. */
  readonly isSkewed: boolean;
}

interface EventIds {
  readonly messageId: string;
  readonly userId?: string | undefined;
}

/** A buffer may be up to so many times as long as the line for whose sake it is kept in memory. */
const MAX_BUFFER_RATIO = 4;

/** Offset of the messageId in every line. */
export const MESSAGE_ID_OFFSET = '{"messageId":"'.length;

/**
 * A call that became an event, as the line that is stored. The object and the texts of its ids are made when first read:
 * parsing costs more than the rest of receiving, and an event that no destination takes is never read.
 */
export class AcceptedEvent implements NewEvent, SerializedEvent {
  /** Where the call came from. */
  readonly origin: Source;
  readonly line: EventLine;
  /** Set when the event is committed. */
  arrivedAt: Monotonic = 0;
  #ids: EventIds | undefined;
  #event: Event | undefined;

  constructor(origin: Source, line: EventLine, event?: Event) {
    this.origin = origin;
    this.line = line;
    this.#ids = event;
    this.#event = event;
  }

  get source(): number {
    return this.origin.id;
  }

  get dedupeWindow(): Duration | undefined {
    return this.origin.dedupeWindow;
  }

  get messageId(): string {
    this.#ids ??= idsIn(this.line);
    return this.#ids.messageId;
  }

  get userId(): string | undefined {
    this.#ids ??= idsIn(this.line);
    return this.#ids.userId;
  }

  get idRanges(): IdRanges | undefined {
    const { line } = this;
    return line.idTo === 0 || line.isUserEscaped ? undefined : line;
  }

  /** The same event for a delivery. Copies the line out of a much larger buffer, which a waiting event would keep in memory. */
  detached(arrivedAt: Monotonic): SerializedEvent {
    this.arrivedAt = arrivedAt;
    if (this.line.bytes.length <= MAX_BUFFER_RATIO * this.length) return this;
    const copy = new AcceptedEvent(this.origin, copyOf(this.line));
    copy.arrivedAt = arrivedAt;
    copy.#ids = this.#ids;
    copy.#event = this.#event;
    return copy;
  }

  /** Bytes of the line. */
  get length(): number {
    return this.line.to - this.line.from;
  }

  /** `JSON.stringify(event)`: a fixed point, parsing and writing it again gives the same text. */
  get json(): string {
    const { bytes, from, to } = this.line;
    return bytes.toString('utf8', from, to);
  }

  get event(): Event {
    this.#event ??= JSON.parse(this.json) as Event;
    return this.#event;
  }
}

/** An event that exists as an object already. `json` is its text. */
export function acceptEvent(source: Source, event: Event, json: string): AcceptedEvent {
  const bytes = Buffer.from(json);
  const line = {
    bytes,
    from: 0,
    to: bytes.length,
    idFrom: 0,
    idTo: 0,
    userFrom: 0,
    userTo: 0,
    isUserEscaped: false,
    hasNoIntegrations: false,
    isSkewed: false,
  };
  return new AcceptedEvent(source, line, event);
}

function idsIn({ bytes, idFrom, idTo, userFrom, userTo, isUserEscaped }: EventLine): EventIds {
  const messageId = bytes.toString('latin1', idFrom, idTo);
  if (userTo === 0) return { messageId, userId: undefined };
  if (!isUserEscaped) return { messageId, userId: bytes.toString('latin1', userFrom, userTo) };
  return { messageId, userId: JSON.parse(bytes.toString('utf8', userFrom - 1, userTo + 1)) as string };
}

/** The line in a buffer of its own. */
function copyOf(line: EventLine): EventLine {
  const { bytes, from, to, idFrom, idTo, userFrom, userTo } = line;
  return {
    bytes: Buffer.from(bytes.subarray(from, to)),
    from: 0,
    to: to - from,
    idFrom: idTo === 0 ? 0 : idFrom - from,
    idTo: idTo === 0 ? 0 : idTo - from,
    userFrom: userTo === 0 ? 0 : userFrom - from,
    userTo: userTo === 0 ? 0 : userTo - from,
    isUserEscaped: line.isUserEscaped,
    hasNoIntegrations: line.hasNoIntegrations,
    isSkewed: line.isSkewed,
  };
}
