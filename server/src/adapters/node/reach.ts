import { TLSSocket } from 'node:tls';
import { readAuthorities } from './authorities.ts';
import { type Connected, createConnector } from './connector.ts';
import { egressRules, type Lookup } from './egress.ts';
import type { EgressSettings } from './explanation.ts';
import { failureOf } from './failure.ts';
import { proxyOf } from './tunnel.ts';

/** Whether a connection to an endpoint can be made, as a request would make it. */
export type Reached =
  | {
      readonly kind: 'connected';
      /** Milliseconds from the lookup of the name to the end of the handshake. */
      readonly ms: number;
      /** Of the receiver's certificate, in milliseconds since 1970; absent for http. */
      readonly certificateEndsAt?: number;
    }
  /** `reason` as deliveries have it; `detail` is a sentence for the operator. */
  | { readonly kind: 'failed'; readonly reason: string; readonly detail: string };

/** As long as a request may take. decisions.md section 2, "retried". */
const PATIENCE = 5000;

/**
 * Connects to an endpoint by the rules, the proxy and the authorities that requests go by, and hangs up: no request is
 * sent. Never rejects.
 */
export function reachEndpoint(
  text: string,
  settings: EgressSettings & { readonly ca?: string },
  { lookup, patience = PATIENCE }: { readonly lookup?: Lookup; readonly patience?: number } = {},
): Promise<Reached> {
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
    ...(settings.proxy !== undefined && { proxy: proxyOf(settings.proxy) }),
  });
  const began = performance.now();
  return new Promise((resolve) => {
    const hostname = url.hostname.replace(/^\[|\]$/g, '');
    const target = { protocol: url.protocol, hostname, port: url.port };
    const connected: Connected = (error, socket) => {
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
