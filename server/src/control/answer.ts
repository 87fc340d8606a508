import type { ControlAnswer } from '../ports/control.ts';
import { StorageError } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';
import { Problem, problemBody } from './problem.ts';

/** What went wrong, as a problem; what is not the client's fault is logged. */
export function answerTo(
  error: unknown,
  { path, method }: { readonly path: string; readonly method: string },
  logger: Logger,
): ControlAnswer {
  const problem = error instanceof Problem ? error : ours(error, method);
  if (problem !== error) logger.error({ error, path }, 'control.failed');
  const headers = {
    ...{ 'Content-Type': 'application/problem+json', 'Cache-Control': 'no-store' },
    ...(problem.retryAfter === undefined ? {} : { 'Retry-After': String(problem.retryAfter) }),
  };
  return { status: problem.status, headers, body: problemBody(problem) };
}

function ours(error: unknown, method: string): Problem {
  if (!(error instanceof StorageError)) return new Problem('internal_error');
  return new Problem(method === 'GET' || method === 'HEAD' ? 'store_unreadable' : 'store_unwritable');
}
