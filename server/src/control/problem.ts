import catalogue from '../../../spec/errors.json' with { type: 'json' };
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
  readonly retryAfter?: number;
}

/** Thrown by what an operation finds wrong; answered as a problem. */
export class Problem extends Error {
  readonly code: ProblemCode;
  readonly hint: string | undefined;
  readonly errors: readonly Fault[] | undefined;
  /** Seconds. */
  readonly retryAfter: number | undefined;

  constructor(code: ProblemCode, { hint, errors, retryAfter }: About = {}) {
    super(code);
    this.name = 'Problem';
    this.code = code;
    this.hint = hint;
    this.errors = errors;
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
export function problemBody({ code, hint, errors }: Problem): string {
  const { status, message, hint: usual } = PROBLEMS[code];
  return JSON.stringify({
    type: 'about:blank',
    title: STATUS_TEXT[status],
    status,
    detail: `${message} ${hint ?? usual}`,
    code,
    ...(errors === undefined ? {} : { errors }),
  });
}
