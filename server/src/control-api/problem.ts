import catalogue from '../../../spec/errors.json' with { type: 'json' };
import { STATUS_TEXT } from '../model/http-syntax.ts';
import { MAX_PROBLEMS } from '../model/input-limits.ts';
import { defined } from '../model/json.ts';
import { StorageError } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';

const PROBLEMS = {
  ...catalogue.control,
  not_found: catalogue.request.not_found,
  method_not_allowed: catalogue.request.method_not_allowed,
  internal_error: catalogue.request.internal_error,
};

export type ProblemCode = keyof typeof PROBLEMS;

export function statusOf(code: ProblemCode): number {
  return PROBLEMS[code].status;
}

/** A fault in one part of a request. */
export interface Fault {
  /** The path of the part, such as `body.type` or `query.limit`. */
  readonly path: string;
  readonly message: string;
  /** Of a mistake in the text of a definition: its place there, both from 1. */
  readonly line?: number;
  readonly column?: number;
}

interface ProblemOptions {
  readonly hint?: string;
  readonly errors?: readonly Fault[];
  /** More is wrong than `errors` says. */
  readonly isCut?: boolean;
  readonly retryAfter?: number;
}

/** Characters of a path in an answer. A key may be as long as the body. */
const MAX_PATH = 300;

/** An error that the client is told about, as a problem document. */
export class Problem extends Error {
  readonly code: ProblemCode;
  readonly hint: string | undefined;
  /** At most `MAX_PROBLEMS`. */
  readonly errors: readonly Fault[] | undefined;
  /** More is wrong than `errors` says. */
  readonly isCut: boolean;
  /** Seconds. */
  readonly retryAfter: number | undefined;

  constructor(code: ProblemCode, { hint, errors, isCut = false, retryAfter }: ProblemOptions = {}) {
    super(code);
    this.name = 'Problem';
    this.code = code;
    this.hint = hint;
    this.errors = errors
      ?.slice(0, MAX_PROBLEMS)
      .map((fault) => ({ ...fault, path: truncatePath(fault.path) }));
    this.isCut = isCut || (errors?.length ?? 0) > MAX_PROBLEMS;
    this.retryAfter = retryAfter;
  }

  get status(): number {
    return PROBLEMS[this.code].status;
  }
}

/**
 * The document of RFC 9457. The type is `about:blank`, so the title is the status in words. `code` names the
 * error, and `detail` ends with what to do about it: `hint`, or else the hint of the catalogue.
 */
function problemBody({ code, hint, errors, isCut }: Problem): string {
  const { status, message, hint: usual } = PROBLEMS[code];
  return JSON.stringify({
    type: 'about:blank',
    title: STATUS_TEXT[status],
    status,
    detail: `${message} ${hint ?? usual}${isCut ? ` There are more than the first ${MAX_PROBLEMS}.` : ''}`,
    code,
    ...defined({ errors, truncated: isCut || undefined }),
  });
}

function truncatePath(path: string): string {
  return path.length <= MAX_PATH ? path : `${path.slice(0, MAX_PATH)}…`;
}

/** A problem as a response. */
interface ProblemResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Describes an error as a problem, and logs it unless the client has caused it. */
export function problemResponse(
  error: unknown,
  { path, method }: { readonly path: string; readonly method: string },
  logger: Logger,
): ProblemResponse {
  const problem = problemOf(error, { path, method }, logger);
  const headers = { ...headersOf(problem), 'Content-Type': 'application/problem+json' };
  return { status: problem.status, headers, body: problemBody(problem) };
}

/** The same in the shape of the Public API of Segment, which has one entry for each thing that is wrong. */
export function compatResponse(
  error: unknown,
  request: { readonly path: string; readonly method: string },
  logger: Logger,
): ProblemResponse {
  const problem = problemOf(error, request, logger);
  const { detail } = JSON.parse(problemBody(problem)) as { readonly detail: string };
  const { code: type, errors = [] } = problem;
  const shown = errors.length === 0 ? [{ type, message: detail }] : errors.map((one) => entryOf(type, one));
  const headers = { ...headersOf(problem), 'Content-Type': 'application/json' };
  return { status: problem.status, headers, body: JSON.stringify({ errors: shown }) };
}

function entryOf(type: ProblemCode, { path, message }: Fault) {
  return { type, field: path.replace(/^body\./, ''), message: `${path} ${message}` };
}

function problemOf(
  error: unknown,
  { path, method }: { readonly path: string; readonly method: string },
  logger: Logger,
): Problem {
  const problem = error instanceof Problem ? error : internalProblem(error, method);
  if (problem !== error) logger.error({ error, path }, 'control.failed');
  return problem;
}

function headersOf(problem: Problem): Readonly<Record<string, string>> {
  return {
    'Cache-Control': 'no-store',
    ...defined({
      'WWW-Authenticate': problem.status === 401 ? challengeOf(problem) : undefined,
      'Retry-After': problem.retryAfter?.toString(),
    }),
  };
}

/** How to sign in. RFC 6750 section 3. */
function challengeOf({ code }: Problem): string {
  return `Bearer realm="millrace"${code === 'token_missing' ? '' : ', error="invalid_token"'}`;
}

function internalProblem(error: unknown, method: string): Problem {
  if (!(error instanceof StorageError)) return new Problem('internal_error');
  return new Problem(method === 'GET' || method === 'HEAD' ? 'store_unreadable' : 'store_unwritable');
}
