import { X509Certificate } from 'node:crypto';
import { lookup as systemLookup } from 'node:dns';
import { readFileSync } from 'node:fs';
import { isIP, type LookupFunction, type Socket, connect as tcpConnect } from 'node:net';
import {
  createSecureContext,
  getCACertificates,
  type SecureContext,
  type TLSSocket,
  connect as tlsConnect,
} from 'node:tls';
import {
  type CheckedAddress,
  type DnsLookup,
  type EgressResolution,
  type EgressRules,
  resolveAllowed,
} from './egress.ts';
import { certificateFailure, HttpClientError } from './errors.ts';
import { type EgressProxy, openTunnel } from './proxy-tunnel.ts';

/** `protocol` has its colon, `hostname` no brackets of IPv6, and `port` is empty for the default one. */
export interface ConnectTarget {
  readonly protocol: string;
  readonly hostname: string;
  readonly port: string;
}

/** Called once, never before `Connect` returns, and never after a cancellation. */
export type ConnectCallback = (
  ...result: [error: null, socket: Socket] | [error: Error, socket: null]
) => void;

/**
 * Gets the first `length` bytes of a buffer, which is reused as soon as this returns. Returns true, which is
 * how Node's sockets are told to read on: they call it with no function in between.
 */
export type ReadCallback = (length: number, bytes: Buffer) => true;

/** Opens one connection. The returned function cancels it, connected or not. */
export type Connect = (target: ConnectTarget, connected: ConnectCallback, read: ReadCallback) => () => void;

export interface ConnectorOptions {
  readonly egress: EgressRules;
  readonly lookup?: DnsLookup;
  /** Certificates (PEM) of authorities to trust beside the system's. */
  readonly ca?: string;
  /** For every connection; none if absent. The environment is not looked at. */
  readonly proxy?: EgressProxy;
}

/**
 * How long one of several addresses may take before the next is tried. Node's default of 250 ms would skip
 * addresses that are only far away.
 */
const ADDRESS_ATTEMPT_TIMEOUT = 1000;

/** Most bytes of one read, as in libuv, which would make a new buffer of this size for every read. */
const READ_BUFFER_BYTES = 64 * 1024;

/** Time without traffic after which the system sends a TCP keep-alive probe, in milliseconds. */
const KEEP_ALIVE_PROBE = 60_000;

/**
 * Connects to checked addresses only. A connection attempt can be cancelled: an address that drops packets
 * would keep a socket for two minutes otherwise. All connections read into one buffer, because each read is
 * handled before the next.
 */
export function createConnector({ egress, lookup = systemLookup, ca, proxy }: ConnectorOptions): Connect {
  let trustStore: SecureContext | undefined;
  // Built once: reading every root certificate takes milliseconds.
  const trust = (): SecureContext => {
    trustStore ??= createTrustStore(ca);
    return trustStore;
  };
  const lookups = new Map<string, Promise<EgressResolution>>();

  /** One lookup per name at a time: each takes one of the few threads that the process has for them. */
  const resolve = (hostname: string): Promise<EgressResolution> => {
    const running = lookups.get(hostname);
    if (running !== undefined) return running;
    const resolution = resolveAllowed(hostname, egress, lookup).finally(() => lookups.delete(hostname));
    lookups.set(hostname, resolution);
    return resolution;
  };

  const buffer = Buffer.allocUnsafeSlow(READ_BUFFER_BYTES);

  return (target, connected, read) => {
    let cancel = () => {};
    let cancelled = false;
    void resolve(target.hostname).then((resolution) => {
      if (cancelled) return;
      if (resolution.kind !== 'allowed') {
        const reason = resolution.kind === 'refused' ? 'egress_refused' : 'name_not_resolved';
        connected(new HttpClientError(reason, resolution.message), null);
        return;
      }
      const route: ConnectRoute = { target, addresses: resolution.addresses, trust, read, buffer };
      cancel = proxy === undefined ? openDirect(route, connected) : openThroughProxy(proxy, route, connected);
    });
    return () => {
      cancelled = true;
      cancel();
    };
  };
}

/** Opens connections for protocols other than HTTP. */
export interface SocketOpener {
  /**
   * Connects to a checked address, through the proxy if there is one. Rejects with the reason; destroys what
   * comes after `limit`.
   */
  open(hostname: string, port: number, limit: number): Promise<Socket>;
  /** The authorities that a TLS connection trusts. */
  trust(): SecureContext;
}

/** As `createConnector`, by the same rules, but the sockets are read as streams. */
export function createSocketOpener({
  egress,
  lookup = systemLookup,
  ca,
  proxy,
}: ConnectorOptions): SocketOpener {
  let trustStore: SecureContext | undefined;
  const trust = (): SecureContext => {
    trustStore ??= createTrustStore(ca);
    return trustStore;
  };
  return {
    trust,
    async open(hostname, port, limit) {
      const resolution = await resolveAllowed(hostname, egress, lookup);
      if (resolution.kind !== 'allowed') throw new Error(resolution.message);
      const { addresses } = resolution;
      const { promise, resolve, reject } = Promise.withResolvers<Socket>();
      const connected: ConnectCallback = (error, opened) =>
        error === null ? resolve(opened) : reject(explained(error));
      const socket =
        proxy === undefined
          ? tcpConnect({ host: hostname, port, lookup: fixedLookup(addresses), autoSelectFamily: true })
          : openTunnel({ proxy, to: addresses[0]!, port, trust: trust() }, connected);
      if (proxy === undefined) reportConnection(socket, 'connect', connected, (error) => error);
      const timer = setTimeout(() => {
        socket.destroy();
        reject(new Error(`no connection to ${hostname}:${port} within ${limit / 1000} seconds`));
      }, limit);
      return await promise.finally(() => clearTimeout(timer));
    },
  };
}

/** An error of several addresses says nothing itself. */
function explained(error: Error): Error {
  const last: unknown = error instanceof AggregateError ? error.errors.at(-1) : undefined;
  return last instanceof Error ? last : error;
}

/** A target with its checked addresses and the trusted certificates. */
interface ConnectRoute {
  readonly target: ConnectTarget;
  readonly addresses: readonly CheckedAddress[];
  readonly trust: () => SecureContext;
  readonly read: ReadCallback;
  readonly buffer: Buffer;
}

function openDirect(route: ConnectRoute, connected: ConnectCallback): () => void {
  const { target, trust } = route;
  const socket =
    target.protocol === 'https:'
      ? openTls(target, { ...socketOptions(route), port: portOf(target) }, { trust: trust(), connected })
      : openTcp(route, connected);
  return () => socket.destroy();
}

/** Tries one address after the other: only the proxy can tell whether one accepts connections. */
function openThroughProxy(
  proxy: EgressProxy,
  { target, addresses, trust, read }: ConnectRoute,
  connected: ConnectCallback,
): () => void {
  // The socket of a tunnel is read as a stream, as the proxy's own answer was before.
  const onTunnel: ConnectCallback = (...result) => {
    const [, tunnelled] = result;
    tunnelled?.on('data', (bytes: Buffer) => read(bytes.length, bytes));
    connected(...result);
  };
  let socket: Socket | undefined;
  let cancelled = false;
  const open = (to: CheckedAddress, others: readonly CheckedAddress[]): void => {
    socket = openTunnel({ proxy, to, port: portOf(target), trust: trust() }, (error, tunnelled) => {
      const [next, ...rest] = others;
      if (cancelled) return;
      if (error !== null) {
        if (next === undefined) onTunnel(error, null);
        else open(next, rest);
      } else if (target.protocol === 'https:') {
        socket = openTls(target, { socket: tunnelled }, { trust: trust(), connected: onTunnel });
      } else {
        onTunnel(null, tunnelled);
      }
    });
  };
  const [first, ...others] = addresses;
  open(first!, others);
  return () => {
    cancelled = true;
    socket?.destroy();
  };
}

function portOf({ protocol, port }: ConnectTarget): number {
  return Number(port || (protocol === 'https:' ? 443 : 80));
}

function openTcp(route: ConnectRoute, connected: ConnectCallback): Socket {
  const socket = tcpConnect({ ...socketOptions(route), port: portOf(route.target) });
  reportConnection(socket, 'connect', connected, (error) => error);
  return socket;
}

/**
 * The certificate must be valid for the host of the URL, whatever `Host` header is sent. `rejectUnauthorized`
 * is set because NODE_TLS_REJECT_UNAUTHORIZED=0 in the environment would switch the check off otherwise
 * (spec/specification.md, "Certificates"). Sessions are not resumed: a resumed session is not checked again,
 * and could outlive the certificate.
 */
function openTls(
  { hostname }: ConnectTarget,
  over: { readonly socket: Socket } | (ReturnType<typeof socketOptions> & { readonly port: number }),
  { trust, connected }: { readonly trust: SecureContext; readonly connected: ConnectCallback },
): TLSSocket {
  const socket = tlsConnect({
    ...over,
    // RFC 6066: neither an address nor the final dot of an absolute name is sent as a server name.
    servername: isIP(hostname) === 0 ? hostname.replace(/\.$/, '') : '',
    // Without it the name that is checked would be `localhost` when the connection goes through a proxy.
    host: hostname,
    secureContext: trust,
    rejectUnauthorized: true,
    ALPNProtocols: ['http/1.1'],
  });
  // Node sets `authorizationError` only when the chain or the name was the reason.
  reportConnection(socket, 'secureConnect', connected, (error) => {
    return socket.authorizationError ? certificateFailure(error) : error;
  });
  return socket;
}

/** Reports the connection or its failure. Errors of the connected socket are left to the caller. */
function reportConnection(
  socket: Socket,
  event: string,
  connected: ConnectCallback,
  explain: (error: Error) => Error,
): void {
  const fail = (error: Error) => connected(explain(error), null);
  socket.once('error', fail);
  socket.once(event, () => {
    socket.off('error', fail);
    connected(null, socket);
  });
}

/** Returns the checked addresses: the name is not looked up again between the check and the connection. */
function fixedLookup(addresses: readonly CheckedAddress[]): LookupFunction {
  return (_hostname, options, done) => {
    const [first] = addresses;
    if (options.all) done(null, [...addresses]);
    else done(null, first!.address, first!.family);
  };
}

function socketOptions({ target: { hostname }, addresses, read, buffer }: ConnectRoute) {
  return {
    host: hostname,
    lookup: fixedLookup(addresses),
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: ADDRESS_ATTEMPT_TIMEOUT,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: KEEP_ALIVE_PROBE,
    onread: { buffer, callback: read },
  };
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/**
 * Reads the certificates (PEM) of the file that `egress.ca` names. Throws an `Error` for the operator when
 * there are none, or when one is damaged: TLS would ignore it silently, and every endpoint that needs it
 * would fail.
 */
export function readAuthorities(path: string): string {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error);
    throw new Error(`egress.ca: ${path} cannot be read (${code})`, { cause: error });
  }
  const certificates = text.match(CERTIFICATE) ?? [];
  if (certificates.length === 0) throw new Error(`egress.ca: ${path} holds no certificate in PEM form`);
  for (const [index, certificate] of certificates.entries()) {
    try {
      new X509Certificate(certificate);
    } catch (error) {
      throw new Error(`egress.ca: certificate ${index + 1} of ${path} is damaged`, { cause: error });
    }
  }
  return certificates.join('\n');
}

/**
 * The authorities that this machine trusts, and `ca` (PEM). Reads every root certificate, which takes
 * milliseconds.
 */
function createTrustStore(ca: string | undefined): SecureContext {
  return createSecureContext(ca === undefined ? {} : { ca: [...getCACertificates('default'), ca] });
}
