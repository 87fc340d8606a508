import { type Backlog, MemoryBacklog, type WhenFull } from './backlog.ts';
import type { CallType } from './call.ts';
import type { Failure } from './failure.ts';
import { invalid, refuseUnknown } from './invalid-option.ts';

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

/** Parts that a program which simulates time may replace. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** At least 0, less than 1. */
  random(): number;
  /** Every wait between two tries is multiplied by it. */
  readonly scale: number;
}

export interface Options {
  /**
   * Where the server is. `/v1/batch` is appended where the path is empty. Default `http://localhost:8080`.
   */
  readonly endpoint?: string | undefined;
  /**
   * Calls in a request, and calls queued before one is sent: 1 to 2,500, default 20. 1 switches batching off.
   */
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
   * Policy for a call that finds no room: it is refused with the code `full` (default), or the oldest waiting
   * calls are dropped for it and reported. A program that can wait awaits `client.room()` instead.
   */
  readonly whenFull?: WhenFull | undefined;
  /**
   * Whether every request says when it is sent, so that the server can correct the times of its calls by how
   * wrong the clock of this machine is. Default true. With false each `timestamp` is delivered as it was
   * given, and a call without one has the time at which it arrives: for an import of the past.
   */
  readonly correctClock?: boolean | undefined;
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
  /**
   * Where log lines go; `console.warn` by default. They contain neither the write key nor anything of a call.
   */
  readonly logger?: ((line: string) => void) | undefined;
  /** Logs successes too, not only failures. `DEBUG=analytics` in the environment also switches it on. */
  readonly verbose?: boolean | undefined;
  readonly clock?: Clock | undefined;
}

/** The part of the package that a program uses. */
export type Edition = '' | '/browser';

/** Options with their defaults, checked. */
export interface Settings {
  readonly url: string;
  readonly writeKey: string;
  /**
   * The end of the name in `context.library`. The server sees by it whether calls come straight from a
   * browser.
   */
  readonly edition: Edition;
  readonly flushAt: number;
  readonly flushAfter: number;
  readonly timeout: number;
  readonly closeTimeout: number;
  readonly correctClock: boolean;
  readonly uploads: number;
  readonly backlog: Backlog;
  readonly fetch: Fetch;
  readonly onSuccess: ((success: Success) => void) | undefined;
  readonly onFailure: ((failure: Failure) => void) | undefined;
  readonly log: (line: string) => void;
  readonly verbose: boolean;
  readonly clock: Clock;
}

/** A batch of more calls would be refused (spec/specification.md, "Size limits"). */
const MOST_CALLS = 2_500;

/**
 * The options that are numbers: default, least, most. Below its least, `maxBytes` has no room for a call of
 * the allowed size.
 */
const NUMBERS = {
  size: [MOST_CALLS, 1, MOST_CALLS],
  flushAt: [20, 1, MOST_CALLS],
  flushAfter: [5_000, 1],
  timeout: [10_000, 1],
  closeTimeout: [10_000, 0],
  maxCalls: [10_000, 1],
  maxBytes: [32 * 1024 * 1024, 32_768],
  uploads: [8, 1],
} as const satisfies { readonly [name in keyof Options]: readonly [number, number, number?] };

type Numbers = Record<keyof typeof NUMBERS, number>;

/** All others. */
const OTHERS = 'endpoint whenFull correctClock spool fetch onSuccess onFailure logger verbose clock'.split(
  ' ',
);

/**
 * Throws a `TypeError` with the code `invalid_option`: a wrong option is a mistake of the program, found at
 * its start.
 */
export function settingsOf(writeKey: string, options: Options, edition: Edition = ''): Settings {
  if (typeof writeKey !== 'string' || writeKey === '') throw invalid('the write key is missing');
  refuseUnknown(options, [...Object.keys(NUMBERS), ...OTHERS]);
  const numbers = numbersIn(options);
  const { size, flushAt } = numbers;
  const { whenFull = 'refuse', fetch: own, logger, spool, onSuccess, onFailure } = options;
  if (!['refuse', 'drop-oldest'].includes(whenFull)) throw invalid('whenFull is none of its values');
  return {
    ...numbers,
    url: urlOf(options.endpoint ?? 'http://localhost:8080'),
    writeKey,
    edition,
    flushAt: Math.min(size, options.flushAt ?? options.size ?? flushAt),
    correctClock: options.correctClock ?? true,
    backlog: spool ?? new MemoryBacklog({ ...numbers, whenFull }),
    // Looked up at each request: a program may replace it later.
    fetch: own ?? ((url, init) => globalThis.fetch(url, init)),
    onSuccess,
    onFailure,
    log: (line) => (logger ?? console.warn)(`millrace: ${line}`),
    verbose: options.verbose ?? debugging(),
    clock: options.clock ?? { now: Date.now, random: Math.random, scale: 1 },
  };
}

function numbersIn(options: Options): Numbers {
  const numbers = {} as Numbers;
  for (const key in NUMBERS) {
    const name = key as keyof Numbers;
    const [otherwise, least, most = 2 ** 31 - 1] = NUMBERS[name] as readonly [number, number, number?];
    const value = options[name] ?? otherwise;
    if (!(typeof value === 'number' && value >= least && value <= most)) {
      throw invalid(`${name} is not a number from ${least} to ${most}`);
    }
    numbers[name] = value;
  }
  return numbers;
}

function urlOf(endpoint: string): string {
  let url: URL | undefined;
  try {
    url = new URL(endpoint);
  } catch {
    // Said below.
  }
  if (!/^https?:$/.test(url?.protocol ?? '')) throw invalid('the endpoint is no URL of http or https');
  if (url!.username + url!.password !== '') throw invalid('the endpoint contains a password');
  if (url!.pathname === '/') url!.pathname = '/v1/batch';
  url!.hash = '';
  return url!.href;
}

/** `DEBUG` is a list of names in many programs (spec/specification.md, "Client options"). */
function debugging(): boolean {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return (process?.env?.['DEBUG'] ?? '').split(/[\s,]+/).includes('analytics');
}
