import { CALL_TYPES, type CallType, isCallType, SHORT_FORMS } from '../model/event.ts';

/** The action for a request. */
export type RouteAction =
  | CallAction
  | { readonly kind: 'alive' | 'ready' | 'swallow' | 'options' }
  /** One call in the query of an image; without a type, of a type that does not exist. */
  | { readonly kind: 'pixel'; readonly type: CallType | undefined }
  /** The public key of a destination, for receivers. */
  | { readonly kind: 'publicKey'; readonly id: string }
  /** The project settings that browsers and mobile clients ask for before they send. */
  | { readonly kind: 'settings'; readonly writeKey: string };

/** Takes one call or a batch of them. */
export interface CallAction {
  readonly kind: 'call';
  readonly type: CallType | 'batch';
  /** Bytes of the inflated body. spec/specification.md, "Size limits". */
  readonly limit: number;
  /** The error code of a larger one. */
  readonly tooLarge: 'message_too_large' | 'batch_too_large';
  /** True for calls that somebody passes on for others: the sender's address is not that of the client. */
  readonly isImport?: true;
}

interface Route {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly action: RouteAction;
}

const SINGLE_LIMIT = 32_768;
const BATCH_LIMIT = 524_288;

const BATCH: CallAction = { kind: 'call', type: 'batch', limit: BATCH_LIMIT, tooLarge: 'batch_too_large' };

const SHORT_PATHS = Object.entries(SHORT_FORMS).map(([letter, type]) => [letter, type] as const);

/** Every fixed path, each served with and without a slash at the end. spec/specification.md, "Paths". */
const ROUTES: readonly Route[] = [
  ...[...CALL_TYPES.map((type) => [type, type] as const), ...SHORT_PATHS].map(([name, type]) =>
    callRoute(`/v1/${name}`, { kind: 'call', type, limit: SINGLE_LIMIT, tooLarge: 'message_too_large' }),
  ),
  ...['/v1/batch', '/v1/b', '/v1/import'].map((path) => callRoute(path, BATCH)),
  callRoute('/v1/imported', { ...BATCH, isImport: true }),
  // Telemetry of browser and mobile clients about themselves. It is accepted, so that they see no error, and
  // dropped.
  { method: 'POST', path: '/v1/m', action: { kind: 'swallow' } },
  { method: 'GET', path: '/healthz', action: { kind: 'alive' } },
  { method: 'GET', path: '/readyz', action: { kind: 'ready' } },
];

function callRoute(path: string, action: CallAction): Route {
  return { method: 'POST', path, action };
}

/** The actions of a path, by method. `allow` is the value of the Allow header. */
export interface PathRoutes {
  readonly actions: ReadonlyMap<string, RouteAction>;
  readonly allow: string;
}

/** The actions of every fixed path, with and without a slash at its end. */
export const ROUTE_TABLE = buildRouteTable(ROUTES);

/** The table, indexed for look-ups. */
function buildRouteTable(routes: readonly Route[]): ReadonlyMap<string, PathRoutes> {
  const paths = new Map<string, PathRoutes>();
  for (const { method, path, action } of routes) {
    const found = pathRoutes(method, action);
    paths.set(path, found);
    paths.set(`${path}/`, found);
  }
  return paths;
}

function pathRoutes(method: Route['method'], action: RouteAction): PathRoutes {
  const actions = new Map([[method as string, action]]);
  if (method === 'GET') actions.set('HEAD', action);
  actions.set('OPTIONS', { kind: 'options' });
  return { actions, allow: [...actions.keys()].join(', ') };
}

/** The server as a whole, which `OPTIONS *` asks about. RFC 9110 section 9.3.7. */
const SERVER_ROUTES: PathRoutes = {
  actions: new Map([['OPTIONS', { kind: 'options' }]]),
  allow: 'GET, HEAD, POST, OPTIONS',
};

const PUBLIC_KEY_PATH = /^\/\.well-known\/millrace\/([\w-]+)$/;

const NAMED_PATH = /^\/v1\/(?:pixel\/([^/]+)|projects\/([^/]+)\/settings)\/?$/;

/** The actions at the path of a target; undefined for an unknown path. */
export function findRoutes(target: string): PathRoutes | undefined {
  const path = targetPath(target);
  return ROUTE_TABLE.get(path) ?? matchNamedPath(path);
}

function matchNamedPath(path: string): PathRoutes | undefined {
  if (path === '*') return SERVER_ROUTES;
  const [, id] = PUBLIC_KEY_PATH.exec(path) ?? [];
  if (id !== undefined) return pathRoutes('GET', { kind: 'publicKey', id });
  const [, type, writeKey] = NAMED_PATH.exec(path) ?? [];
  if (type !== undefined) {
    return pathRoutes('GET', { kind: 'pixel', type: isCallType(type) ? type : shortForm(type) });
  }
  if (writeKey === undefined) return undefined;
  const decoded = decodePath(writeKey);
  return decoded === undefined ? undefined : pathRoutes('GET', { kind: 'settings', writeKey: decoded });
}

function shortForm(letter: string): CallType | undefined {
  return Object.hasOwn(SHORT_FORMS, letter) ? SHORT_FORMS[letter] : undefined;
}

function decodePath(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/**
 * The path and query of a request line. Proxies send a whole URL (RFC 9112 section 3.2.2), and clients that
 * append `/v1/…` to an address that ends in a slash send two slashes.
 */
export function requestTarget(url: string): string {
  if (url.startsWith('//v1/')) return url.slice(1);
  if (url.startsWith('/')) return url;
  const origin = /^https?:\/\/[^/?#]*/i.exec(url)?.[0];
  if (origin === undefined) return url;
  const rest = url.slice(origin.length);
  return rest.startsWith('/') ? rest : `/${rest}`;
}

/** The path of a target without its query. */
export function targetPath(target: string): string {
  const query = target.indexOf('?');
  return query < 0 ? target : target.slice(0, query);
}

/** The query of a target, without the question mark. */
export function targetQuery(target: string): string {
  const query = target.indexOf('?');
  return query < 0 ? '' : target.slice(query + 1);
}

/** Whether a path is of the control API. */
export function isControlPath(target: string): boolean {
  return /^\/(api|compat)(?=[/?]|$)/.test(target);
}

/** Whether a path is that of the metrics. */
export function isMetricsPath(target: string): boolean {
  return /^\/metrics\/?(?=\?|$)/.test(target);
}

/**
 * Whether a path belongs to the receiving API. Unknown paths below it count too: browsers may read their 404.
 */
export function isReceivingPath(target: string): boolean {
  return target.startsWith('/v1/');
}
