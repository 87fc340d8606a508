import { column, latency, printable, timeOfDay } from './column.ts';
import { signatureMark } from './happening-line.ts';
import type { Paint } from './paint.ts';
import type { Received } from './receiver.ts';

const TARGET = 18;
const TYPE = 8;
const NAME = 22;
const USER = 14;
const ID = 36;

export interface RequestLineOptions {
  readonly now: number;
  readonly paint: Paint;
  /** Prints the body under the line, indented, and formatted where it is JSON. */
  readonly body: boolean;
}

/**
 * A received request as one line: time, method and path, type, name, user, Webhook-Id, signature, and the
 * answer where it is not a 2xx.
 *
 * ```
 * 10:23:45.131  POST /hook          track     Order Placed            u1              01930b1c-…  verified ✓
 * ```
 */
export function requestLine(received: Received, options: RequestLineOptions): string {
  const { paint } = options;
  const body = parsed(received.body);
  const line = [
    paint.dim(timeOfDay(options.now)),
    column(`${received.method} ${received.path}`, TARGET),
    column(textOf(body, ['type']), TYPE),
    column(textOf(body, ['event', 'name', 'groupId', 'Previous ID', 'previousId']), NAME),
    column(textOf(body, ['userId', 'User ID', 'anonymousId']), USER),
    column(received.webhookId ?? '–', ID),
    received.oversized ? paint.red('body over 1 MB, not read') : signatureMark(received.signature, paint),
    ...answerOf(received, paint),
  ].join('  ');
  return options.body && received.body.length > 0 ? `${line}\n${indented(body, received.body)}` : line;
}

/** The answer where it is not a 2xx, and always when another program gave it. */
function answerOf({ status, forwarded }: Received, paint: Paint): string[] {
  if (forwarded?.failure !== undefined) return [paint.red(forwarded.failure)];
  const draw = status < 300 ? paint.green : paint.yellow;
  if (forwarded !== undefined) return [draw(`answered ${status}`), latency(forwarded.latencyMs)];
  return status < 300 ? [] : [draw(`answered ${status}`)];
}

/** Returns `undefined` when the bytes are not JSON. */
function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString());
  } catch {
    return undefined;
  }
}

/** The value of the first of these keys that holds text. */
function textOf(body: unknown, keys: readonly string[]): string {
  if (typeof body !== 'object' || body === null) return '–';
  const found = Object.entries(body).filter(([, value]) => typeof value === 'string' && value !== '');
  const texts = new Map<string, string>(found);
  const key = keys.find((candidate) => texts.has(candidate));
  return key === undefined ? '–' : (texts.get(key) ?? '–');
}

function indented(body: unknown, bytes: Buffer): string {
  const text = body === undefined ? bytes.toString() : JSON.stringify(body, null, 2);
  return text
    .split('\n')
    .map((line) => `    ${printable(line)}`)
    .join('\n');
}
