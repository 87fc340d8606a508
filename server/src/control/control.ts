import type { Control, ControlAnswer } from '../ports/control.ts';
import { StorageError } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';
import { matcherOf, tokenIn } from './bearer.ts';
import { problem } from './problem.ts';

const ROOT = '/api/v1/';

export interface ControlOptions {
  /** Whoever has it may read everything. */
  readonly token: string;
  /** What can be read, by its path below `/api/v1/`; each gives a value that is answered as JSON. */
  readonly resources: Readonly<Record<string, () => Promise<object>>>;
  readonly logger: Logger;
}

/**
 * The control API as far as it only reads. contract.md sections 2 and 4.
 *
 * A path that does not exist is 404 even without a token: the paths are public, and whoever mistypes one must not look
 * for the mistake in the token.
 */
export function createControl({ token, resources, logger }: ControlOptions): Control {
  const isToken = matcherOf(token);
  const reads = new Map(Object.entries(resources).map(([name, read]) => [ROOT + name, read]));
  const served = `The control API serves ${[...reads.keys()].join(' and ')}.`;
  return async ({ method, path, authorization }) => {
    const read = reads.get(path.endsWith('/') ? path.slice(0, -1) : path);
    if (read === undefined) return problem('not_found', { hint: served });
    if (method !== 'GET' && method !== 'HEAD') {
      return problem('method_not_allowed', { headers: { Allow: 'GET, HEAD' } });
    }
    const candidate = tokenIn(authorization);
    if (candidate === undefined) return problem('token_missing', CHALLENGE);
    if (!isToken(candidate)) return problem('token_invalid', WRONG);
    try {
      return json(await read());
    } catch (error) {
      logger.error({ error, path }, 'control.failed');
      return problem(error instanceof StorageError ? 'store_unreadable' : 'internal_error');
    }
  };
}

/** What a client is to do about a 401. RFC 6750 section 3. */
const CHALLENGE = { headers: { 'WWW-Authenticate': 'Bearer realm="millrace"' } };
const WRONG = { headers: { 'WWW-Authenticate': 'Bearer realm="millrace", error="invalid_token"' } };

function json(value: object): ControlAnswer {
  const headers = { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' };
  return { status: 200, headers, body: JSON.stringify(value) };
}
