import { connect } from 'node:net';

/** A machine that is there answers within it; one that is slower is left to the library and its tries. */
const PATIENCE_MS = 5000;

/**
 * Why no call can reach a server, such as `server unreachable at http://… (ECONNREFUSED)`; undefined when something listens there.
 * Looked at before and after calls are sent: the library tries for minutes, and then reports how that ended and not why.
 */
export async function whyUnreachable(endpoint: string): Promise<string | undefined> {
  const url = URL.parse(endpoint);
  // The library says what is wrong with it.
  if (url === null || !/^https?:$/.test(url.protocol)) return undefined;
  const code = await whyNoConnection(url);
  if (code === undefined) return undefined;
  return `server unreachable at ${url.origin} (${code}): start it, or say where it is with --endpoint or MILLRACE_URL`;
}

function whyNoConnection({ hostname, port, protocol }: URL): Promise<string | undefined> {
  const host = hostname.replace(/^\[|\]$/g, '');
  return new Promise((resolve) => {
    const socket = connect({ host, port: Number(port) || (protocol === 'https:' ? 443 : 80) });
    const end = (code?: string) => {
      socket.destroy();
      resolve(code);
    };
    socket.setTimeout(PATIENCE_MS, () => end());
    socket.once('connect', () => end());
    socket.once('error', (error: NodeJS.ErrnoException) => end(error.code ?? error.message));
  });
}
