import { type LookupAddress, lookup as systemLookup } from 'node:dns';
import { once } from 'node:events';
import { isIP } from 'node:net';
import { TLSSocket } from 'node:tls';
import { defined } from '../../model/json.ts';
import type { Target } from '../../model/lane.ts';
import { type Duration, SECOND } from '../../model/time.ts';
import type { EgressVerdict } from '../../ports/http-client.ts';
import { type ConnectCallback, createConnector, readAuthorities } from './connector.ts';
import { checkAddresses, type DnsLookup, egressRules, resolveAllowed } from './egress.ts';
import { failureOf } from './errors.ts';
import { parseProxyUrl } from './proxy-tunnel.ts';

/** The configuration of outbound requests. */
export interface EgressSettings {
  readonly allow: readonly string[];
  readonly proxy?: string;
}

/** The verdict on a URL, with the rule that decided about each of its addresses. */
export interface EgressExplanation extends EgressVerdict {
  readonly url: string;
  /** The host as it is looked up; empty when the URL is invalid. */
  readonly host: string;
  readonly port: number;
  readonly addresses: readonly AddressRuling[];
  /** The address that is tried first; only when the verdict is `allowed`. */
  readonly used?: string;
  /** Host and port of the proxy that the request goes through. */
  readonly proxy?: string;
}

export interface AddressRuling {
  readonly address: string;
  readonly allowed: boolean;
  /** `public`, `egress.allow 10.20.0.0/16`, or the range that is refused, such as `loopback`. */
  readonly rule: string;
}

/** Decides by the rules and the lookup that a request would use, and sends nothing. Never rejects. */
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
  const common = {
    // Credentials and query are left out: the result is printed.
    url: `${url.origin}${url.pathname}`,
    host,
    port: Number(url.port || (url.protocol === 'https:' ? 443 : 80)),
    addresses,
    ...defined({ proxy: settings.proxy === undefined ? undefined : hostAndPort(settings.proxy) }),
  };
  if (resolution.kind === 'allowed') {
    const [first] = resolution.addresses;
    const message = 'requests are sent';
    return { ...common, verdict: 'allowed', used: first!.address, message };
  }
  if (resolution.kind === 'refused') return { ...common, verdict: 'refused', message: resolution.message };
  return { ...common, verdict: 'unresolved', message: `${host} does not resolve` };
}

/** An endpoint that no request would reach now. */
export interface EndpointProblem {
  readonly destination: string;
  /** Its index in the settings. */
  readonly place: number;
  /** See `EgressVerdict`. */
  readonly verdict: 'refused' | 'unresolved';
  readonly message: string;
}

/**
 * Finds the endpoints of settings that no request would reach, before the settings are used. Sends nothing.
 * Never rejects.
 */
export async function endpointProblems(
  destinations: readonly { readonly name: string; readonly targets: readonly Target[] }[],
  settings: EgressSettings,
  lookup: DnsLookup = systemLookup,
): Promise<EndpointProblem[]> {
  const problems: EndpointProblem[] = [];
  for (const { name, targets } of destinations) {
    const addressed = targets.flatMap(({ place, address }) =>
      address === undefined ? [] : [{ place, address }],
    );
    // One destination after the other: each lookup takes one of the few threads that the process has for
    // them.
    const explained = await Promise.all(
      addressed.map(({ address }) => explainEgress(address, settings, lookup)),
    );
    for (const [nth, { verdict, message }] of explained.entries()) {
      if (verdict === 'allowed' || verdict === 'invalid') continue;
      problems.push({ destination: name, place: addressed[nth]!.place, verdict, message });
    }
  }
  return problems;
}

/**
 * Names looked up at the same time. Each lookup takes one of the few threads that the process has for them.
 */
const MAX_LOOKUPS = 2;

/** Time for all names together, because the user who saves settings waits for it. */
const LOOKUP_TIMEOUT: Duration = 3 * SECOND;

/**
 * The verdict on each URL. Sends nothing. Each name is looked up once; names without an answer when
 * `patience` is over count as unresolved. Never rejects.
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
  // Literal addresses first: slow names must not keep them from being refused.
  const isName = (host: string) => (isIP(host.replace(/^\[|\]$/g, '')) === 0 ? 1 : 0);
  const hosts = [...byHost].sort(([one], [other]) => isName(one) - isName(other)).values();
  const judge = async () => {
    for (const [host, urlsOfHost] of hosts) {
      const late = { verdict: 'unresolved', message: `${host} was not looked up in time` } as const;
      const explained = deadline.signal.aborted ? undefined : explainEgress(urlsOfHost[0]!, settings, lookup);
      const { verdict, message } = (await Promise.race([explained, over])) ?? late;
      for (const url of urlsOfHost) verdicts.set(url, { verdict, message });
    }
  };
  await Promise.all(Array.from({ length: MAX_LOOKUPS }, judge));
  clearTimeout(timer);
  return verdicts;
}

/** The refusal of a URL whose host is a refused address; undefined for names, whose address may change. */
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

/** The result of a connection to an endpoint. */
export type ReachabilityResult =
  | {
      readonly kind: 'connected';
      /** Milliseconds from the lookup of the name to the end of the handshake. */
      readonly ms: number;
      /** End of the receiver's certificate, in milliseconds since 1970; absent for http. */
      readonly certificateEndsAt?: number;
    }
  /** `reason` as deliveries have it; `detail` is a sentence for the operator. */
  | { readonly kind: 'failed'; readonly reason: string; readonly detail: string };

/** The same as for a request. spec/specification.md, "Timeout". */
const CONNECT_TIMEOUT = 5000;

/**
 * Connects to an endpoint by the rules, proxy and authorities that apply to requests, and closes the
 * connection without sending a request. Never rejects.
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
    ...defined({
      lookup,
      proxy: settings.proxy === undefined ? undefined : parseProxyUrl(settings.proxy),
    }),
    ...authorities,
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
      // Without a listener, a reset during the close would end the process.
      socket.on('error', () => {});
      resolve({ kind: 'connected', ms: performance.now() - began, ...certificateOf(socket) });
      socket.destroy();
    };
    // Bytes that a receiver sends by itself are ignored.
    const giveUp = connect(target, connected, () => true);
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
