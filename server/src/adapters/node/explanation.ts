import { type LookupAddress, lookup as systemLookup } from 'node:dns';
import { isIP } from 'node:net';
import type { Destination, Endpoint } from '../../model/destination.ts';
import { egressRules, type Lookup, resolveAllowed } from './egress.ts';
import { proxyOf } from './tunnel.ts';

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
  readonly addresses: readonly ExplainedAddress[];
  /** The address that is tried first; only when the verdict is `allowed`. */
  readonly used?: string;
  /** Host and port of the proxy that the request goes through. */
  readonly proxy?: string;
  /** One sentence for the operator. */
  readonly message: string;
}

export interface ExplainedAddress {
  readonly address: string;
  readonly allowed: boolean;
  /** `public`, `egress.allow 10.20.0.0/16`, or the range that is refused, such as `loopback`. */
  readonly rule: string;
}

/** Decides as a request would, by the same rules and the same lookup, and sends nothing. Never rejects. */
export async function explainEgress(
  text: string,
  settings: EgressSettings,
  lookup: Lookup = systemLookup,
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
  /** `unresolved` may be better later, so that it is no reason to refuse settings. decisions.md section 2, "network safety". */
  readonly verdict: 'refused' | 'unresolved';
  readonly message: string;
}

/** Looks at every endpoint as a request would. For settings that are about to be used; it sends nothing. Never rejects. */
export async function endpointProblems(
  destinations: readonly Pick<Destination, 'name' | 'settings'>[],
  settings: EgressSettings,
  lookup: Lookup = systemLookup,
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

function addressesOf(host: string, lookup: Lookup): Promise<LookupAddress[]> {
  const family = isIP(host);
  if (family !== 0) return Promise.resolve([{ address: host, family }]);
  return new Promise((resolve) => {
    lookup(host, { all: true }, (error, addresses) => resolve(error === null ? addresses : []));
  });
}

function hostAndPort(proxy: string): string {
  const { hostname, port } = proxyOf(proxy);
  return `${isIP(hostname) === 6 ? `[${hostname}]` : hostname}:${port}`;
}
