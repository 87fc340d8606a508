import { type CallType, isCallType, type Position } from '../model/event.ts';
import { isObject, type JsonObject } from '../model/json.ts';
import { idText, LineIds } from '../model/line-ids.ts';
import { type Duration, type Monotonic, SECOND, type Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { LogPage, LogReader } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';
import type { UsersSettings } from './contract.ts';
import type { EventCause } from './identity/identity-graph.ts';
import type { EventIdentities, IdentityReader } from './identity/identity-reader.ts';
import { consentedIn } from './identity/profile-consent.ts';
import { ANONYMOUS, USER } from './identity/profile-state.ts';

/** A stored event as far as profiles need it. */
export interface LogEvent extends EventCause {
  readonly type: CallType;
  /** The name of the tracked action, the page or the screen; empty where it has none. */
  readonly name: string;
  readonly properties: JsonObject;
  /** Traits that an identify call sets; empty for every other call. */
  readonly traits: JsonObject;
  readonly groupId: string | undefined;
  /** Categories of consent, where the event names preferences. */
  readonly consented: readonly string[] | undefined;
  readonly ids: EventIdentities;
}

/** The events of a page of the log. */
export interface ReadEvents {
  readonly events: readonly LogEvent[];
  /**
   * Number of lines that are no event: their bytes have changed although their checksum holds, or a newer
   * version wrote them.
   */
  readonly unreadable: number;
}

const NOTHING: JsonObject = {};

/**
 * The events of a page that count for profiles: erased and damaged ones do not, nor do those of `ownSource`,
 * which are made of profiles, and those of shadows.
 */
export function readEvents(page: LogPage, reader: IdentityReader, settings: ReadSettings): ReadEvents {
  const bytes = bytesOf(page);
  const events: LogEvent[] = [];
  let unreadable = 0;
  for (let line = 0; line < page.sources.length; line++) {
    const event = readLine({ page, line, bytes }, reader, settings);
    if (event === 'unreadable') unreadable++;
    else if (event !== undefined) events.push(event);
  }
  return { events, unreadable };
}

/**
 * How long events wait whose source is not in the settings yet. A node hears of the settings of others within
 * 8 seconds.
 */
const UNKNOWN_WAIT: Duration = 30 * SECOND;

/**
 * Delays events of a source that another node has added, because this node learns the trust of the source
 * only seconds later. After half a minute they count as those of a client source: by then somebody would miss
 * them.
 */
export class UnknownSources {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #logger: Logger;
  /** The event that waits, and since when. */
  #waiting: { readonly position: Position; readonly since: Monotonic } | undefined;
  /** Highest id of a source that was waited for without success. */
  #givenUpTo = 0;

  constructor({ clock, logger }: { readonly clock: Pick<Clock, 'monotonic'>; readonly logger: Logger }) {
    this.#clock = clock;
    this.#logger = logger;
  }

  /** The page up to the first event that has to wait. */
  before(page: LogPage, settings: Pick<UsersSettings, 'newestSource'>): LogPage {
    const { newestSource = Number.POSITIVE_INFINITY } = settings;
    const known = upToNewer(page, Math.max(newestSource, this.#givenUpTo));
    if (known === page) return page;
    const now = this.#clock.monotonic();
    if (this.#waiting?.position !== known.next) this.#waiting = { position: known.next, since: now };
    if (now - this.#waiting.since < UNKNOWN_WAIT) return known;
    const source = page.sources[known.sources.length]!;
    this.#logger.warn({ source }, 'profiles.unknown_source');
    this.#givenUpTo = source;
    return this.before(page, settings);
  }
}

/** A page up to its first event of a source that is newer than this one. */
function upToNewer(page: LogPage, newestSource: number): LogPage {
  const lines = page.sources.findIndex((source) => source > newestSource);
  if (lines < 0) return page;
  const { starts, sources, times } = page;
  return {
    ...page,
    starts: starts.subarray(0, lines + 1),
    sources: sources.subarray(0, lines),
    times: times.subarray(0, lines),
    next: page.first + lines,
  };
}

/**
 * The events of a page that have one of these texts as their userId, anonymousId or previousId. What cannot
 * be read is left out.
 */
export function readEventsOf(
  ids: ReadonlySet<string>,
  page: LogPage,
  reader: IdentityReader,
  settings: ReadSettings,
): LogEvent[] {
  const bytes = bytesOf(page);
  const { starts, sources } = page;
  const events: LogEvent[] = [];
  for (let line = 0; line < sources.length; line++) {
    // Only the lines of these ids are parsed.
    if (lineIds.scan(bytes, starts[line]!, starts[line + 1]! - 1) && !namesOneOf(ids, bytes)) continue;
    const event = readLine({ page, line, bytes }, reader, settings);
    if (event !== undefined && event !== 'unreadable') events.push(event);
  }
  return events;
}

/** The event at a position; undefined when it is not stored, or cannot be read. */
export async function readEventAt(
  position: Position,
  log: Pick<LogReader, 'page'>,
  reader: IdentityReader,
): Promise<LogEvent | undefined> {
  const page = await log.page(position, 1);
  const line = position - page.first;
  if (line < 0 || line >= page.sources.length) return undefined;
  const event = readLine({ page, line, bytes: bytesOf(page) }, reader, { serverSources: [] });
  return event === 'unreadable' ? undefined : event;
}

type ReadSettings = Pick<UsersSettings, 'ownSource' | 'serverSources' | 'shadows'>;

const lineIds = new LineIds();

/** Tells whether the last scanned line names one of these ids. */
function namesOneOf(ids: ReadonlySet<string>, bytes: Buffer): boolean {
  const { userFrom, userTo, anonymousFrom, anonymousTo, previousFrom, previousTo } = lineIds;
  return (
    (userTo > 0 && ids.has(idText(bytes, userFrom, userTo))) ||
    (anonymousTo > 0 && ids.has(idText(bytes, anonymousFrom, anonymousTo))) ||
    (previousTo > 0 && ids.has(idText(bytes, previousFrom, previousTo)))
  );
}

function bytesOf({ lines }: LogPage): Buffer {
  return Buffer.from(lines.buffer, lines.byteOffset, lines.byteLength);
}

interface PageLine {
  readonly page: LogPage;
  readonly line: number;
  /** Bytes of the page. */
  readonly bytes: Buffer;
}

function readLine(
  { page, line, bytes }: PageLine,
  reader: IdentityReader,
  { ownSource, serverSources, shadows }: ReadSettings,
): LogEvent | undefined | 'unreadable' {
  const from = page.starts[line]!;
  const to = page.starts[line + 1]! - 1;
  const source = page.sources[line]!;
  if (to <= from || source === ownSource || shadows?.includes(source) === true) return undefined;
  return readEvent(bytes.toString('utf8', from, to), reader, {
    position: page.first + line,
    source,
    isPublic: !serverSources.includes(source),
  });
}

/** Undefined for a notification, which is no call of a client. */
function readEvent(
  text: string,
  reader: IdentityReader,
  origin: Pick<EventCause, 'position' | 'source' | 'isPublic'>,
): LogEvent | undefined | 'unreadable' {
  const event = parse(text);
  if (event === undefined) return 'unreadable';
  const { messageId, type, groupId } = event;
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
    name: typeof name === 'string' ? name : '',
    properties: propertiesOf(event),
    traits,
    consented: consentedOf(event),
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

function consentedOf({ context }: JsonObject): readonly string[] | undefined {
  return isObject(context) ? consentedIn(context) : undefined;
}

function parse(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Time at which the event happened; its time of arrival if it lies in the future. */
function timeOf({ timestamp, receivedAt }: JsonObject): Time {
  if (timestamp === receivedAt) return Date.parse(timestamp as string);
  return Math.min(Date.parse(timestamp as string), Date.parse(receivedAt as string));
}

/**
 * Properties of the event. Some clients send those of a page or a screen as `traits`. spec/specification.md,
 * "Meaning of the types".
 */
function propertiesOf({ type, properties, traits }: JsonObject): JsonObject {
  const own = isObject(properties) ? properties : NOTHING;
  const isView = type === 'page' || type === 'screen';
  return isView && isObject(traits) ? { ...traits, ...own } : own;
}

/** The traits of an identify call. Some libraries put them into the context. */
function traitsOf({ traits, context }: JsonObject): JsonObject {
  const own = isObject(traits) ? traits : NOTHING;
  const aside = isObject(context) ? context['traits'] : undefined;
  return isObject(aside) ? { ...aside, ...own } : own;
}
