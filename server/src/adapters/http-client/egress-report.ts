import { type LookupAddress, lookup as systemLookup } from 'node:dns';
import { once } from 'node:events';
import { isIP } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { Destination, Endpoint } from '../../model/destination.ts';
import { type Duration, SECOND } from '../../model/time.ts';
import { type ConnectCallback, createConnector, readAuthorities } from './connector.ts';
import { checkAddresses, type DnsLookup, egressRules, resolveAllowed } from './egress.ts';
import { failureOf } from './errors.ts';
import { parseProxyUrl } from './proxy-tunnel.ts';

/** What the configuration says about outbound requests. */
export interface EgressSettings {
  readonly allow: readonly string[];
  readonly proxy?: string;
}

/** Which rule decides about each address of a URL, and what follows for a request to it. */
export interface EgressExplanation {
  readonly url: string;
  /** As it is looked up; empty when the URL cannot be used. */
  readonly host: string;
  readonly port: number;
  readonly verdict: 'allowed' | 'refused' | 'unresolved' | 'invalid';
  readonly addresses: readonly AddressRuling[];
  /** The address that is tried first; only when the verdict is `allowed`. */
  readonly used?: string;
  /** Host and port of the proxy that the request goes through. */
  readonly proxy?: string;
  /** One sentence for the operator. */
  readonly message: string;
}

export interface AddressRuling {
  readonly address: string;
  readonly allowed: boolean;
  /** `public`, `egress.allow 10.20.0.0/16`, or the range that is refused, such as `loopback`. */
  readonly rule: string;
}

/** Decides as a request would, by the same rules and the same lookup, and sends nothing. Never rejects. */
export async function explainEgress(
  text: string,
  settings: EgressSettings,
  lookup: DnsLookup = systemLookup,
): Promise<EgressExplanation> {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol) || url.hostname === '') {
    const message = 'not an absolute http or https URL';
    return { url: text, host: '', port: 0, verdict: 'invalid', addresses: [], message };
  }
  const rules = egressRules(settings.allow);
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const found = await addressesOf(host, lookup);
  const addresses = found.map(({ address }) => ({ address, ...rules.check(address) }));
  const resolution = await resolveAllowed(host, rules, (_host, _options, done) => done(null, found));
  const place = {
    // Without what a URL may carry that has no place on a screen.
    url: `${url.origin}${url.pathname}`,
    host,
    port: Number(url.port || (url.protocol === 'https:' ? 443 : 80)),
    addresses,
    ...(settings.proxy === undefined ? {} : { proxy: hostAndPort(settings.proxy) }),
  };
  if (resolution.kind === 'allowed') {
    const [first] = resolution.addresses;
    const message = 'requests are sent';
    return { ...place, verdict: 'allowed', used: first!.address, message };
  }
  if (resolution.kind === 'refused') return { ...place, verdict: 'refused', message: resolution.message };
  return { ...place, verdict: 'unresolved', message: `${host} does not resolve` };
}

/** An endpoint that no request would reach now. */
export interface EndpointProblem {
  readonly destination: string;
  /** Its place in the settings. */
  readonly place: number;
  /**
   * `unresolved` may be better later, so that it is no reason to refuse settings. spec/specification.md, "Network safety".
   */
  readonly verdict: 'refused' | 'unresolved';
  readonly message: string;
}

/** Looks at every endpoint as a request would. For settings that are about to be used; it sends nothing. Never rejects. */
export async function endpointProblems(
  destinations: readonly Pick<Destination, 'name' | 'settings'>[],
  settings: EgressSettings,
  lookup: DnsLookup = systemLookup,
): Promise<EndpointProblem[]> {
  const problems: EndpointProblem[] = [];
  for (const { name, settings: own } of destinations) {
    // One destination after the other: each lookup holds one of the few threads the process looks names up with.
    const explained = await Promise.all(
      own.endpoints.map(({ url }: Endpoint) => explainEgress(url, settings, lookup)),
    );
    for (const [place, { verdict, message }] of explained.entries()) {
      if (verdict === 'allowed' || verdict === 'invalid') continue;
      problems.push({ destination: name, place, verdict, message });
    }
  }
  return problems;
}

/** What the rules say of a URL that somebody wants to send to. See `EndpointProblem`. */
export interface EgressVerdict {
  readonly verdict: 'allowed' | 'refused' | 'unresolved' | 'invalid';
  /** One sentence for the operator. */
  readonly message: string;
}

/** Names looked up at the same time: each holds one of the few threads that the process looks names up with. */
const MAX_LOOKUPS = 2;

/** In all: whoever saves settings waits for it. */
const LOOKUP_TIMEOUT: Duration = 3 * SECOND;

/**
 * Judges URLs as requests to them would be, and sends nothing. Each name is looked up once; those that have not been looked up
 * when the patience is over count as unresolved. Never rejects.
 */
export async function judgeEndpoints(
  urls: Iterable<string>,
  settings: EgressSettings,
  {
    lookup = systemLookup,
    patience = LOOKUP_TIMEOUT,
  }: { readonly lookup?: DnsLookup; readonly patience?: Duration } = {},
): Promise<Map<string, EgressVerdict>> {
  const verdicts = new Map<string, EgressVerdict>();
  const byHost = Map.groupBy(new Set(urls), (url) => URL.parse(url)?.hostname ?? '');
  const deadline = new AbortController();
  const over = once(deadline.signal, 'abort').then(() => undefined);
  const timer = setTimeout(() => deadline.abort(), patience);
  // Literal addresses first: they cost nothing, and slow names must not keep them from being refused.
  const isName = (host: string) => (isIP(host.replace(/^\[|\]$/g, '')) === 0 ? 1 : 0);
  const hosts = [...byHost].sort(([one], [other]) => isName(one) - isName(other)).values();
  const judge = async () => {
    for (const [host, those] of hosts) {
      const late = { verdict: 'unresolved', message: `${host} was not looked up in time` } as const;
      const explained = deadline.signal.aborted ? undefined : explainEgress(those[0]!, settings, lookup);
      const { verdict, message } = (await Promise.race([explained, over])) ?? late;
      for (const url of those) verdicts.set(url, { verdict, message });
    }
  };
  await Promise.all(Array.from({ length: MAX_LOOKUPS }, judge));
  clearTimeout(timer);
  return verdicts;
}

/** Why no request would ever be sent to a URL, whatever names resolve to: it has an address that is refused. */
export function literalRefusal(url: string, settings: EgressSettings): string | undefined {
  const host = URL.parse(url)?.hostname.replace(/^\[|\]$/g, '') ?? '';
  const family = isIP(host);
  if (family === 0) return undefined;
  const judged = checkAddresses(host, [{ address: host, family }], egressRules(settings.allow));
  return judged.kind === 'refused' ? judged.message : undefined;
}

function addressesOf(host: string, lookup: DnsLookup): Promise<LookupAddress[]> {
  const family = isIP(host);
  if (family !== 0) return Promise.resolve([{ address: host, family }]);
  return new Promise((resolve) => {
    lookup(host, { all: true }, (error, addresses) => resolve(error === null ? addresses : []));
  });
}

function hostAndPort(proxy: string): string {
  const { hostname, port } = parseProxyUrl(proxy);
  return `${isIP(hostname) === 6 ? `[${hostname}]` : hostname}:${port}`;
}

/** Whether a connection to an endpoint can be made, as a request would make it. */
export type ReachabilityResult =
  | {
      readonly kind: 'connected';
      /** Milliseconds from the lookup of the name to the end of the handshake. */
      readonly ms: number;
      /** Of the receiver's certificate, in milliseconds since 1970; absent for http. */
      readonly certificateEndsAt?: number;
    }
  /** `reason` as deliveries have it; `detail` is a sentence for the operator. */
  | { readonly kind: 'failed'; readonly reason: string; readonly detail: string };

/** As long as a request may take. spec/specification.md, "Timeout". */
const CONNECT_TIMEOUT = 5000;

/**
 * Connects to an endpoint by the rules, the proxy and the authorities that requests go by, and hangs up: no request is
 * sent. Never rejects.
 */
export function checkReachability(
  text: string,
  settings: EgressSettings & { readonly ca?: string },
  { lookup, patience = CONNECT_TIMEOUT }: { readonly lookup?: DnsLookup; readonly patience?: number } = {},
): Promise<ReachabilityResult> {
  const url = URL.parse(text);
  if (url === null)
    return Promise.resolve({ kind: 'failed', reason: 'invalid_request', detail: 'not an absolute URL' });
  let authorities: { readonly ca?: string };
  try {
    authorities = settings.ca === undefined ? {} : { ca: readAuthorities(settings.ca) };
  } catch (error) {
    return Promise.resolve({ kind: 'failed', ...failureOf(error as Error) });
  }
  const connect = createConnector({
    egress: egressRules(settings.allow),
    ...(lookup && { lookup }),
    ...authorities,
    ...(settings.proxy !== undefined && { proxy: parseProxyUrl(settings.proxy) }),
  });
  const began = performance.now();
  return new Promise((resolve) => {
    const hostname = url.hostname.replace(/^\[|\]$/g, '');
    const target = { protocol: url.protocol, hostname, port: url.port };
    const connected: ConnectCallback = (error, socket) => {
      clearTimeout(timer);
      if (error !== null) {
        resolve({ kind: 'failed', ...failureOf(error) });
        return;
      }
      // A reset while hanging up is of no interest, but without a listener it would end the process.
      socket.on('error', () => {});
      resolve({ kind: 'connected', ms: performance.now() - began, ...certificateOf(socket) });
      socket.destroy();
    };
    // What a receiver says before it is asked is of no interest.
    const giveUp = connect(target, connected, () => {});
    const timer = setTimeout(() => {
      giveUp();
      resolve({ kind: 'failed', reason: 'timeout', detail: `no connection within ${patience / 1000} s` });
    }, patience);
  });
}

function certificateOf(socket: object): { certificateEndsAt?: number } {
  if (!(socket instanceof TLSSocket)) return {};
  const end = Date.parse(socket.getPeerCertificate().valid_to);
  return Number.isNaN(end) ? {} : { certificateEndsAt: end };
}
