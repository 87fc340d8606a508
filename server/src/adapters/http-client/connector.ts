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

/** Where to connect: `protocol` with its colon, `hostname` without the brackets of IPv6, `port` empty for the usual one. */
export interface ConnectTarget {
  readonly protocol: string;
  readonly hostname: string;
  readonly port: string;
}

/** Called once, never before `Connect` returns, and not at all after a cancellation. */
export type ConnectCallback = (
  ...result: [error: null, socket: Socket] | [error: Error, socket: null]
) => void;

/** Hears what comes: the first `length` bytes of a buffer that is read into again as soon as this returns. */
export type ReadCallback = (bytes: Buffer, length: number) => void;

/** Opens one connection; the returned function gives it up, connected or not. */
export type Connect = (target: ConnectTarget, connected: ConnectCallback, read: ReadCallback) => () => void;

export interface ConnectorOptions {
  readonly egress: EgressRules;
  readonly lookup?: DnsLookup;
  /** Certificates (PEM) of authorities to trust beside the system's. */
  readonly ca?: string;
  /** Where every connection goes through; absent: none. The environment has no say in it. */
  readonly proxy?: EgressProxy;
}

/**
 * How long one of several addresses may take before the next is tried as well. Node's 250 ms would give up on addresses
 * that are merely far away.
 */
const ADDRESS_ATTEMPT_TIMEOUT = 1000;

/** What one read takes at most: what libuv would take into a new buffer for every read. */
const READ_BUFFER_BYTES = 64 * 1024;

/** How long a silent connection stands before the system asks whether the other side is still there. */
const KEEP_ALIVE_PROBE = 60_000;

/**
 * Makes connections to checked addresses only. What is still connecting can be given up: an address that swallows packets
 * would keep a socket for two minutes per request otherwise. All connections read into one buffer, as nothing waits between a
 * read and its end.
 */
export function createConnector({ egress, lookup = systemLookup, ca, proxy }: ConnectorOptions): Connect {
  let built: SecureContext | undefined;
  // Built once: reading every root certificate takes milliseconds.
  const trust = (): SecureContext => {
    built ??= createTrustStore(ca);
    return built;
  };
  const lookups = new Map<string, Promise<EgressResolution>>();

  /** One lookup per name at a time: each holds one of the few threads that the whole process looks names up with. */
  const resolve = (hostname: string): Promise<EgressResolution> => {
    const under = lookups.get(hostname);
    if (under !== undefined) return under;
    const resolution = resolveAllowed(hostname, egress, lookup).finally(() => lookups.delete(hostname));
    lookups.set(hostname, resolution);
    return resolution;
  };

  const buffer = Buffer.allocUnsafeSlow(READ_BUFFER_BYTES);

  return (target, connected, read) => {
    let giveUp = () => {};
    let cancelled = false;
    void resolve(target.hostname).then((resolution) => {
      if (cancelled) return;
      if (resolution.kind !== 'allowed') {
        const reason = resolution.kind === 'refused' ? 'egress_refused' : 'name_not_resolved';
        connected(new HttpClientError(reason, resolution.message), null);
        return;
      }
      const way: ConnectRoute = { target, addresses: resolution.addresses, trust, read, buffer };
      giveUp = proxy === undefined ? openDirect(way, connected) : openThroughProxy(proxy, way, connected);
    });
    return () => {
      cancelled = true;
      giveUp();
    };
  };
}

/** Whom to connect to, over which addresses, and whom to believe. */
interface ConnectRoute {
  readonly target: ConnectTarget;
  readonly addresses: readonly CheckedAddress[];
  readonly trust: () => SecureContext;
  readonly read: ReadCallback;
  readonly buffer: Buffer;
}

function openDirect(way: ConnectRoute, connected: ConnectCallback): () => void {
  const { target, trust } = way;
  const socket =
    target.protocol === 'https:'
      ? openTls(target, { ...socketOptions(way), port: portOf(target) }, { trust: trust(), connected })
      : openTcp(way, connected);
  return () => socket.destroy();
}

/** One address after the other: only the proxy can tell whether one takes connections. */
function openThroughProxy(
  proxy: EgressProxy,
  { target, addresses, trust, read }: ConnectRoute,
  connected: ConnectCallback,
): () => void {
  // Through a tunnel what comes is read as a stream: the proxy's own answer was read from it before.
  const hear: ConnectCallback = (...result) => {
    const [, tunnelled] = result;
    tunnelled?.on('data', (bytes: Buffer) => read(bytes, bytes.length));
    connected(...result);
  };
  let socket: Socket | undefined;
  let cancelled = false;
  const open = (to: CheckedAddress, others: readonly CheckedAddress[]): void => {
    socket = openTunnel({ proxy, to, port: portOf(target), trust: trust() }, (error, tunnelled) => {
      const [next, ...rest] = others;
      if (cancelled) return;
      if (error !== null) {
        if (next === undefined) hear(error, null);
        else open(next, rest);
      } else if (target.protocol === 'https:') {
        socket = openTls(target, { socket: tunnelled }, { trust: trust(), connected: hear });
      } else {
        hear(null, tunnelled);
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

function openTcp(way: ConnectRoute, connected: ConnectCallback): Socket {
  const socket = tcpConnect({ ...socketOptions(way), port: portOf(way.target) });
  reportConnection(socket, 'connect', connected, (error) => error);
  return socket;
}

/**
 * The certificate must be valid for the host of the URL, whatever `Host` header is sent. `rejectUnauthorized` is given
 * because NODE_TLS_REJECT_UNAUTHORIZED=0 in the environment would switch the check off otherwise (spec/specification.md,
 * "Certificates"). Sessions are not resumed: a resumed one is not checked again, and would outlive the certificate.
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
    // Without it the name to check would be `localhost` when the connection comes through a proxy.
    host: hostname,
    secureContext: trust,
    rejectUnauthorized: true,
    ALPNProtocols: ['http/1.1'],
  });
  // `authorizationError` is set by Node when, and only when, the chain or the name was the reason.
  reportConnection(socket, 'secureConnect', connected, (error) => {
    return socket.authorizationError ? certificateFailure(error) : error;
  });
  return socket;
}

/** From the moment it is connected the socket's errors are for others to hear. */
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

/** `lookup` hands out what was checked: the name is never asked for again between the check and the connection. */
function socketOptions({ target: { hostname }, addresses, read, buffer }: ConnectRoute) {
  const lookup: LookupFunction = (_hostname, options, done) => {
    const [first] = addresses;
    if (options.all) done(null, [...addresses]);
    else done(null, first!.address, first!.family);
  };
  return {
    host: hostname,
    lookup,
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: ADDRESS_ATTEMPT_TIMEOUT,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: KEEP_ALIVE_PROBE,
    onread: {
      buffer,
      callback: (length: number) => {
        read(buffer, length);
        return true;
      },
    },
  };
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/**
 * The certificates (PEM) of a file that `egress.ca` names. Throws an `Error` for the operator when there are none, or when
 * one of them is damaged: TLS would pass over it in silence, and every endpoint it vouches for would fail.
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

/** Everybody this machine trusts, and these (PEM). Reads every root certificate, which takes milliseconds. */
function createTrustStore(ca: string | undefined): SecureContext {
  return createSecureContext(ca === undefined ? {} : { ca: [...getCACertificates('default'), ca] });
}
