import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Measures } from '../ports/measures.ts';
import { ASKED, type Carrier } from './connections.ts';
import type { ErrorCode } from './errors.ts';
import { asText, failure } from './respond.ts';

const CODES: Readonly<Record<string, ErrorCode>> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
};

/** Connections that are only waiting for the answers they are still owed. */
const ENDING = new WeakSet<Duplex>();

/**
 * No request could be read on this connection, or it was too slow in coming; `code` is of Node's error. Requests that came
 * whole before it get their answers first: an error in their place would be taken for theirs. A request that was refused
 * by its head has its answer, and gets no second one for what is wrong with its body: the client would take it for the
 * answer to its next request.
 */
export function answerUnreadable(
  code: string | undefined,
  socket: Duplex,
  measures: Measures | undefined,
): void {
  // Without a handshake there is nobody to answer: what spoke was no TLS.
  if (code === 'ECONNRESET' || /^ERR_(SSL|TLS)_/.test(code ?? '')) {
    socket.destroy();
    return;
  }
  // Every further byte is an error too.
  if (ENDING.has(socket)) return;
  ENDING.add(socket);
  if ((socket as Carrier)[ASKED]?.isAnsweredEarly) {
    afterAnswers(socket, () => socket.end(() => socket.destroy()));
    return;
  }
  const answer = failure(CODES[code ?? ''] ?? 'malformed_request');
  measures?.answered(answer.status, answer.code);
  const text = asText(answer);
  afterAnswers(socket, () => {
    if (socket.writable) socket.end(text, () => socket.destroy());
    else socket.destroy();
  });
}

/** Calls `then` when every answer that is owed or begun is written; never when the connection breaks before. */
function afterAnswers(socket: Duplex, then: () => void): void {
  const response = responseOn(socket);
  if (response === undefined || !(response.req.complete || response.headersSent)) then();
  // By then Node has put the next answer in its place.
  else response.once('finish', () => afterAnswers(socket, then));
}

/** The answer whose turn it is on this connection. Node keeps it there and nowhere else. */
function responseOn(socket: Duplex): ServerResponse | undefined {
  return (socket as Duplex & { readonly _httpMessage?: ServerResponse | null })._httpMessage ?? undefined;
}
