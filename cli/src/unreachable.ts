import { connect } from 'node:net';

/** Milliseconds in which a reachable machine answers. A slower one is left to the library's retries. */
const PATIENCE_MS = 5000;

/**
 * The reason why no call can reach a server, such as `server unreachable at http://… (ECONNREFUSED)`.
 * Undefined when the port is open. Checked before and after sending: the library retries for minutes and then
 * reports the end, not the cause.
 */
export async function whyUnreachable(endpoint: string): Promise<string | undefined> {
  const url = URL.parse(endpoint);
  // The library reports a wrong URL.
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
