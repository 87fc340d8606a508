import { type CallType, isCallType } from '../model/event.ts';
import { isObject, type JsonObject } from '../model/json.ts';
import type { Time } from '../model/time.ts';
import type { LogPage } from '../ports/event-log.ts';
import type { UsersSettings } from './contract.ts';
import type { EventCause, EventIdentities, IdentityReader } from './identity/identity-graph.ts';
import { ANONYMOUS, USER } from './identity/profile-state.ts';

/** A stored event as far as profiles need it. */
export interface LogEvent extends EventCause {
  readonly type: CallType;
  /** The name of the tracked action, the page or the screen. */
  readonly name: string | undefined;
  readonly properties: JsonObject;
  /** What an identify call says of the user; empty for every other call. */
  readonly traits: JsonObject;
  readonly groupId: string | undefined;
  readonly ids: EventIdentities;
}

/** The events of a page of the log. */
export interface ReadEvents {
  readonly events: readonly LogEvent[];
  /** Lines that are no event: their bytes have changed although their checksum holds, or a newer version wrote them. */
  readonly unreadable: number;
}

const NOTHING: JsonObject = {};

/**
 * The events of a page that count for profiles: erased and damaged ones do not, nor do those of `ownSource`, which are made of
 * profiles.
 */
export function readEvents(
  page: LogPage,
  reader: IdentityReader,
  { ownSource, serverSources }: Pick<UsersSettings, 'ownSource' | 'serverSources'>,
): ReadEvents {
  const { first, lines, starts, sources } = page;
  const bytes = Buffer.from(lines.buffer, lines.byteOffset, lines.byteLength);
  const events: LogEvent[] = [];
  let unreadable = 0;
  for (let line = 0; line < sources.length; line++) {
    const from = starts[line]!;
    const to = starts[line + 1]! - 1;
    if (to <= from || sources[line] === ownSource) continue;
    const event = readEvent(bytes.toString('utf8', from, to), reader, {
      position: first + line,
      source: sources[line]!,
      isPublic: !serverSources.includes(sources[line]!),
    });
    if (event === 'unreadable') unreadable++;
    else if (event !== undefined) events.push(event);
  }
  return { events, unreadable };
}

/** Undefined for a notification, which is no call of a client. */
function readEvent(
  text: string,
  reader: IdentityReader,
  origin: Pick<EventCause, 'position' | 'source' | 'isPublic'>,
): LogEvent | undefined | 'unreadable' {
  const event = parse(text);
  if (event === undefined) return 'unreadable';
  const { messageId, type, properties, groupId } = event;
  if (typeof messageId !== 'string') return 'unreadable';
  if (!isCallType(type)) return undefined;
  const at = timeOf(event);
  if (Number.isNaN(at)) return 'unreadable';
  const traits = type === 'identify' ? traitsOf(event) : NOTHING;
  const name = type === 'track' ? event['event'] : event['name'];
  const { external, invalid } = reader.external(traits);
  return {
    position: origin.position,
    source: origin.source,
    isPublic: origin.isPublic,
    messageId,
    type,
    at,
    name: typeof name === 'string' ? name : undefined,
    properties: isObject(properties) ? properties : NOTHING,
    traits,
    groupId: type === 'group' && typeof groupId === 'string' ? groupId : undefined,
    ids: {
      user: reader.identity(USER, event['userId']),
      anonymous: reader.identity(ANONYMOUS, event['anonymousId']),
      previous: type === 'alias' ? reader.previous(event['previousId']) : undefined,
      external,
      invalid,
    },
  };
}

function parse(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** When it happened; a time in the future counts as the time of arrival. */
function timeOf({ timestamp, receivedAt }: JsonObject): Time {
  if (timestamp === receivedAt) return Date.parse(timestamp as string);
  return Math.min(Date.parse(timestamp as string), Date.parse(receivedAt as string));
}

/** The traits of an identify call. Some libraries put them into the context. */
function traitsOf({ traits, context }: JsonObject): JsonObject {
  const own = isObject(traits) ? traits : NOTHING;
  const aside = isObject(context) ? context['traits'] : undefined;
  return isObject(aside) ? { ...aside, ...own } : own;
}
