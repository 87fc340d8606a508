import type { Socket } from 'node:net';
import type { RequestHeaders } from '../../ports/http-client.ts';
import { invalidRequest, type RequestFailure } from './errors.ts';

/**
 * The head of a request is made in two parts. The first is the same for every request of an endpoint, and is
 * kept as bytes. The second has the headers of this request and its length.
 * docs/decisions/0040-request-memory.md
 */

/** A token of RFC 9110. */
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** Values are sent in Latin-1. A line break would let a value add headers of its own. */
const HEADER_VALUE = /^[\t\u0020-\u007e\u0080-\u00ff]*$/;

/** Headers that name the receiver, frame the request or manage the connection. Only the client sets them. */
const CONNECTION_HEADERS: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Header names that have been checked and are valid. */
const validNames = new Set<string>();
const MAX_REMEMBERED_NAMES = 1000;

/** The parts of a URL that stand in the head of every request to it. */
export interface RequestTarget {
  /** With the query. */
  readonly path: string;
  /** With the port where it is not that of the protocol. */
  readonly host: string;
}

/**
 * The first part of the head of every request to `target` with these headers; or the reason why none can be
 * sent.
 */
export function serializeFixedHead(
  { path, host }: RequestTarget,
  headers: RequestHeaders = {},
): Buffer | RequestFailure {
  const fields = serializeFields(headers);
  if (typeof fields !== 'string') return fields;
  return Buffer.from(
    `POST ${path} HTTP/1.1\r\nhost: ${host}\r\nconnection: keep-alive\r\n${fields}`,
    'latin1',
  );
}

/**
 * The rest of the head of one request with a body of `length` bytes, one character per byte; or the reason
 * why it cannot be sent.
 */
export function serializeHeadRest(headers: RequestHeaders, length: number): string | RequestFailure {
  const fields = serializeFields(headers);
  return typeof fields === 'string' ? `${fields}content-length: ${length}\r\n\r\n` : fields;
}

function serializeFields(headers: RequestHeaders): string | RequestFailure {
  let fields = '';
  for (const name in headers) {
    const value = headers[name]!;
    const problem = validNames.has(name) ? undefined : nameProblem(name);
    if (problem !== undefined) return problem;
    if (!HEADER_VALUE.test(value)) {
      return invalidRequest(`the value of the header ${name} has characters that cannot be sent`);
    }
    fields += `${name}: ${value}\r\n`;
  }
  return fields;
}

function nameProblem(name: string): RequestFailure | undefined {
  if (!HEADER_NAME.test(name)) return invalidRequest(`${JSON.stringify(name)} is not the name of a header`);
  if (CONNECTION_HEADERS.has(name.toLowerCase())) {
    return invalidRequest(`the header ${name} is set by the connection and by nobody else`);
  }
  if (validNames.size >= MAX_REMEMBERED_NAMES) validNames.clear();
  validNames.add(name);
  return undefined;
}

/** Room for some ten requests whose sockets have not taken them at once. */
const WRITE_BUFFER_BYTES = 16 * 1024;

/**
 * Writes requests, each in one piece: a second write costs as much as all the rest of a request. Nearly
 * always the system takes all of it at once, and the next request is put together in the same place. What a
 * socket keeps stays untouched, and the next one comes behind it. docs/decisions/0040-request-memory.md
 */
export class RequestWriter {
  #buffer = Buffer.allocUnsafeSlow(WRITE_BUFFER_BYTES);
  /** End of what a socket has kept. */
  #kept = 0;

  write(socket: Socket, fixedHead: Buffer, headRest: string, body: Buffer): void {
    const length = fixedHead.length + headRest.length + body.length;
    const buffer = this.#bufferFor(length);
    const from = buffer === this.#buffer ? this.#kept : 0;
    let at = from + fixedHead.copy(buffer, from);
    at += buffer.write(headRest, at, 'latin1');
    at += body.copy(buffer, at);
    socket.write(buffer.subarray(from, at));
    if (socket.writableLength > 0 && buffer === this.#buffer) this.#kept = at;
  }

  #bufferFor(length: number): Buffer {
    if (length > WRITE_BUFFER_BYTES) return Buffer.allocUnsafeSlow(length);
    if (length > WRITE_BUFFER_BYTES - this.#kept) {
      this.#buffer = Buffer.allocUnsafeSlow(WRITE_BUFFER_BYTES);
      this.#kept = 0;
    }
    return this.#buffer;
  }
}
