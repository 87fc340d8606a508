import catalogue from '../../../spec/errors.json' with { type: 'json' };
import { MOST_PROBLEMS } from '../model/excess.ts';
import { STATUS_TEXT } from '../model/status-text.ts';

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

/** A part of a request that is wrong. */
export interface Fault {
  /** Where it stands, such as `body.type` or `query.limit`. */
  readonly path: string;
  readonly message: string;
}

interface About {
  readonly hint?: string;
  readonly errors?: readonly Fault[];
  /** More is wrong than `errors` says. */
  readonly isCut?: boolean;
  readonly retryAfter?: number;
}

/** Characters of a path in an answer: keys may be as long as the body. */
const LONGEST_PATH = 300;

/** Thrown by what an operation finds wrong; answered as a problem. */
export class Problem extends Error {
  readonly code: ProblemCode;
  readonly hint: string | undefined;
  /** At most `MOST_PROBLEMS`. */
  readonly errors: readonly Fault[] | undefined;
  /** More is wrong than `errors` says. */
  readonly isCut: boolean;
  /** Seconds. */
  readonly retryAfter: number | undefined;

  constructor(code: ProblemCode, { hint, errors, isCut = false, retryAfter }: About = {}) {
    super(code);
    this.name = 'Problem';
    this.code = code;
    this.hint = hint;
    this.errors = errors?.slice(0, MOST_PROBLEMS).map(({ path, message }) => ({ path: cut(path), message }));
    this.isCut = isCut || (errors?.length ?? 0) > MOST_PROBLEMS;
    this.retryAfter = retryAfter;
  }

  get status(): number {
    return PROBLEMS[this.code].status;
  }
}

/**
 * An error of the control API as RFC 9457 has it. The type is `about:blank`, so the title is the status in words; which
 * error it is says `code`, and what to do about it the end of `detail` (`hint` replaces that of the catalogue).
 */
export function problemBody({ code, hint, errors, isCut }: Problem): string {
  const { status, message, hint: usual } = PROBLEMS[code];
  return JSON.stringify({
    type: 'about:blank',
    title: STATUS_TEXT[status],
    status,
    detail: `${message} ${hint ?? usual}${isCut ? ` There are more than the first ${MOST_PROBLEMS}.` : ''}`,
    code,
    ...(errors === undefined ? {} : { errors }),
    ...(isCut ? { truncated: true } : {}),
  });
}

function cut(path: string): string {
  return path.length <= LONGEST_PATH ? path : `${path.slice(0, LONGEST_PATH)}…`;
}
