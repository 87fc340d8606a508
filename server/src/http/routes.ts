import { CALL_TYPES, type CallType, SHORT_FORMS } from '../model/call.ts';
import type { ErrorCode } from './errors.ts';

/** What is done with a request. */
export type Action = CallAction | { readonly kind: 'alive' | 'ready' | 'swallow' };

/** Takes one call or a batch of them. */
export interface CallAction {
  readonly kind: 'call';
  readonly type: CallType | 'batch';
  /** Bytes of the inflated body. decisions.md section 1, "limits". */
  readonly limit: number;
  readonly tooLarge: ErrorCode;
}

export interface Route {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly action: Action;
}

const SINGLE_LIMIT = 32_768;
const BATCH_LIMIT = 524_288;

const SHORT_PATHS = Object.entries(SHORT_FORMS).map(([letter, type]) => [letter, type] as const);

/** Every path, each served with and without a slash at the end. decisions.md section 1, "paths". */
export const ROUTES: readonly Route[] = [
  ...[...CALL_TYPES.map((type) => [type, type] as const), ...SHORT_PATHS].map(([name, type]) =>
    callRoute(`/v1/${name}`, { kind: 'call', type, limit: SINGLE_LIMIT, tooLarge: 'message_too_large' }),
  ),
  ...['/v1/batch', '/v1/b', '/v1/import'].map((path) =>
    callRoute(path, { kind: 'call', type: 'batch', limit: BATCH_LIMIT, tooLarge: 'batch_too_large' }),
  ),
  // Telemetry that browsers and mobile clients send about themselves: accepted, so that they are content, and not kept.
  { method: 'POST', path: '/v1/m', action: { kind: 'swallow' } },
  { method: 'GET', path: '/healthz', action: { kind: 'alive' } },
  { method: 'GET', path: '/readyz', action: { kind: 'ready' } },
];

function callRoute(path: string, action: CallAction): Route {
  return { method: 'POST', path, action };
}

/** What a path does, by method. `allow` is the value of the Allow header. */
export interface Path {
  readonly actions: ReadonlyMap<string, Action>;
  readonly allow: string;
}

/** The table in the form in which it is searched. */
export function pathsOf(routes: readonly Route[]): ReadonlyMap<string, Path> {
  const paths = new Map<string, Path>();
  for (const { method, path, action } of routes) {
    const actions = new Map(paths.get(path)?.actions).set(method, action);
    if (method === 'GET') actions.set('HEAD', action);
    const found = { actions, allow: [...actions.keys()].join(', ') };
    paths.set(path, found);
    paths.set(`${path}/`, found);
  }
  return paths;
}

/** The path of a request without its query. */
export function pathIn(url: string): string {
  const query = url.indexOf('?');
  return query < 0 ? url : url.slice(0, query);
}

/** What follows the question mark. */
export function queryIn(url: string): string {
  const query = url.indexOf('?');
  return query < 0 ? '' : url.slice(query + 1);
}

/** Whether a path is of the control API. */
export function isControlPath(url: string): boolean {
  return /^\/api(?=[/?]|$)/.test(url);
}
