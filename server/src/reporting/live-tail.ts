import type { Attempt, Decision } from '../model/delivery.ts';
import type { Event } from '../model/event.ts';
import { maskUrl } from '../model/secrets.ts';
import { type Duration, isoTime, SECOND, type Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { ResponseStream, StreamClient } from '../ports/control-api.ts';
import type { Activity, CurrentObserver, Observer } from '../ports/telemetry.ts';
import type {
  EventIdentity,
  OpenTail,
  TailCall,
  TailDelivery,
  TailDiscard,
  TailEvents,
  TailFilter,
  TailOptions,
} from './contract.ts';

function matchesFilter(filter: TailFilter, happening: Activity): boolean {
  const { source, destination, type, failed = false } = filter;
  if (source !== undefined && happening.source !== source) return false;
  if (destination !== undefined && (happening.kind !== 'settled' || happening.destination !== destination))
    return false;
  if (type !== undefined && (happening.kind === 'discarded' || happening.event.type !== type)) return false;
  return !failed || isFailure(happening);
}

function isFailure(happening: Activity): boolean {
  if (happening.kind === 'settled') return happening.decision.kind !== 'delivered';
  return happening.kind === 'discarded';
}

/** The fields of an event that a client sees who did not ask for bodies. */
const IDENTIFYING_FIELDS = [
  'messageId',
  'type',
  'userId',
  'anonymousId',
  'previousId',
  'groupId',
  'event',
  'name',
] as const satisfies readonly (keyof EventIdentity)[];

interface TailEventFormat {
  readonly at: Time;
  /** True: the event whole. False: its identifying fields. */
  readonly body: boolean;
}

/**
 * One activity as one server-sent event: its kind is the event's name, the data is JSON. spec/contract.md, "Live tail".
 * Events contain neither write keys nor secrets; URLs of endpoints are masked.
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
  return { at: isoTime(at), ...(source === undefined ? {} : { source }), reason };
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

function identityOf(event: Event): EventIdentity {
  const identity: Record<string, unknown> = {};
  for (const field of IDENTIFYING_FIELDS) if (event[field] !== undefined) identity[field] = event[field];
  return identity as EventIdentity;
}

/** In the words of a trace. */
function stateOfDecision(decision: Decision): Pick<TailDelivery, 'state' | 'reason' | 'nextAttemptAt'> {
  switch (decision.kind) {
    case 'delivered':
      return { state: 'delivered' };
    case 'retry':
      return { state: 'retrying', nextAttemptAt: isoTime(decision.at) };
    case 'dead':
      return { state: 'dead', reason: decision.reason };
  }
}

function attemptData({ endpoint, startedAt, latencyMs, outcome }: Attempt): TailDelivery['attempts'][number] {
  const { kind, reason, status } = outcome;
  return {
    endpoint: maskUrl(endpoint),
    startedAt: isoTime(startedAt),
    latencyMs,
    outcome: kind,
    reason,
    ...(status === undefined ? {} : { status }),
  };
}

/**
 * Characters that may wait for one viewer, while what was written before is on its way: some thousand lines, so that a
 * viewer who reads loses nothing when a large batch is stored.
 */
const MAX_WAITING = 512 * 1024;

const GREETING = ': watching\n\n';
const HEARTBEAT_COMMENT = ': still here\n\n';

/**
 * Somebody who watches over one connection, and is never waited for.
 *
 * ```
 *            flush                    write is false
 *   reading ───────▶ text is written ───────────────▶ behind ──drained──▶ reading
 *                                                       │ lines wait, up to a bound; beyond it they are counted,
 *                                                       └ and the viewer is told how many, at the place they are missing
 * ```
 * A viewer who reads nothing at all for a minute is cut off by the listener.
 */
export class TailClient implements ResponseStream {
  readonly options: TailOptions;
  readonly #onGone: () => void;
  #client: StreamClient | undefined;
  #waiting = '';
  #lost = 0;
  #isBehind = false;
  #isOver = false;

  constructor(wish: TailOptions, left: () => void) {
    this.options = wish;
    this.#onGone = left;
  }

  /** Once something is lost, everything is until the viewer has been told: what is missing is missing in one place. */
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
    // Before the head is on its way, lines wait.
    if (this.#client === undefined || this.#isBehind) return;
    if (this.#waiting === '' && this.#lost === 0) return;
    const text =
      this.#lost === 0 ? this.#waiting : this.#waiting + serverSentEvent('lost', { count: this.#lost });
    this.#waiting = '';
    this.#lost = 0;
    this.#write(text);
  }

  /** A viewer that is behind needs no sign of life, and its silence is what tells the listener that it does not read. */
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

/** Each may have a megabyte of text in memory and costs a line of JSON for what it wants to see. */
const MAX_CLIENTS = 20;

/** So that neither a proxy nor the viewer takes a quiet connection for a dead one. */
const HEARTBEAT_INTERVAL: Duration = 15 * SECOND;

export interface LiveTailDependencies {
  readonly clock: Clock;
  /** Who watches all the time, beside the viewers. */
  readonly observer?: Observer | undefined;
}

/**
 * Lets people watch what happens. While nobody does it costs nothing: whoever makes things happen asks `watching` first, and
 * gets nothing. A happening becomes text once, however many see it, and with the whole event only where somebody wants that.
 * Nobody who watches is ever waited for: see `Viewer`.
 */
export class LiveTail {
  readonly #clock: Clock;
  readonly #permanentObserver: Observer | undefined;
  readonly #clients = new Set<TailClient>();
  #watching: Observer | undefined;
  #cancelHeartbeat: (() => void) | undefined;
  #flushesSoon = false;
  #stopped = false;

  constructor({ clock, observer }: LiveTailDependencies) {
    this.#clock = clock;
    this.#permanentObserver = observer;
    this.#watching = observer;
  }

  readonly watching: CurrentObserver = () => this.#watching;

  /** A new viewer, as the body of an answer; `full` when there are too many. */
  readonly open: OpenTail = (options) => {
    if (this.#clients.size >= MAX_CLIENTS) return 'full';
    const viewer = new TailClient(options, () => this.#removeClient(viewer));
    this.#clients.add(viewer);
    if (this.#stopped) viewer.end();
    this.#watching = this.#permanentObserver === undefined ? this.#sendToClients : this.#sendToAll;
    this.#cancelHeartbeat ??= this.#clock.after(HEARTBEAT_INTERVAL, this.#sendHeartbeats);
    return viewer;
  };

  /** Ends the answer of every viewer, and of whoever still comes. Idempotent. */
  stop(): void {
    this.#stopped = true;
    for (const viewer of this.#clients) viewer.end();
  }

  readonly #sendToAll: Observer = (happening) => {
    this.#permanentObserver?.(happening);
    this.#sendToClients(happening);
  };

  readonly #sendToClients: Observer = (happening) => {
    const lines = new TailEventText(happening, this.#clock);
    for (const viewer of this.#clients) {
      if (!matchesFilter(viewer.options, happening)) continue;
      if (viewer.hasRoom) viewer.add(viewer.options.body ? lines.whole : lines.short);
      else viewer.drop();
      this.#flushSoon();
    }
  };

  /** A commit makes hundreds of things happen at once, which are one write to each viewer. */
  #flushSoon(): void {
    if (this.#flushesSoon) return;
    this.#flushesSoon = true;
    setImmediate(() => {
      this.#flushesSoon = false;
      for (const viewer of this.#clients) viewer.flush();
    });
  }

  readonly #sendHeartbeats = (): void => {
    this.#cancelHeartbeat = this.#clock.after(HEARTBEAT_INTERVAL, this.#sendHeartbeats);
    for (const viewer of this.#clients) viewer.heartbeat();
  };

  #removeClient(viewer: TailClient): void {
    this.#clients.delete(viewer);
    if (this.#clients.size > 0) return;
    this.#watching = this.#permanentObserver;
    this.#cancelHeartbeat?.();
    this.#cancelHeartbeat = undefined;
  }
}

/** The text of one happening, made when the first viewer wants it. */
class TailEventText {
  readonly #happening: Activity;
  readonly #clock: Clock;
  #short: string | undefined;
  #whole: string | undefined;

  constructor(happening: Activity, clock: Clock) {
    this.#happening = happening;
    this.#clock = clock;
  }

  get short(): string {
    this.#short ??= formatTailEvent(this.#happening, { at: this.#clock.now(), body: false });
    return this.#short;
  }

  get whole(): string {
    this.#whole ??= formatTailEvent(this.#happening, { at: this.#clock.now(), body: true });
    return this.#whole;
  }
}
