import type { LinkedList } from '../model/containers.ts';
import type { CallType } from '../model/event.ts';
import type { Monotonic } from '../model/time.ts';
import type { AdmissionController, InFlightRequest } from './admission.ts';
import type { NodeHttpExchange, PreparedResponse } from './exchange.ts';
import { buildIngestRequest, type RequestDependencies } from './receiving-api.ts';
import { targetQuery } from './routes.ts';

/**
 * A call as an image: `GET /v1/pixel/<type>`. Every answer is the image, also for a type that does not exist.
 * It is sent after the call is stored, so that a page can wait for it before it moves on.
 */
export function handlePixel(
  exchange: NodeHttpExchange,
  type: CallType | undefined,
  dependencies: RequestDependencies,
): void {
  const { receiver, clock, admission, discards, overload, logger } = dependencies;
  // HEAD must not change anything, so it stores no call.
  if (exchange.request.method === 'HEAD') exchange.reply(PIXEL_RESPONSE);
  else if (type === undefined) {
    discards?.discarded({ unknown_type: 1 });
    exchange.reply(PIXEL_RESPONSE);
  } else {
    const receivedAt = clock.now();
    const call = new PixelCall(exchange, admission, clock.monotonic());
    if (!admission.admit(call)) {
      discards?.refused('overloaded');
      overload.rejected();
      exchange.reply(PIXEL_RESPONSE);
      return;
    }
    admission.bodyReceived(call);
    try {
      const body = bodyFromQuery(targetQuery(exchange.target));
      const request = buildIngestRequest(
        exchange,
        { type, body, receivedAt, writeKey: exchange.writeKey },
        dependencies,
      );
      receiver({ ...request, isFromBrowser: true }, () => call.finish());
    } catch (error) {
      logger.error({ error, type }, 'request.failed');
      call.finish();
    }
  }
}

/** A pixel takes a slot as a request, but no bytes: its call came with the head, which has its own limit. */
class PixelCall implements InFlightRequest {
  bytes = 0;
  list: LinkedList<InFlightRequest> | undefined;
  previous: InFlightRequest | undefined;
  next: InFlightRequest | undefined;
  readonly startedAt: Monotonic;
  readonly #exchange: NodeHttpExchange;
  readonly #admission: AdmissionController;
  #isOver = false;

  constructor(exchange: NodeHttpExchange, admission: AdmissionController, since: Monotonic) {
    this.startedAt = since;
    this.#exchange = exchange;
    this.#admission = admission;
  }

  /** Never called, because the call arrived with the head. */
  evict(): void {
    this.finish();
  }

  finish(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#admission.release(this);
    this.#exchange.reply(PIXEL_RESPONSE);
  }
}

/** The smallest GIF: one transparent pixel. */
const GIF = Buffer.from('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7', 'base64');

/** The only answer of the pixel, for stored and refused calls alike. spec/specification.md, "Pixel". */
const PIXEL_RESPONSE: PreparedResponse = {
  status: 200,
  // A cached image would cost the next call: the browser would not send it.
  headers: [
    ...['Content-Type', 'image/gif', 'Content-Length', String(GIF.length)],
    ...['Cache-Control', 'no-store, no-cache, must-revalidate, private'],
  ],
  body: GIF,
};

/** The deepest path of a key. Deeper keys are left out; no call needs them. */
const MAX_KEY_DEPTH = 20;

/**
 * The call in the query of a pixel, as a body: `data` is JSON in base64 (also the URL-safe kind, also without
 * padding); without it every key is a path into the call, such as `properties.subject`. The result is not
 * parsed or checked here; errors show where bodies are parsed, those of bytes that are no UTF-8 too.
 */
export function bodyFromQuery(query: string): Buffer {
  const parameters = readParameters(query);
  const data = parameters.find(([key]) => key === 'data')?.[1];
  // A plus sign of base64 that was not percent-encoded is a space by now.
  if (data !== undefined) return Buffer.from(data.replaceAll(' ', '+'), 'base64');
  const call = newQueryObject();
  for (const [key, text] of parameters) setPath(call, key, text);
  return Buffer.from(JSON.stringify(call), 'latin1');
}

/**
 * Keys and values of a query, as `URLSearchParams` reads them, but as bytes, each of which is a character
 * here: `URLSearchParams` puts U+FFFD in the place of what is no UTF-8, which would make one user of two.
 */
function readParameters(query: string): (readonly [key: string, text: string])[] {
  return query
    .split('&')
    .filter((pair) => pair !== '')
    .map((pair) => {
      const equals = pair.indexOf('=');
      return equals < 0
        ? [unescaped(pair), '']
        : [unescaped(pair.slice(0, equals)), unescaped(pair.slice(equals + 1))];
    });
}

function unescaped(text: string): string {
  return text
    .replaceAll('+', ' ')
    .replace(/%([0-9a-f]{2})/gi, (_, byte: string) => String.fromCharCode(Number.parseInt(byte, 16)));
}

/** An object without a prototype, so that a key such as `__proto__` is an ordinary key. */
interface QueryObject {
  [key: string]: string | boolean | QueryObject;
}

function newQueryObject(): QueryObject {
  return Object.create(null) as QueryObject;
}

/**
 * Sets the value at a path. Of two keys that contradict each other, such as `a` and `a.b`, the last one wins.
 */
function setPath(call: QueryObject, key: string, text: string): void {
  const names = key.split('.');
  const last = names.pop();
  if (last === undefined || names.length >= MAX_KEY_DEPTH) return;
  let group = call;
  for (const name of names) {
    const found = group[name];
    const next = typeof found === 'object' ? found : newQueryObject();
    group[name] = next;
    group = next;
  }
  group[last] = isBooleanKey(key) ? parseBoolean(text) : text;
}

/**
 * Whether `true` and `false` are booleans at this key. As a text, `false` in the integrations object would
 * mean "on".
 */
function isBooleanKey(key: string): boolean {
  return /^(context\.)?integrations\.|^context\.direct$/.test(key);
}

function parseBoolean(text: string): string | boolean {
  if (text === 'true') return true;
  return text === 'false' ? false : text;
}
