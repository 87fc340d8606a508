import type { Entry } from './backlog.ts';
import type { FetchAnswer, Settings } from './options.ts';
import { readRetryAfter } from './retry.ts';
import { VERSION } from './version.ts';

/**
 * Bytes of one request (spec/specification.md, "Batches of a client"): 500 KB, the envelope around the calls
 * included.
 */
const LARGEST_BATCH = 512_000;
/** Bytes of a request without its calls and its key (`bodyOf`), and some to spare. */
const ENVELOPE = 150;

/** Characters of what a log line says of an answer. */
const LONGEST_SAID = 200;

/** The result of one request. */
export interface Answer {
  /** 0 when there was no answer; a browser also gives a redirect so. */
  readonly status: number;
  /** The delay that the server asks for, in ms; 0 when it asks for none. */
  readonly retryAfter: number;
  /** `code: message` of an error of ours, or why there was no answer. */
  readonly said: string;
  /** The reason why there was no answer. */
  readonly cause?: unknown;
  /** Whether the server may have stored the calls although there was no answer that says so. */
  readonly uncertain: boolean;
}

export interface Posting {
  readonly answer: Promise<Answer>;
  /** There is no answer then. */
  abort(): void;
}

/** Bytes for calls and the commas between them in one request. */
export function roomFor(writeKey: string): number {
  return LARGEST_BATCH - ENVELOPE - 6 * writeKey.length;
}

/** Sends calls. Never rejects, and ends in time even if the `fetch` of the program ignores its signal. */
export function post(settings: Settings, entries: readonly Entry[], departing: boolean): Posting {
  const controller = new AbortController();
  let stop: (cause: Error) => void = () => {};
  const answer = new Promise<Answer>((resolve) => {
    stop = (cause) => {
      resolve(unanswered(cause));
      controller.abort();
    };
    const late = setTimeout(() => stop(new Error(`no answer in ${settings.timeout} ms`)), settings.timeout);
    exchange(settings, bodyOf(settings, entries, departing), controller.signal)
      .then(resolve, (cause: unknown) => resolve(unanswered(cause)))
      .finally(() => clearTimeout(late));
  });
  return { answer, abort: () => stop(new Error('no answer until then')) };
}

interface Body {
  readonly text: string;
  readonly headers: Record<string, string>;
  readonly keepalive: boolean;
}

/**
 * The write key travels as the user of Basic authentication. From a page that is being left it travels in the
 * body: a request without headers of its own needs no permission of the server first, for which there would
 * be no time.
 */
function bodyOf(
  { writeKey, edition, clock, correctClock }: Settings,
  entries: readonly Entry[],
  departing: boolean,
): Body {
  const sentAt = correctClock ? `,"sentAt":"${new Date(clock.now()).toISOString()}"` : '';
  const calls = entries.map(({ json }) => json).join(',');
  const key = departing ? `,"writeKey":${JSON.stringify(writeKey)}` : '';
  const text = `{"batch":[${calls}],"context":{"library":{"name":"@millrace/client${edition}","version":"${VERSION}"}}${sentAt}${key}}`;
  const user = () => btoa(String.fromCharCode(...new TextEncoder().encode(`${writeKey}:`)));
  const headers: Body['headers'] = departing
    ? { 'content-type': 'text/plain' }
    : { 'content-type': 'application/json', authorization: `Basic ${user()}` };
  return { text, headers, keepalive: departing };
}

async function exchange(settings: Settings, body: Body, signal: AbortSignal): Promise<Answer> {
  const answer = await settings.fetch(settings.url, {
    method: 'POST',
    headers: body.headers,
    body: body.text,
    redirect: 'manual',
    signal,
    keepalive: body.keepalive,
  });
  const { status, headers } = answer;
  // The body is read whatever the status, because a connection is used again only when it is.
  const text = await read(answer, status);
  const asked = readRetryAfter(headers.get('retry-after'), headers.get('date'), settings.clock.now());
  // 429 and 503 are how a server says that nothing was kept; a gateway says less with its other statuses.
  const uncertain = status === 408 || (status >= 500 && status !== 503);
  return { status, retryAfter: asked, said: status < 300 ? '' : said(text), uncertain };
}

/**
 * A good status is good whatever happens to the rest of the answer; of a bad one the reason may be missing.
 */
async function read(answer: FetchAnswer, status: number): Promise<string> {
  try {
    return await answer.text();
  } catch (cause) {
    if (status >= 200 && status < 600) return '';
    throw cause;
  }
}

/** Of an error as the server writes it; anything else, such as the page of a proxy, is left out. */
function said(text: string): string {
  try {
    const { code, message } = JSON.parse(text) as { code?: unknown; message?: unknown };
    return typeof code === 'string' ? `${code}: ${String(message)}`.slice(0, LONGEST_SAID) : '';
  } catch {
    return '';
  }
}

/** Causes that show that no request was sent: nothing listened, no name, no trust. */
const NOT_SENT = /^(ECONNREFUSED|ENOTFOUND|EAI_|UND_ERR_CONNECT|CERT_|ERR_TLS|.*(SIGNED_CERT|VERIFY|ISSUER))/;

/** Only Node says why; a browser does not, and then the server may have the calls. */
function unanswered(cause: unknown): Answer {
  const inner = (cause as { cause?: unknown } | undefined)?.cause ?? cause;
  const { code, message } = (inner ?? {}) as { code?: unknown; message?: unknown };
  const sent = typeof code !== 'string' || !NOT_SENT.test(code);
  // Node has no message where several addresses of one name were tried.
  const said = String(message || code || inner).slice(0, LONGEST_SAID);
  return { status: 0, retryAfter: 0, said, cause: cause ?? said, uncertain: sent };
}
