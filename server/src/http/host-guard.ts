import type { IncomingMessage } from 'node:http';
import { isIP, isIPv6 } from 'node:net';
import catalogue from '../../../spec/errors.json' with { type: 'json' };
import { STATUS_TEXT } from '../model/http-syntax.ts';
import { isLoopback } from '../model/loopback.ts';
import { NO_SNIFFING, type PreparedResponse } from './exchange.ts';
import type { TrustedProxies } from './trusted-proxies.ts';

export interface HostGuardOptions {
  /** The names of `admin.hosts`. */
  readonly hosts: readonly string[];
  /** The URLs by which clients reach this server; their names count too. */
  readonly publicUrls: readonly string[];
  readonly proxies: TrustedProxies | undefined;
  /** The address that the server is bound to; undefined while it is bound to none. */
  readonly boundTo: () => string | undefined;
}

/**
 * Keeps pages of other sites out of a server that only this machine reaches. A name of theirs may resolve to
 * 127.0.0.1 (DNS rebinding): the browser then takes the answer for one of that site and lets its scripts read
 * it. Such a request names the site in `Host`, which no script can change. spec/contract.md, "Paths of the
 * server".
 */
export class HostGuard {
  readonly #names: ReadonlySet<string>;
  readonly #proxies: TrustedProxies | undefined;
  readonly #boundTo: HostGuardOptions['boundTo'];

  constructor({ hosts, publicUrls, proxies, boundTo }: HostGuardOptions) {
    const names = [...hosts, ...publicUrls.map((url) => new URL(url).hostname)];
    this.#names = new Set(['localhost', ...names.map(plainName)]);
    this.#proxies = proxies;
    this.#boundTo = boundTo;
  }

  /** The answer to a request by a wrong name; undefined where the request may pass. */
  refusal(request: IncomingMessage): PreparedResponse | undefined {
    if (!isLoopback(this.#boundTo() ?? '')) return undefined;
    const named = namedHosts(request);
    const wrong = named.length === 0 ? '' : named.find((host) => !this.#allows(host));
    if (wrong === undefined || this.#isFromProxy(request)) return undefined;
    return misdirected(wrong);
  }

  /** A page can be reached by an address too, but then it is the page of this server. */
  #allows(host: string): boolean {
    const [, inBrackets, name = ''] = HOST_AND_PORT.exec(host) ?? [];
    if (inBrackets !== undefined) return isIPv6(inBrackets);
    const plain = plainName(name);
    return isIP(plain) === 4 || this.#names.has(plain);
  }

  #isFromProxy({ socket }: IncomingMessage): boolean {
    return this.#proxies?.includes(socket.remoteAddress ?? '') === true;
  }
}

const HOST_AND_PORT = /^(?:\[([^\]]*)\]|([^:[\]]*))(?::\d*)?$/;

/** A name as it is compared. A dot at its end says that nothing is to be added, and changes nothing else. */
function plainName(name: string): string {
  return name.toLowerCase().replace(/\.$/, '');
}

/**
 * Every host that a request names: in a whole URL as its target, and in each `Host` header, of which Node
 * keeps the first alone.
 */
function namedHosts({ url = '', rawHeaders }: IncomingMessage): string[] {
  const inTarget = /^https?:\/\/([^/?#]*)/i.exec(url)?.[1];
  const hosts = inTarget === undefined ? [] : [inTarget];
  for (let at = 0; at < rawHeaders.length; at += 2)
    if (rawHeaders[at]!.toLowerCase() === 'host') hosts.push(rawHeaders[at + 1]!);
  return hosts;
}

/** Characters of a name in an answer. */
const MAX_QUOTED = 100;

/** A problem document for every path: the console reads one as well as programs do. */
function misdirected(host: string): PreparedResponse {
  const { status, message, hint } = catalogue.control.host_not_allowed;
  const named = host === '' ? 'It names none.' : `It names ${JSON.stringify(host.slice(0, MAX_QUOTED))}.`;
  const body = JSON.stringify({
    type: 'about:blank',
    title: STATUS_TEXT[status],
    status,
    detail: `${message} ${named} ${hint}`,
    code: 'host_not_allowed',
  });
  const length = String(Buffer.byteLength(body));
  const headers = ['Content-Type', 'application/problem+json', 'Content-Length', length];
  return {
    status,
    headers: [...headers, 'Cache-Control', 'no-store', ...NO_SNIFFING],
    body,
    code: 'host_not_allowed',
  };
}
