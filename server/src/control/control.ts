import type { FastifyInstance } from 'fastify';
import type { Control, ControlAnswer } from '../ports/control.ts';
import { StorageError } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';
import type { Operation } from './operation.ts';
import { Problem, problemBody } from './problem.ts';

export interface ControlOptions {
  /** Whoever has it may do everything. */
  readonly token: string;
  readonly operations: readonly Operation[];
  readonly logger: Logger;
}

/**
 * The control API. contract.md sections 2 and 4.
 *
 * The framework behind it is loaded with the first request: a server that is only sent calls starts sooner and is smaller
 * without it.
 */
export function createControl(options: ControlOptions): Control {
  let api: Promise<FastifyInstance> | undefined;
  return async ({ method, path, query, authorization, body }) => {
    try {
      api ??= import('./api.ts').then(({ makeApi }) => makeApi(options));
      if (body === 'too_large') throw new Problem('body_too_large');
      const answer = await (await api).inject({
        method: method as 'GET',
        url: query === '' ? path : `${path}?${query}`,
        headers: {
          ...(authorization === undefined ? {} : { authorization }),
          ...(body === '' ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === '' ? {} : { payload: body }),
      });
      return { status: answer.statusCode, headers: headersOf(answer.headers), body: answer.body };
    } catch (error) {
      return answerTo(error, { path, method }, options.logger);
    }
  };
}

/** Those that say something; lengths and connections are the listener's. JSON is UTF-8 and its type has no parameters. */
function headersOf(headers: Readonly<Record<string, unknown>>): Record<string, string> {
  const answer: Record<string, string> = {
    'Content-Type': String(headers['content-type']).replace(/;.*/, ''),
    'Cache-Control': 'no-store',
  };
  for (const name of ['Allow', 'WWW-Authenticate']) {
    const value = headers[name.toLowerCase()];
    if (typeof value === 'string') answer[name] = value;
  }
  return answer;
}

/** What went wrong, as a problem; what is not the client's fault is logged. */
export function answerTo(
  error: unknown,
  { path, method }: { readonly path: string; readonly method: string },
  logger: Logger,
): ControlAnswer {
  const problem = error instanceof Problem ? error : ours(error, method);
  if (problem !== error) logger.error({ error, path }, 'control.failed');
  const headers = { 'Content-Type': 'application/problem+json', 'Cache-Control': 'no-store' };
  return { status: problem.status, headers, body: problemBody(problem) };
}

function ours(error: unknown, method: string): Problem {
  if (!(error instanceof StorageError)) return new Problem('internal_error');
  return new Problem(method === 'GET' || method === 'HEAD' ? 'store_unreadable' : 'store_unwritable');
}
