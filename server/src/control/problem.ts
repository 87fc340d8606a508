import { STATUS_CODES } from 'node:http';
import catalogue from '../../../spec/errors.json' with { type: 'json' };
import type { ControlAnswer } from '../ports/control.ts';

const PROBLEMS = {
  ...catalogue.control,
  not_found: catalogue.request.not_found,
  method_not_allowed: catalogue.request.method_not_allowed,
  internal_error: catalogue.request.internal_error,
};

export type ProblemCode = keyof typeof PROBLEMS;

/**
 * An error of the control API as RFC 9457 has it. The type is `about:blank`, so the title is the status in words; which
 * error it is says `code`, and what to do about it the end of `detail` (`hint` replaces that of the catalogue).
 */
export function problem(
  code: ProblemCode,
  { hint, headers }: { hint?: string; headers?: Readonly<Record<string, string>> } = {},
): ControlAnswer {
  const entry = PROBLEMS[code];
  return {
    status: entry.status,
    headers: { ...headers, 'Content-Type': 'application/problem+json', 'Cache-Control': 'no-store' },
    body: JSON.stringify({
      type: 'about:blank',
      title: STATUS_CODES[entry.status],
      status: entry.status,
      detail: `${entry.message} ${hint ?? entry.hint}`,
      code,
    }),
  };
}
