import { setTimeout } from 'node:timers/promises';
import { answerText, LongAnswerError } from '../answer-text.ts';
import { joinedPages, type Listed, type Page, type PublicApi } from './public-api.ts';
import { type Fields, fieldOf, fieldsOf, listOf, type OtherThing, textOf } from './workspace.ts';

/** Most entries of a page. */
const PAGE_SIZE = 200;

/** Milliseconds until a request is given up. */
const PATIENCE_MS = 30_000;

/** Tries of one request, and the longest wait between two, in seconds. */
const MOST_TRIES = 8;
const LONGEST_WAIT = 300;

/** Pages of one list: a server that names ever new cursors would never end. */
const MOST_PAGES = 10_000;

export interface ApiAddress {
  readonly url: URL;
  readonly token: string;
}

interface Context {
  readonly stopping: Promise<void>;
  /** Tells somebody who waits. */
  readonly say: (line: string) => void;
  readonly wait?: (ms: number) => Promise<void>;
}

/** Thrown when nothing more can be asked: the token is refused, or the user has stopped it. */
export class ApiError extends Error {}

/** The Public API over the network. Its token goes to the named host and to no other. */
export class ApiClient implements PublicApi {
  readonly #address: ApiAddress;
  readonly #context: Context;
  #isStopped = false;

  constructor(address: ApiAddress, context: Context) {
    this.#address = address;
    this.#context = context;
    void context.stopping.then(() => {
      this.#isStopped = true;
    });
  }

  async list(path: string, key: string): Promise<Listed> {
    const pages: Page[] = [];
    const seen = new Set<string>();
    let cursor: string | undefined;
    for (;;) {
      const answer = await this.#page(path, cursor);
      if (typeof answer === 'string') return { items: joinedPages(pages, key).items, missing: answer };
      pages.push({ data: answer, ...(cursor === undefined ? {} : { cursor }) });
      const next = textOf(fieldOf(answer['pagination'], 'next'));
      if (next === undefined || next === '') return joinedPages(pages, key);
      if (seen.has(next) || pages.length >= MOST_PAGES)
        return { items: joinedPages(pages, key).items, missing: 'its pages do not end' };
      seen.add(next);
      cursor = next;
    }
  }

  async one(path: string): Promise<Fields | string> {
    return await this.#ask(path, {});
  }

  isAtHand(): boolean {
    return false;
  }

  unasked(): readonly OtherThing[] {
    return [];
  }

  /** A server that knows no parameters of pages is asked without them. */
  async #page(path: string, cursor: string | undefined): Promise<Fields | string> {
    const answer = await this.#ask(path, {
      'pagination.count': String(PAGE_SIZE),
      ...(cursor === undefined ? {} : { 'pagination.cursor': cursor }),
    });
    if (cursor !== undefined || typeof answer !== 'string' || !/^answered (400|404)/.test(answer))
      return answer;
    const bare = await this.#ask(path, {});
    return typeof bare === 'string' ? answer : bare;
  }

  /** The `data` of an answer, or the reason why there is none. */
  async #ask(path: string, parameters: Readonly<Record<string, string>>): Promise<Fields | string> {
    const target = new URL(this.#address.url);
    const [own = '', query = ''] = path.split('?', 2);
    target.pathname = `${target.pathname.replace(/\/+$/, '')}${own}`;
    target.search = new URLSearchParams({
      ...Object.fromEntries(new URLSearchParams(query)),
      ...parameters,
    }).toString();
    for (let tries = 1; ; tries++) {
      if (this.#isStopped) throw new ApiError('it was stopped, and nothing was written');
      const reply = await this.#send(target);
      if (typeof reply === 'object' && 'wait' in reply && tries < MOST_TRIES) {
        await this.#pause(reply.wait ?? Math.min(2 ** (tries - 1), 60), reply.reason);
        continue;
      }
      return 'reason' in reply ? reply.reason : reply.data;
    }
  }

  async #pause(seconds: number, reason: string): Promise<void> {
    if (seconds > 2) this.#context.say(`${reason}: goes on in ${seconds} s`);
    const wait = this.#context.wait ?? setTimeout;
    await Promise.race([wait(seconds * 1000), this.#context.stopping]);
  }

  async #send(
    target: URL,
  ): Promise<{ data: Fields } | { reason: string } | { reason: string; wait: number | undefined }> {
    let response: Response;
    let text: string;
    try {
      response = await fetch(target, {
        headers: { Authorization: `Bearer ${this.#address.token}`, Accept: 'application/json' },
        redirect: 'manual',
        signal: AbortSignal.timeout(PATIENCE_MS),
      });
      text = await answerText(response);
    } catch (error) {
      if (error instanceof LongAnswerError) return { reason: `is ${error.message}` };
      return { reason: `no answer (${causeOf(error)})`, wait: undefined };
    }
    const { status } = response;
    if (status === 401) throw new ApiError(`${target.host} refuses the token (401)`);
    if (status === 429 || status >= 500)
      return { reason: `answered ${status}`, wait: secondsOf(response.headers) };
    if (status >= 300 && status < 400)
      return { reason: `answered ${status}: redirects are not followed, because the token would go along` };
    const body = parsed(text);
    const data = fieldOf(body, 'data');
    if (status !== 200) return { reason: `answered ${status}${messageIn(body)}` };
    if (typeof data !== 'object' || data === null)
      return { reason: 'answered something else than JSON with data' };
    return { data: fieldsOf(data) };
  }
}

/** `Retry-After`, or the header that this API has; bounded. */
function secondsOf(headers: Headers): number | undefined {
  const written = headers.get('retry-after') ?? headers.get('x-ratelimit-reset') ?? '';
  if (!/^\d{1,9}$/.test(written.trim())) return undefined;
  return Math.min(Number(written), LONGEST_WAIT);
}

function messageIn(body: unknown): string {
  const message = textOf(fieldOf(listOf(fieldOf(body, 'errors'))[0], 'message'));
  return message === undefined ? '' : ` (${message.slice(0, 200)})`;
}

function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === 'TimeoutError') return `waited ${PATIENCE_MS / 1000} s`;
  const { cause } = error;
  return cause instanceof Error && 'code' in cause ? String(cause.code) : error.message;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
