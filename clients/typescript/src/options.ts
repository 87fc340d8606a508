import { type Backlog, type Limits, MemoryBacklog, type WhenFull } from './backlog.ts';
import type { CallType } from './call.ts';
import type { Failure } from './failure.ts';

/** A call the server has stored. */
export interface Success {
  readonly messageId: string;
  readonly type: CallType;
  /** Requests made with it. */
  readonly tries: number;
}

/** The part of `fetch` that is used; another implementation may stand in. */
export type Fetch = (url: string, init: FetchInit) => Promise<FetchAnswer>;

export interface FetchInit {
  readonly method: 'POST';
  readonly headers: Record<string, string>;
  readonly body: string;
  readonly redirect: 'manual';
  readonly signal: AbortSignal;
  readonly keepalive?: boolean;
}

export interface FetchAnswer {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  text(): Promise<string>;
}

/** What a program that simulates time may replace. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** At least 0, less than 1. */
  random(): number;
  /** Every wait between two tries is multiplied by it. */
  readonly scale: number;
}

export interface Options {
  /** Where the server is. `/v1/batch` is appended where the path is empty. Default `http://localhost:8080`. */
  readonly endpoint?: string | undefined;
  /** Calls in a request, and calls queued before one is sent: 1 to 2,500, default 20. 1 switches batching off. */
  readonly flushAt?: number | undefined;
  /** Another name of `flushAt`; the smaller of the two wins. */
  readonly size?: number | undefined;
  /** The longest a call waits for others, in ms. Default 5,000. */
  readonly flushAfter?: number | undefined;
  /** How long a request may take, in ms. Default 10,000. */
  readonly timeout?: number | undefined;
  /** How long `close` may take, in ms. Default 10,000. */
  readonly closeTimeout?: number | undefined;
  /** Calls in memory, waiting or in requests. Default 10,000. */
  readonly maxCalls?: number | undefined;
  /** Bytes of their JSON. Default 32 MB (1 MB in a browser). */
  readonly maxBytes?: number | undefined;
  /**
   * What happens to a call that finds no room: it is refused with the code `full` (default), or the oldest waiting calls
   * are dropped for it and reported. A program that can wait awaits `client.room()` instead.
   */
  readonly whenFull?: WhenFull | undefined;
  /** Requests at the same time. Default 8. While the server fails there is only one. */
  readonly uploads?: number | undefined;
  /** Keeps calls until they are answered for, across restarts: `diskSpool(…)` of `@millrace/client/spool`. */
  readonly spool?: Backlog | undefined;
  /** Instead of the global `fetch`: for a proxy, certificates, or tests. */
  readonly fetch?: Fetch | undefined;
  /** Called once for each call the server has stored. */
  readonly onSuccess?: ((success: Success) => void) | undefined;
  /**
   * Called once for each call that will not be delivered, whether it was refused at the call or lost later
   * (`failure.accepted` tells). Without it a line goes to the log.
   */
  readonly onFailure?: ((failure: Failure) => void) | undefined;
  /** Where log lines go; `console.warn` by default. They contain neither the write key nor anything of a call. */
  readonly logger?: ((line: string) => void) | undefined;
  /** Logs what happens, not only what fails. Also switched on by `DEBUG=analytics` in the environment. */
  readonly verbose?: boolean | undefined;
  readonly clock?: Clock | undefined;
}

/** Options with their defaults, checked. */
export interface Settings {
  readonly url: string;
  readonly writeKey: string;
  readonly flushAt: number;
  readonly flushAfter: number;
  readonly timeout: number;
  readonly closeTimeout: number;
  readonly uploads: number;
  readonly backlog: Backlog;
  readonly fetch: Fetch;
  readonly onSuccess: ((success: Success) => void) | undefined;
  readonly onFailure: ((failure: Failure) => void) | undefined;
  readonly log: (line: string) => void;
  readonly verbose: boolean;
  readonly clock: Clock;
}

/** A batch of more calls would be refused (decisions.md section 1, "limits"). */
const MOST_CALLS = 2_500;

/** Throws a `TypeError` with the code `invalid_option`: a wrong option is a mistake of the program, found at its start. */
export function settingsOf(writeKey: string, options: Options): Settings {
  if (typeof writeKey !== 'string' || writeKey === '') throw invalid('the write key is missing');
  const size = between('size', options.size ?? MOST_CALLS, 1, MOST_CALLS);
  const flushAt = between(
    'flushAt',
    options.flushAt ?? (options.size === undefined ? 20 : size),
    1,
    MOST_CALLS,
  );
  const limits: Limits = {
    maxCalls: between('maxCalls', options.maxCalls ?? 10_000, 1),
    // Below it a call of the allowed size would never find room.
    maxBytes: between('maxBytes', options.maxBytes ?? 32 * 1024 * 1024, 32_768),
    whenFull: options.whenFull ?? 'refuse',
  };
  if (!['refuse', 'drop-oldest'].includes(limits.whenFull)) throw invalid('whenFull is none of its values');
  const { fetch: own, logger } = options;
  return {
    url: urlOf(options.endpoint ?? 'http://localhost:8080'),
    writeKey,
    flushAt: Math.min(size, flushAt),
    flushAfter: between('flushAfter', options.flushAfter ?? 5_000, 1),
    timeout: between('timeout', options.timeout ?? 10_000, 1),
    closeTimeout: between('closeTimeout', options.closeTimeout ?? 10_000, 0),
    uploads: between('uploads', options.uploads ?? 8, 1),
    backlog: options.spool ?? new MemoryBacklog(limits),
    // Looked up at each request, so that what a program puts in its place later counts too.
    fetch: own ?? ((url, init) => globalThis.fetch(url, init)),
    onSuccess: options.onSuccess,
    onFailure: options.onFailure,
    log: (line) => (logger ?? console.warn)(`millrace: ${line}`),
    verbose: options.verbose ?? debugging(),
    clock: options.clock ?? { now: Date.now, random: Math.random, scale: 1 },
  };
}

function between(name: string, value: number, least: number, most = 2 ** 31 - 1): number {
  if (typeof value === 'number' && value >= least && value <= most) return value;
  throw invalid(`${name} is not a number from ${least} to ${most}`);
}

function urlOf(endpoint: string): string {
  let url: URL;
  try {
    url = new URL(endpoint);
  } catch {
    throw invalid('the endpoint is not a whole URL');
  }
  if (!/^https?:$/.test(url.protocol)) throw invalid('the endpoint is neither http nor https');
  if (url.username !== '' || url.password !== '') throw invalid('the endpoint contains a password');
  if (url.pathname === '/') url.pathname = '/v1/batch';
  url.hash = '';
  return url.href;
}

function invalid(reason: string): TypeError {
  return Object.assign(new TypeError(`Millrace client: ${reason}`), { code: 'invalid_option' });
}

/** `DEBUG` is a list of names in many programs (service.md, "Inbound" rule 4). */
function debugging(): boolean {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return (process?.env?.['DEBUG'] ?? '').split(/[\s,]+/).includes('analytics');
}
