import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import catalogue from '../../../spec/errors.json' with { type: 'json' };
import { STATUS_TEXT } from '../model/http-syntax.ts';
import type { ResponseStream } from '../ports/control-api.ts';
import type { IngestResult } from '../ports/ingest.ts';

/** Every code the receiving API can answer with: a wrong one does not compile. */
export type ErrorCode = keyof typeof catalogue.request | keyof typeof catalogue.discard;

export interface CatalogueEntry {
  readonly status: number;
  /** One sentence for the client. */
  readonly message: string;
}

interface CatalogueRow {
  readonly status?: number;
  readonly message: string;
}

/**
 * Status and message of every code. A discard that is never an answer has no status in the catalogue; should one reach a
 * client all the same, it is the client's to mend.
 */
export const ERRORS: ReadonlyMap<string, CatalogueEntry> = new Map(
  Object.entries<CatalogueRow>({ ...catalogue.request, ...catalogue.discard }).map(
    ([code, { status = 400, message }]) => [code, { status, message }],
  ),
);

export function isErrorCode(code: string): code is ErrorCode {
  return ERRORS.has(code);
}

export function errorEntry(code: ErrorCode): CatalogueEntry {
  return ERRORS.get(code)!;
}

type UnavailableResult = Extract<IngestResult, { kind: 'unavailable' }>;
type RefusedResult = Extract<IngestResult, { kind: 'refused' }>;

/** A whole answer, ready to be written as often as needed. */
export interface PreparedResponse {
  readonly status: number;
  /** Names and values in turn, as `writeHead` takes them. */
  readonly headers: string[];
  readonly body: string | Buffer;
  /** Of the catalogue, where something was wrong. */
  readonly code?: string;
}

/** Clients wait no longer than this, whatever is asked. spec/specification.md, "Overload". */
const MAX_RETRY_AFTER_SECONDS = 300;

/**
 * Nothing but these exact bytes with status 200 means success to every client. spec/specification.md, "Facts about
 * unmodified clients", rule 1.
 */
const SUCCESS_RESPONSE = jsonResponse(200, '{"success":true}');

/** Answers without detail, ready made. */
const ERROR_RESPONSES: ReadonlyMap<string, PreparedResponse> = new Map(
  Array.from(ERRORS, ([code, { status, message }]) => [code, buildErrorResponse(status, code, message)]),
);

export function successResponse(): PreparedResponse {
  return SUCCESS_RESPONSE;
}

/** The answer of the receiving API to a verdict. A code that is not in the catalogue is our error, not the client's. */
export function ingestResponse(verdict: IngestResult): PreparedResponse {
  switch (verdict.kind) {
    case 'stored':
      return SUCCESS_RESPONSE;
    case 'refused':
      return refusedResponse(verdict);
    case 'unavailable':
      return retryLaterResponse(verdict);
  }
}

/** With the calls that were wrong, where a batch was refused for some of its calls. */
function refusedResponse({ code, detail, invalid }: RefusedResult): PreparedResponse {
  const known = isErrorCode(code) ? code : 'internal_error';
  if (invalid === undefined) return errorResponse(known, detail);
  const { status, message } = errorEntry(known);
  const errors = invalid.map((call) => ({ ...call, message: ERRORS.get(call.code)?.message ?? '' }));
  return {
    ...jsonResponse(status, JSON.stringify({ success: false, code: known, message, errors })),
    code: known,
  };
}

/**
 * An error: always `success`, `code` and `message`, as several clients read all three. `detail` is a sentence that says
 * more than the catalogue does.
 */
export function errorResponse(code: ErrorCode, detail?: string): PreparedResponse {
  if (detail === undefined) return ERROR_RESPONSES.get(code)!;
  const { status, message } = errorEntry(code);
  return buildErrorResponse(status, code, `${message} ${detail}`);
}

/** 429 and 503 say when to come back, in both headers that clients look at. */
function retryLaterResponse({ code, retryAfter }: UnavailableResult): PreparedResponse {
  const seconds = String(Math.min(Math.max(Math.ceil(retryAfter), 1), MAX_RETRY_AFTER_SECONDS));
  const answer = errorResponse(code);
  return { ...answer, headers: [...answer.headers, 'Retry-After', seconds, 'X-RateLimit-Reset', seconds] };
}

function buildErrorResponse(status: number, code: string, message: string): PreparedResponse {
  return { ...jsonResponse(status, JSON.stringify({ success: false, code, message })), code };
}

export function jsonResponse(status: number, body: string): PreparedResponse {
  const length = String(Buffer.byteLength(body));
  return { status, headers: ['Content-Type', 'application/json', 'Content-Length', length], body };
}

/** A longer body is written piece by piece: only then can be seen whether a slow client takes any of it. */
const PIECE_BYTES = 64 * 1024;

/** Writes the answer, unless the client is gone. */
export function writeResponse(response: ServerResponse, { status, headers, body }: PreparedResponse): void {
  if (response.destroyed) return;
  response.writeHead(status, headers);
  if (body.length <= PIECE_BYTES) response.end(body);
  else Readable.from(piecesOf(typeof body === 'string' ? Buffer.from(body) : body)).pipe(response);
}

function* piecesOf(body: Buffer): Iterable<Buffer> {
  for (let at = 0; at < body.length; at += PIECE_BYTES) yield body.subarray(at, at + PIECE_BYTES);
}

/** An answer for a connection on which no request could be read, so that there is no response to write it to. */
export function serializeClosingResponse({ status, headers, body }: PreparedResponse): string {
  let head = `HTTP/1.1 ${status} ${STATUS_TEXT[status]}\r\nConnection: close\r\n`;
  for (let at = 0; at < headers.length; at += 2) head += `${headers[at]}: ${headers[at + 1]}\r\n`;
  return `${head}\r\n${body}`;
}

/**
 * Writes an answer that goes on until one of the two sides ends it. `gone` of its body is called in every case: also when
 * the client is gone already, and when it only wants the head.
 */
export function writeStream(
  response: ServerResponse,
  { status, headers }: Pick<PreparedResponse, 'status' | 'headers'>,
  body: ResponseStream,
): void {
  if (response.destroyed) {
    body.gone();
    return;
  }
  response.once('close', () => body.gone());
  response.writeHead(status, headers);
  if (response.req.method === 'HEAD') {
    response.end();
    return;
  }
  response.flushHeaders();
  response.on('drain', () => body.drained());
  body.begin({
    write: (text) => response.write(text),
    end: () => {
      // What a client has not read by now would hold up a stop; it is a stream, so there is no whole to be cut short.
      if (response.writableNeedDrain) response.destroy();
      else response.end();
    },
  });
}
