import { type Attempt, isFailure } from '../model/delivery.ts';
import { defined } from '../model/json.ts';
import { maskUrl } from '../model/secrets.ts';
import type { JsonLine } from '../model/serialized-event.ts';
import { type Duration, isoTime, type OnWallClock, SECOND, type Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { ResponseStream, StreamClient } from '../ports/control-api.ts';
import type { Activity, CurrentObserver, Observer, ShownDecision } from '../ports/telemetry.ts';
import type {
  OpenTail,
  TailCall,
  TailDelivery,
  TailDiscard,
  TailEvents,
  TailFilter,
  TailOptions,
} from './contract.ts';
import { identityOf } from './event-identity.ts';
import { type SampledKind, sampleKeyOf, sampleKeyOfLine, TailSampler } from './tail-sampler.ts';

function matchesFilter(filter: TailFilter, activity: Activity): boolean {
  const { source, destination, type, failed = false } = filter;
  if (source !== undefined && activity.source !== source) return false;
  if (destination !== undefined && (activity.kind !== 'settled' || activity.destination !== destination))
    return false;
  if (type !== undefined && (activity.kind === 'discarded' || activity.event.type !== type)) return false;
  return !failed || hasFailed(activity);
}

/** The part of the filter that needs no event. */
function matchesNotice(
  { source: wantedSource, destination, failed = false }: TailFilter,
  source: string,
  delivery: { readonly destination: string; readonly isFailure: boolean } | undefined,
): boolean {
  if (wantedSource !== undefined && source !== wantedSource) return false;
  if (destination !== undefined && delivery?.destination !== destination) return false;
  return !failed || delivery?.isFailure === true;
}

function hasFailed(activity: Activity): boolean {
  if (activity.kind === 'settled') return isFailure(activity.decision);
  return activity.kind === 'discarded';
}

interface TailEventFormat {
  readonly at: Time;
  /** True: the event whole. False: its identifying fields. */
  readonly body: boolean;
}

/**
 * One activity as one server-sent event: its kind is the event's name, the data is JSON. spec/contract.md,
 * "Live tail". Events contain neither write keys nor secrets; URLs of endpoints are masked.
 */
function formatTailEvent(activity: Activity, format: TailEventFormat): string {
  switch (activity.kind) {
    case 'discarded':
      return serverSentEvent('discarded', discardData(activity, format));
    case 'settled':
      return serverSentEvent('settled', deliveryData(activity, format));
    default:
      return serverSentEvent(activity.kind, callData(activity, format));
  }
}

/** JSON has no line feed, so the data is one field. */
function serverSentEvent<Name extends keyof TailEvents>(name: Name, data: TailEvents[Name]): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}

function callData(
  call: Extract<Activity, { readonly latencyMs: number }>,
  { at, body }: TailEventFormat,
): TailCall {
  const { source, event, latencyMs } = call;
  return { at: isoTime(at), source, event: body ? event : identityOf(event), latencyMs };
}

function discardData(
  { source, reason }: Extract<Activity, { readonly kind: 'discarded' }>,
  { at }: TailEventFormat,
): TailDiscard {
  return { at: isoTime(at), source, reason };
}

function deliveryData(
  delivery: Extract<Activity, { readonly kind: 'settled' }>,
  { at, body }: TailEventFormat,
): TailDelivery {
  const { source, destination, event, decision, attempts } = delivery;
  return {
    at: isoTime(at),
    source,
    destination,
    event: body ? event : identityOf(event),
    ...stateOfDecision(decision),
    attempts: attempts.map(attemptData),
  };
}

/** In the words of a trace. */
function stateOfDecision(
  decision: ShownDecision,
): Pick<TailDelivery, 'state' | 'reason' | 'note' | 'nextAttemptAt'> {
  switch (decision.kind) {
    case 'delivered':
      return { state: 'delivered' };
    case 'retry':
      return { state: 'retrying', nextAttemptAt: isoTime(decision.at) };
    case 'dead':
      return { state: 'dead', reason: decision.reason };
    case 'dropped':
      return {
        ...{ state: 'dropped', reason: decision.reason },
        ...defined({ note: decision.note }),
      };
  }
}

function attemptData({
  endpoint,
  startedAt,
  latencyMs,
  outcome,
}: OnWallClock<Attempt>): TailDelivery['attempts'][number] {
  const { kind, reason, status } = outcome;
  return {
    endpoint: maskUrl(endpoint),
    startedAt: isoTime(startedAt),
    latencyMs,
    outcome: kind,
    reason,
    ...defined({ status }),
  };
}

/** A discarded call has no event; each is as likely to be shown as any event. */
function sampleOf(activity: Activity): readonly [key: number, kind: SampledKind] {
  if (activity.kind === 'discarded') return [0, 'failure'];
  const key = sampleKeyOf(activity.event.messageId);
  if (activity.kind !== 'settled') return [key, 'call'];
  return [key, hasFailed(activity) ? 'failure' : 'delivery'];
}

/**
 * Characters that may wait for one client: some thousand lines, so that a client that reads survives a large
 * batch.
 */
const MAX_WAITING = 512 * 1024;

const GREETING = ': watching\n\n';
const HEARTBEAT_COMMENT = ': still here\n\n';

/**
 * One connection that watches. The server never waits for it.
 *
 * ```
 *            flush                    write is false
 *   reading ───────▶ text is written ───────────────▶ behind ──drained──▶ reading
 *                                                       │ lines wait, up to a bound; beyond it they are dropped and
 *                                                       └ counted, and a `lost` event takes their place
 * ```
 * The HTTP server closes a connection that reads nothing for a minute.
 */
export class TailClient implements ResponseStream {
  readonly options: TailOptions;
  /** Absent where everything is shown. */
  readonly sampler: TailSampler | undefined;
  readonly #onGone: () => void;
  #client: StreamClient | undefined;
  #waiting = '';
  #lost = 0;
  #isBehind = false;
  #isOver = false;

  constructor(options: TailOptions, onGone: () => void) {
    this.options = options;
    this.#onGone = onGone;
    if (options.max !== undefined) this.sampler = new TailSampler(options.max);
  }

  /** Tells the client how many activities the sampler passed over in the last second. */
  addPassed(): void {
    const count = this.sampler?.nextSecond() ?? 0;
    if (count > 0) this.add(serverSentEvent('passed', { count }));
  }

  /** After a loss everything is lost until the client is told, so that one `lost` event covers one gap. */
  get hasRoom(): boolean {
    return this.#lost === 0 && this.#waiting.length < MAX_WAITING;
  }

  add(line: string): void {
    this.#waiting += line;
  }

  drop(): void {
    this.#lost++;
  }

  flush(): void {
    // Lines wait until the head of the answer is sent.
    if (this.#client === undefined || this.#isBehind) return;
    if (this.#waiting === '' && this.#lost === 0) return;
    const text =
      this.#lost === 0 ? this.#waiting : this.#waiting + serverSentEvent('lost', { count: this.#lost });
    this.#waiting = '';
    this.#lost = 0;
    this.#write(text);
  }

  /** None while the client is behind, so that the HTTP server notices a client that does not read. */
  heartbeat(): void {
    if (!this.options.mayWatch()) this.end();
    else if (!this.#isBehind) this.#write(HEARTBEAT_COMMENT);
  }

  end(): void {
    this.#isOver = true;
    this.#client?.end();
  }

  begin(client: StreamClient): void {
    this.#client = client;
    if (this.#isOver) client.end();
    else this.#write(GREETING);
    this.flush();
  }

  drained(): void {
    this.#isBehind = false;
    this.flush();
  }

  gone(): void {
    this.#isOver = true;
    this.#client = undefined;
    this.#waiting = '';
    this.#onGone();
  }

  #write(text: string): void {
    if (this.#client === undefined || this.#isOver) return;
    if (!this.#client.write(text)) this.#isBehind = true;
  }
}

/** Each client may hold a megabyte of text in memory. */
const MAX_CLIENTS = 20;

/** Short enough that neither a proxy nor the client takes a quiet connection for a dead one. */
const HEARTBEAT_INTERVAL: Duration = 15 * SECOND;

/** How often a client is told how many were not shown to it. */
const COUNT_INTERVAL: Duration = SECOND;

export interface LiveTailDependencies {
  readonly clock: Clock;
  /** Sees every activity, beside the clients. */
  readonly observer?: Observer | undefined;
}

/**
 * The live tail. It costs nothing without clients: `observer` is undefined then, and callers skip building
 * the activity. An activity is formatted once for all clients, and with its whole event only if a client
 * wants bodies.
 */
export class LiveTail implements CurrentObserver {
  readonly #clock: Clock;
  readonly #permanentObserver: Observer | undefined;
  readonly #clients = new Set<TailClient>();
  /** Only this class changes it. */
  observer: Observer | undefined;
  #cancelHeartbeat: (() => void) | undefined;
  #cancelCounts: (() => void) | undefined;
  #flushesSoon = false;
  #stopped = false;

  constructor({ clock, observer }: LiveTailDependencies) {
    this.#clock = clock;
    this.#permanentObserver = observer;
    this.observer = observer;
  }

  /** The body of an answer for a new client; `full` when there are too many. */
  readonly open: OpenTail = (options) => {
    if (this.#clients.size >= MAX_CLIENTS) return 'full';
    const client = new TailClient(options, () => this.#removeClient(client));
    this.#clients.add(client);
    if (this.#stopped) client.end();
    this.observer = this.#permanentObserver === undefined ? this.#sendToClients : this.#sendToAll;
    if (options.max !== undefined) this.#cancelCounts ??= this.#clock.after(COUNT_INTERVAL, this.#sendCounts);
    this.#cancelHeartbeat ??= this.#clock.after(HEARTBEAT_INTERVAL, this.#sendHeartbeats);
    return client;
  };

  /** Ends the stream of every client, later ones included. Idempotent. */
  stop(): void {
    this.#stopped = true;
    for (const client of this.#clients) client.end();
  }

  readonly #sendToAll: Observer = (activity) => {
    this.#permanentObserver?.(activity);
    this.#sendToClients(activity);
  };

  readonly #sendToClients: Observer = (activity) => {
    const lines = new TailEventText(activity, this.#clock);
    for (const client of this.#clients) {
      if (!matchesFilter(client.options, activity)) continue;
      if (client.sampler?.take(...sampleOf(activity)) === false) continue;
      if (client.hasRoom) client.add(client.options.body ? lines.whole : lines.short);
      else client.drop();
      this.#flushSoon();
    }
  };

  /**
   * Counts it for the clients that it matches, when none of them is to be shown it. See `CurrentObserver`.
   */
  passesOver(
    line: JsonLine | undefined,
    source: string,
    delivery?: { readonly destination: string; readonly isFailure: boolean },
  ): boolean {
    if (this.#permanentObserver !== undefined || line === undefined) return false;
    const key = sampleKeyOfLine(line);
    const kind = delivery === undefined ? 'call' : delivery.isFailure ? 'failure' : 'delivery';
    for (const { options, sampler } of this.#clients) {
      // The type is known only when the event is parsed.
      if (sampler === undefined || options.type !== undefined) return false;
      if (matchesNotice(options, source, delivery) && sampler.mayShow(key, kind)) return false;
    }
    for (const { options, sampler } of this.#clients) {
      if (matchesNotice(options, source, delivery)) sampler?.take(key, kind);
    }
    return true;
  }

  /** One write per client for the hundreds of activities of a commit. */
  #flushSoon(): void {
    if (this.#flushesSoon) return;
    this.#flushesSoon = true;
    this.#clock.turn(() => {
      this.#flushesSoon = false;
      for (const client of this.#clients) client.flush();
    });
  }

  readonly #sendHeartbeats = (): void => {
    this.#cancelHeartbeat = this.#clock.after(HEARTBEAT_INTERVAL, this.#sendHeartbeats);
    for (const client of this.#clients) client.heartbeat();
  };

  readonly #sendCounts = (): void => {
    this.#cancelCounts = this.#clock.after(COUNT_INTERVAL, this.#sendCounts);
    for (const client of this.#clients) {
      client.addPassed();
      client.flush();
    }
  };

  #removeClient(client: TailClient): void {
    this.#clients.delete(client);
    if (this.#clients.size > 0) return;
    this.observer = this.#permanentObserver;
    this.#cancelHeartbeat?.();
    this.#cancelHeartbeat = undefined;
    this.#cancelCounts?.();
    this.#cancelCounts = undefined;
  }
}

/** The text of one activity, formatted on first use. */
class TailEventText {
  readonly #activity: Activity;
  readonly #clock: Clock;
  #short: string | undefined;
  #whole: string | undefined;

  constructor(activity: Activity, clock: Clock) {
    this.#activity = activity;
    this.#clock = clock;
  }

  get short(): string {
    this.#short ??= formatTailEvent(this.#activity, { at: this.#clock.now(), body: false });
    return this.#short;
  }

  get whole(): string {
    this.#whole ??= formatTailEvent(this.#activity, { at: this.#clock.now(), body: true });
    return this.#whole;
  }
}
