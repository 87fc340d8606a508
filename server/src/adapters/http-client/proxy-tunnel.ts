import { isIP, type Socket, connect as tcpConnect } from 'node:net';
import { type SecureContext, connect as tlsConnect } from 'node:tls';
import type { CheckedAddress } from './egress.ts';
import { HttpClientError } from './errors.ts';

/** The proxy of `egress.proxy`. */
export interface EgressProxy {
  readonly isSecure: boolean;
  readonly hostname: string;
  readonly port: number;
  /** The value of `Proxy-Authorization`; absent when the URL carries no credentials. */
  readonly authorization: string | undefined;
}

/** One connection through a proxy. */
export interface TunnelOptions {
  readonly proxy: EgressProxy;
  readonly to: CheckedAddress;
  readonly port: number;
  /** For a proxy that is itself reached over TLS. */
  readonly trust: SecureContext;
}

/** Called once, never before `openTunnel` returns. */
export type TunnelCallback = (
  ...result: [error: null, socket: Socket] | [error: HttpClientError, socket: null]
) => void;

/** The longest head of an answer to CONNECT. */
const MAX_HEAD_BYTES = 16 * 1024;

const HEAD_END = '\r\n\r\n';

/**
 * Reads a proxy's URL, which the configuration has checked: absolute, `http:` or `https:`, credentials
 * allowed.
 */
export function parseProxyUrl(text: string): EgressProxy {
  const url = new URL(text);
  const isSecure = url.protocol === 'https:';
  const credentials = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
  return {
    isSecure,
    hostname: url.hostname.replace(/^\[|\]$/g, ''),
    port: Number(url.port || (isSecure ? 443 : 80)),
    authorization: credentials === ':' ? undefined : `Basic ${Buffer.from(credentials).toString('base64')}`,
  };
}

/**
 * Asks a proxy for a connection to an address with CONNECT. It names the address and not the host: the proxy
 * would look the host up again and could get an address that was not checked. The proxy's own address is the
 * operator's choice, and is not checked.
 *
 * @returns the socket to the proxy; destroying it cancels the attempt
 */
export function openTunnel(options: TunnelOptions, tunnelled: TunnelCallback): Socket {
  const { proxy, to, port } = options;
  const authority = `${to.family === 6 ? `[${to.address}]` : to.address}:${port}`;
  const socket = connectToProxy(options);
  let head = Buffer.allocUnsafe(1024);
  let size = 0;
  const end = (error: HttpClientError | null) => {
    for (const [event, listener] of Object.entries(listeners)) socket.off(event, listener);
    if (error === null) {
      tunnelled(null, socket);
      return;
    }
    // Without a listener a later error would end the process.
    socket.on('error', () => {});
    socket.destroy();
    tunnelled(error, null);
  };
  const listeners = {
    error: (error: Error) => end(proxyError(proxy, error.message)),
    end: () => end(proxyError(proxy, 'it closed the connection')),
    [proxy.isSecure ? 'secureConnect' : 'connect']: () => {
      const authorization =
        proxy.authorization === undefined ? '' : `Proxy-Authorization: ${proxy.authorization}\r\n`;
      socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${authorization}\r\n`);
    },
    readable: () => {
      for (let chunk: unknown = socket.read(); chunk instanceof Buffer; chunk = socket.read()) {
        // Only new bytes are searched, and the buffer is doubled: a head may come byte by byte.
        const from = Math.max(size - HEAD_END.length + 1, 0);
        if (size + chunk.length > head.length) head = Buffer.concat([head], 2 * (size + chunk.length));
        size += chunk.copy(head, size);
        const after = head.subarray(0, size).indexOf(HEAD_END, from);
        if (after === -1 && size <= MAX_HEAD_BYTES) continue;
        const isTooLong = after === -1 || after > MAX_HEAD_BYTES;
        const refusal = isTooLong
          ? 'the head of its answer to CONNECT is longer than 16 KB'
          : connectRefusal(head.toString('latin1', 0, after), authority);
        // The other side of the tunnel may have sent bytes already. They belong to the connection.
        const rest = head.subarray(after + HEAD_END.length, size);
        if (refusal === undefined && rest.length > 0) socket.unshift(rest);
        end(refusal === undefined ? null : proxyError(proxy, refusal));
        return;
      }
    },
  };
  for (const [event, listener] of Object.entries(listeners)) socket.on(event, listener);
  return socket;
}

function connectToProxy({ proxy, trust }: TunnelOptions): Socket {
  const { hostname: host, port } = proxy;
  const options = { noDelay: true, keepAlive: true } as const;
  if (!proxy.isSecure) return tcpConnect({ host, port, autoSelectFamily: true, ...options });
  const servername = isIP(host) === 0 ? host : '';
  const secured = { secureContext: trust, rejectUnauthorized: true, ALPNProtocols: ['http/1.1'] };
  return tlsConnect({ host, port, servername, ...secured, ...options });
}

/** Why the proxy refused the tunnel; undefined when it did not. */
function connectRefusal(head: string, authority: string): string | undefined {
  const status = /^HTTP\/1\.[01] (\d{3})(?:[ \r]|$)/.exec(head)?.[1];
  if (status === undefined) return 'what it answered to CONNECT is not HTTP';
  if (status.startsWith('2')) return undefined;
  const hint = status === '407' ? '; it wants other credentials' : '';
  return `it answered ${status} to CONNECT ${authority}${hint}`;
}

/** The message has no credentials, because it is logged. */
function proxyError({ hostname, port }: EgressProxy, what: string): HttpClientError {
  return new HttpClientError(
    'connection_failed',
    `the proxy ${hostname}:${port} gives no connection: ${what}`,
  );
}
