import type { CallType } from '../model/event.ts';
import type { LinkedList } from '../model/linked-list.ts';
import type { Monotonic } from '../model/time.ts';
import type { AdmissionController, InFlightRequest } from './admission.ts';
import type { NodeHttpExchange } from './exchange.ts';
import { buildIngestRequest, type RequestDependencies } from './receiving-api.ts';
import type { PreparedResponse } from './responses.ts';
import { targetQuery } from './routes.ts';

/**
 * A call as an image: `GET /v1/pixel/<type>`. The image is the answer to everything, but it comes after the call is stored: a
 * page may wait for it and move on. Without a type there is none of that name.
 */
export function handlePixel(
  exchange: NodeHttpExchange,
  type: CallType | undefined,
  dependencies: RequestDependencies,
): void {
  const { receiver, clock, admission, discards, overload, logger } = dependencies;
  // HEAD asks what an answer would look like, and must not change anything.
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
      receiver(buildIngestRequest(exchange, { type, body, receivedAt }, dependencies), () => call.finish());
    } catch (error) {
      logger.error({ error, type }, 'request.failed');
      call.finish();
    }
  }
}

/** Its place is counted as a request; its few bytes came with the head, which has a limit of its own. */
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

  /** Never asked: it arrived whole. */
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

/** The smallest GIF there is: one transparent point. */
const GIF = Buffer.from('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7', 'base64');

/** The only answer of the pixel, whatever became of the call. spec/specification.md, "Pixel". */
const PIXEL_RESPONSE: PreparedResponse = {
  status: 200,
  // A cached image would be a call that never arrives.
  headers: [
    ...['Content-Type', 'image/gif', 'Content-Length', String(GIF.length)],
    ...['Cache-Control', 'no-store, no-cache, must-revalidate, private', 'Access-Control-Allow-Origin', '*'],
  ],
  body: GIF,
};

/** Deeper keys are left out; no call has a use for them. */
const MAX_KEY_DEPTH = 20;

/**
 * The call in the query of a pixel, as a body: `data` is JSON in base64 (also the URL-safe kind, also without padding);
 * without it every key is a path into the call, such as `properties.subject`. Not yet parsed or checked: what is wrong
 * with it is found where bodies are parsed.
 */
export function bodyFromQuery(query: string): Buffer {
  const parameters = new URLSearchParams(query);
  const data = parameters.get('data');
  // A plus sign of base64 that was not percent-encoded has become a blank.
  if (data !== null) return Buffer.from(data.replaceAll(' ', '+'), 'base64');
  const call = newQueryObject();
  for (const [key, text] of parameters) setPath(call, key, text);
  return Buffer.from(JSON.stringify(call));
}

/** Without a prototype, so that no key means anything to the language. */
interface QueryObject {
  [key: string]: string | boolean | QueryObject;
}

function newQueryObject(): QueryObject {
  return Object.create(null) as QueryObject;
}

/** The last of two keys that contradict each other wins; `a` and `a.b` do. */
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

/** A query knows only text, and in the integrations object the text `false` would switch a destination on. */
function isBooleanKey(key: string): boolean {
  return /^(context\.)?integrations\.|^context\.direct$/.test(key);
}

function parseBoolean(text: string): string | boolean {
  if (text === 'true') return true;
  return text === 'false' ? false : text;
}
