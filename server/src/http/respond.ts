import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { STATUS_TEXT } from '../model/status-text.ts';
import type { Verdict } from '../ports/receiver.ts';
import { ERRORS, type ErrorCode, entryOf, isErrorCode } from './errors.ts';

type Unavailable = Extract<Verdict, { kind: 'unavailable' }>;
type Refused = Extract<Verdict, { kind: 'refused' }>;

/** A whole answer, ready to be written as often as needed. */
export interface Answer {
  readonly status: number;
  /** Names and values in turn, as `writeHead` takes them. */
  readonly headers: string[];
  readonly body: string | Buffer;
  /** Of the catalogue, where something was wrong. */
  readonly code?: string;
}

/** Clients wait no longer than this, whatever is asked. decisions.md section 1, "overload". */
const LONGEST_WAIT_SECONDS = 300;

/** Nothing but these exact bytes with status 200 means success to every client. wire.md section 0, rule 1. */
const STORED = answerOf(200, '{"success":true}');

/** Answers without detail, ready made. */
const FAILURES: ReadonlyMap<string, Answer> = new Map(
  Array.from(ERRORS, ([code, { status, message }]) => [code, errorAnswer(status, code, message)]),
);

export function success(): Answer {
  return STORED;
}

/** The answer of the receiving API to a verdict. A code that is not in the catalogue is our error, not the client's. */
export function answerTo(verdict: Verdict): Answer {
  switch (verdict.kind) {
    case 'stored':
      return STORED;
    case 'refused':
      return refusal(verdict);
    case 'unavailable':
      return comeBack(verdict);
  }
}

/** With the calls that were wrong, where a batch was refused for some of its calls. */
function refusal({ code, detail, invalid }: Refused): Answer {
  const known = isErrorCode(code) ? code : 'internal_error';
  if (invalid === undefined) return failure(known, detail);
  const { status, message } = entryOf(known);
  const errors = invalid.map((call) => ({ ...call, message: ERRORS.get(call.code)?.message ?? '' }));
  return {
    ...answerOf(status, JSON.stringify({ success: false, code: known, message, errors })),
    code: known,
  };
}

/**
 * An error: always `success`, `code` and `message`, as several clients read all three. `detail` is a sentence that says
 * more than the catalogue does.
 */
export function failure(code: ErrorCode, detail?: string): Answer {
  if (detail === undefined) return FAILURES.get(code)!;
  const { status, message } = entryOf(code);
  return errorAnswer(status, code, `${message} ${detail}`);
}

/** 429 and 503 say when to come back, in both headers that clients look at. */
function comeBack({ code, retryAfter }: Unavailable): Answer {
  const seconds = String(Math.min(Math.max(Math.ceil(retryAfter), 1), LONGEST_WAIT_SECONDS));
  const answer = failure(code);
  return { ...answer, headers: [...answer.headers, 'Retry-After', seconds, 'X-RateLimit-Reset', seconds] };
}

function errorAnswer(status: number, code: string, message: string): Answer {
  return { ...answerOf(status, JSON.stringify({ success: false, code, message })), code };
}

export function answerOf(status: number, body: string): Answer {
  const length = String(Buffer.byteLength(body));
  return { status, headers: ['Content-Type', 'application/json', 'Content-Length', length], body };
}

/** A longer body is written piece by piece: only then can be seen whether a slow client takes any of it. */
const PIECE = 64 * 1024;

/** Writes the answer, unless the client is gone. */
export function respond(response: ServerResponse, { status, headers, body }: Answer): void {
  if (response.destroyed) return;
  response.writeHead(status, headers);
  if (body.length <= PIECE) response.end(body);
  else Readable.from(piecesOf(typeof body === 'string' ? Buffer.from(body) : body)).pipe(response);
}

function* piecesOf(body: Buffer): Iterable<Buffer> {
  for (let at = 0; at < body.length; at += PIECE) yield body.subarray(at, at + PIECE);
}

/** An answer for a connection on which no request could be read, so that there is no response to write it to. */
export function asText({ status, headers, body }: Answer): string {
  let head = `HTTP/1.1 ${status} ${STATUS_TEXT[status]}\r\nConnection: close\r\n`;
  for (let at = 0; at < headers.length; at += 2) head += `${headers[at]}: ${headers[at + 1]}\r\n`;
  return `${head}\r\n${body}`;
}
