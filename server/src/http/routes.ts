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
  | { readonly kind: 'settings'; readonly writeKey: string }
  /** The same for clients of RudderStack. The key is in the query, or else in the header. */
  | { readonly kind: 'sourceConfig'; readonly writeKey: string | undefined }
  /** A file of the browser library; undefined where the path can be none. */
  | { readonly kind: 'library'; readonly file: LibraryFile | undefined };

/** A file of the library, as a request asks for it. */
export type LibraryFile =
  /** `path`: by which the server was asked, without the query. */
  | { readonly kind: 'script'; readonly writeKey: string; readonly path: string }
  | { readonly kind: 'chunk'; readonly name: string };

/** Takes one call or a batch of them. */
export interface CallAction {
  readonly kind: 'call';
  readonly type: CallType | 'batch' | 'forwarded';
  /** Bytes of the inflated body. spec/specification.md, "Size limits". */
  readonly limit: number;
  /** The error code of a larger one. */
  readonly tooLarge: 'message_too_large' | 'batch_too_large';
  /** True for calls that somebody passes on for others: the sender's address is not that of the client. */
  readonly isImport?: true;
  /** The key that the address of the request names, in place of that in the Authorization header. */
  readonly writeKey?: string;
  /** The header with the key, in place of the Authorization header; keys in the body then mean nothing. */
  readonly keyHeader?: 'x-write-key';
  /** The header `X-Signature` of the request, where it counts. */
  readonly signature?: string;
}

interface Route {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly action: RouteAction;
}

const SINGLE_LIMIT = 32_768;
const BATCH_LIMIT = 524_288;

const BATCH: CallAction = { kind: 'call', type: 'batch', limit: BATCH_LIMIT, tooLarge: 'batch_too_large' };

/** A list that another service passes on. It has its own bound, as the other has. */
const FORWARDED_LIMIT = 32 * 2 ** 20;

const FORWARDED: CallAction = {
  ...{ kind: 'call', type: 'forwarded', limit: FORWARDED_LIMIT, tooLarge: 'batch_too_large' },
  isImport: true,
};

/** Bounds the answers too: what another service passes on is told 503 where others are told 429. */
export function isForwardedPath(target: string): boolean {
  return target.startsWith('/v1/forwarded');
}

const FORWARDED_PATH = /^\/v1\/forwarded(?:\/([^/]+))?\/?$/;

const SHORT_PATHS = Object.entries(SHORT_FORMS).map(([letter, type]) => [letter, type] as const);

/** Every fixed path, each served with and without a slash at the end. spec/specification.md, "Paths". */
const ROUTES: readonly Route[] = [
  ...[...CALL_TYPES.map((type) => [type, type] as const), ...SHORT_PATHS].map(([name, type]) =>
    callRoute(`/v1/${name}`, singleCall(type)),
  ),
  ...['/v1/batch', '/v1/b', '/v1/import'].map((path) => callRoute(path, BATCH)),
  callRoute('/v1/imported', { ...BATCH, isImport: true }),
  // Telemetry of browser and mobile clients about themselves. It is accepted, so that they see no error, and
  // dropped.
  { method: 'POST', path: '/v1/m', action: { kind: 'swallow' } },
  { method: 'GET', path: '/healthz', action: { kind: 'alive' } },
  { method: 'GET', path: '/readyz', action: { kind: 'ready' } },
];

function singleCall(type: CallType): CallAction {
  return { kind: 'call', type, limit: SINGLE_LIMIT, tooLarge: 'message_too_large' };
}

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

/** A script by the key of its page, and everything beside it that old snippets and maps ask for. */
const SCRIPT_PATH = /^\/analytics\.js\/v1\/([^/]+)\/analytics\.(?:min\.)?js$/;

const CHUNK_PATH = /^\/analytics-next\/bundles\/([\w.~-]+)$/;

/** Files that the browser library asks for, and never pages of the console. */
const LIBRARY_PATH = /^\/(?:analytics\.js|analytics-next|next-integrations)\//;

const JITSU_PATH = /^\/api\/s\/([a-z]+)\/?$/;

const NAMED_PATH = /^\/v1\/(?:pixel\/([^/]+)|projects\/([^/]+)\/settings)\/?$/;

/** The actions at the path of a target; undefined for an unknown path. */
export function findRoutes(target: string): PathRoutes | undefined {
  const path = targetPath(target);
  return ROUTE_TABLE.get(path) ?? matchNamedPath(path) ?? matchPathOfOthers(path, targetQuery(target));
}

/** The files of the browser library, and the paths of other widespread browser libraries. */
function matchPathOfOthers(path: string, query: string): PathRoutes | undefined {
  if (LIBRARY_PATH.test(path)) return pathRoutes('GET', { kind: 'library', file: libraryFileAt(path) });
  const writeKey = new URLSearchParams(query).get('writeKey') || undefined;
  if (/^\/sourceConfig\/?$/.test(path)) return pathRoutes('GET', { kind: 'sourceConfig', writeKey });
  if (/^\/beacon\/v1\/batch\/?$/.test(path))
    return pathRoutes('POST', writeKey === undefined ? BATCH : { ...BATCH, writeKey });
  const [, type] = JITSU_PATH.exec(path) ?? [];
  return isCallType(type) ? pathRoutes('POST', { ...singleCall(type), keyHeader: 'x-write-key' }) : undefined;
}

function libraryFileAt(path: string): LibraryFile | undefined {
  const [, name] = CHUNK_PATH.exec(path) ?? [];
  if (name !== undefined) return { kind: 'chunk', name };
  const [, key] = SCRIPT_PATH.exec(path) ?? [];
  const writeKey = key === undefined ? undefined : decodePath(key);
  return writeKey === undefined ? undefined : { kind: 'script', writeKey, path };
}

function matchNamedPath(path: string): PathRoutes | undefined {
  if (path === '*') return SERVER_ROUTES;
  const forwarded = FORWARDED_PATH.exec(path);
  if (forwarded !== null) {
    const key = forwarded[1] === undefined ? undefined : decodePath(forwarded[1]);
    return pathRoutes('POST', key === undefined ? FORWARDED : { ...FORWARDED, writeKey: key });
  }
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
  return target.startsWith('/v1/') || PATH_OF_OTHERS.test(target);
}

/** The paths of calls and settings of other libraries: pages send there, and read the answer. */
const PATH_OF_OTHERS = /^\/(?:beacon\/v1\/|api\/s\/|sourceConfig(?=[/?]|$))/;

/** The routes of a script at a path that a source has chosen. */
export function libraryRoutes(file: LibraryFile): PathRoutes {
  return pathRoutes('GET', { kind: 'library', file });
}
