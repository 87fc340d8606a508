import type { Control, ControlAnswer } from '../ports/control.ts';
import { StorageError } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';
import { matcherOf, tokenIn } from './bearer.ts';
import { problem } from './problem.ts';

const ROOT = '/api/v1/';

export interface ControlOptions {
  /** Whoever has it may read everything. */
  readonly token: string;
  /** What can be read, by its path below `/api/v1/`, in which `{name}` stands for one segment. */
  readonly resources: Readonly<Record<string, Resource>>;
  readonly logger: Logger;
}

/** Gives a value that is answered as JSON. `names`: what stood for each `{name}` of the path, decoded. */
export type Resource = (names: readonly string[], query: URLSearchParams) => Promise<object>;

/**
 * The control API as far as it only reads. contract.md sections 2 and 4.
 *
 * A path that does not exist is 404 even without a token: the paths are public, and whoever mistypes one must not look
 * for the mistake in the token.
 */
export function createControl({ token, resources, logger }: ControlOptions): Control {
  const isToken = matcherOf(token);
  const paths = Object.entries(resources).map(([path, read]) => ({ pattern: patternOf(ROOT + path), read }));
  const served = `The control API serves ${Object.keys(resources)
    .map((path) => ROOT + path)
    .join(', ')}.`;
  return async ({ method, path, query, authorization }) => {
    const asked = find(paths, path.endsWith('/') ? path.slice(0, -1) : path);
    if (asked === undefined) return problem('not_found', { hint: served });
    if (method !== 'GET' && method !== 'HEAD') {
      return problem('method_not_allowed', { headers: { Allow: 'GET, HEAD' } });
    }
    const candidate = tokenIn(authorization);
    if (candidate === undefined) return problem('token_missing', CHALLENGE);
    if (!isToken(candidate)) return problem('token_invalid', WRONG);
    try {
      return json(await asked.read(asked.names, new URLSearchParams(query)));
    } catch (error) {
      logger.error({ error, path }, 'control.failed');
      return problem(error instanceof StorageError ? 'store_unreadable' : 'internal_error');
    }
  };
}

interface Path {
  readonly pattern: RegExp;
  readonly read: Resource;
}

/** Paths are written in this program, with nothing in them that a regular expression would take for more than a letter. */
function patternOf(path: string): RegExp {
  return new RegExp(`^${path.replaceAll(/\{\w+\}/g, '([^/]+)')}$`);
}

function find(paths: readonly Path[], path: string): { names: string[]; read: Resource } | undefined {
  for (const { pattern, read } of paths) {
    const match = pattern.exec(path);
    if (match === null) continue;
    try {
      return { names: match.slice(1).map(decodeURIComponent), read };
    } catch {
      // Percent signs that encode nothing: no name is written like that.
      return undefined;
    }
  }
  return undefined;
}

/** What a client is to do about a 401. RFC 6750 section 3. */
const CHALLENGE = { headers: { 'WWW-Authenticate': 'Bearer realm="millrace"' } };
const WRONG = { headers: { 'WWW-Authenticate': 'Bearer realm="millrace", error="invalid_token"' } };

function json(value: object): ControlAnswer {
  const headers = { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' };
  return { status: 200, headers, body: JSON.stringify(value) };
}
