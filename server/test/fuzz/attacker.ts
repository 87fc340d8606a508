import { connect, type Socket } from 'node:net';
import type { Attack } from './requests.ts';

/** Statuses that an answer may have, whatever the request. 503: it cannot be stored now. */
const STATUSES = new Set([100, 200, 204, 400, 401, 404, 405, 408, 429, 431, 503]);

/** After the last piece; who is in the middle of a request is not answered, and needs no more. */
const PATIENCE = 150;

/** The server's reaction to an attack. */
export interface Aftermath {
  readonly statuses: readonly number[];
  /** Why this is not what a server may do; undefined when it is. */
  readonly complaint: string | undefined;
}

/** Carries out one attack on a connection of its own. */
export async function attack(
  { pieces, pause, leaves, isReadable }: Attack,
  port: number,
): Promise<Aftermath> {
  const socket = connect(port, '127.0.0.1');
  const received: Buffer[] = [];
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  socket.on('error', () => {});
  socket.on('data', (part) => received.push(part));
  for (const piece of pieces) {
    await sent(socket, piece, closed);
    if (pause > 0) await after(pause);
  }
  if (!leaves) await Promise.race([closed, quiet(socket)]);
  socket.destroy();
  await closed;
  return judge(Buffer.concat(received).toString('latin1'), isReadable && !leaves);
}

function sent(socket: Socket, piece: Buffer, closed: Promise<void>): Promise<void> {
  return Promise.race([closed, new Promise<void>((resolve) => socket.write(piece, () => resolve()))]);
}

/** Resolves when nothing has come for a while. */
function quiet(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    let timer = setTimeout(resolve, PATIENCE);
    socket.on('data', () => {
      clearTimeout(timer);
      timer = setTimeout(resolve, PATIENCE);
    });
    socket.once('close', () => clearTimeout(timer));
  });
}

function after(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

function judge(text: string, isReadable: boolean): Aftermath {
  const statuses = Array.from(text.matchAll(/HTTP\/1\.1 (\d{3}) /g), ([, status]) => Number(status));
  // The control API alone refuses a large body with 413, and a wrong Host with 421; clients of the receiving
  // API know neither.
  const isOfControl = /problem\+json/.test(text);
  const wrong = statuses.find(
    (status) => !STATUSES.has(status) && !(isOfControl && (status === 413 || status === 421)),
  );
  if (wrong !== undefined) return { statuses, complaint: `answered ${wrong}` };
  if (text !== '' && !text.startsWith('HTTP/1.1 '))
    return { statuses, complaint: 'answered what is no HTTP' };
  return { statuses, complaint: isReadable ? complaintOf(text) : undefined };
}

/**
 * Errors are JSON with all that clients look for. spec/specification.md, "Facts about unmodified clients",
 * rule 2.
 */
function complaintOf(text: string): string | undefined {
  const [head = '', body = ''] = text.replace(/^HTTP\/1\.1 100 Continue\r\n\r\n/, '').split('\r\n\r\n');
  const status = Number(head.slice(9, 12));
  const length = /^content-length: (\d+)$/im.exec(head)?.[1];
  // An answer to HEAD, or one that broke off, has no body; the control API has errors of its own.
  if (status < 400 || body === '' || body.length < Number(length) || /problem\+json/.test(head))
    return undefined;
  if (status === 503 && body.startsWith('{"status"')) return undefined;
  try {
    const { success, code, message } = JSON.parse(
      Buffer.from(body.slice(0, Number(length)), 'latin1').toString(),
    );
    if (success === false && typeof code === 'string' && typeof message === 'string') return undefined;
    return `answered ${status} without success, code and message`;
  } catch {
    return `answered ${status} with what is no JSON`;
  }
}
