import type { ControlHandler } from '../control-api/contract.ts';
import type { PublicKey } from '../model/signing-key.ts';
import { PipeliningGuard } from './admission.ts';
import type { BrowserLibrary } from './browser-library.ts';
import type { ConsoleFiles } from './console.ts';
import { handleControlRequest } from './control-gateway.ts';
import {
  errorResponse,
  jsonResponse,
  NO_SNIFFING,
  type NodeHttpExchange,
  optionsResponse,
  type PreparedResponse,
  successResponse,
} from './exchange.ts';
import type { HostGuard } from './host-guard.ts';
import { handlePixel } from './pixel.ts';
import {
  type ConsentSettings,
  type PublicAddress,
  projectSettingsResponse,
  sourceConfigResponse,
} from './project-settings.ts';
import { drainRequest, handleCall, type RequestDependencies, rejectOverloaded } from './receiving-api.ts';
import {
  type CallAction,
  findRoutes,
  isControlPath,
  isForwardedPath,
  isMetricsPath,
  isReceivingPath,
  type LibraryFile,
  libraryRoutes,
  type PathRoutes,
  type RouteAction,
  targetPath,
} from './routes.ts';
import type { StrictTransport } from './strict-transport.ts';

export interface RequestRouterOptions extends RequestDependencies {
  /** Answers everything below `/api`, and `/metrics`. Without it these paths do not exist. */
  readonly control: ControlHandler | undefined;
  /** Answers every other path that is no call. Without it these paths do not exist. */
  readonly console?: ConsoleFiles | undefined;
  /** The library for pages whose snippet names this server. Without it its paths answer 404. */
  readonly browserLibrary?: BrowserLibrary | undefined;
  /** The port of the control API and the metrics, where this server takes calls only. */
  readonly adminPort: (() => number) | undefined;
  /** Judges requests for the control API, the metrics and the console. */
  readonly hostGuard: HostGuard;
  /** For the same answers. */
  readonly strictTransport: StrictTransport;
  /** Whether calls are taken here. */
  readonly isReceiving: boolean;
  /** The public key of a destination, by the key's id; absent, or undefined, where there is none. */
  readonly publicKey?: ((id: string) => PublicKey | undefined) | undefined;
  /** Consent categories of the source with a write key; absent, or undefined, where it has none. */
  readonly consentSettings?: ((writeKey: string) => ConsentSettings | undefined) | undefined;
  /** Reasons why calls cannot be accepted now; empty when they can. */
  readonly readiness: () => readonly string[];
  /** Problems that do not keep calls from being accepted. */
  readonly degraded?: (() => readonly string[]) | undefined;
  /** The address by which clients reach this server. The settings endpoint announces it. */
  readonly publicAddress: PublicAddress;
}

/** Paths that are answered at once. */
type ImmediateAction = Exclude<RouteAction, { readonly kind: 'call' | 'pixel' | 'library' }>;

const ALIVE_RESPONSE = jsonResponse(200, '{"status":"alive"}');
const READY_RESPONSE = jsonResponse(200, '{"status":"ready"}');

/** Routes every request to the part that answers it. */
export class RequestRouter {
  readonly #options: RequestRouterOptions;
  readonly #pipelining = new PipeliningGuard();

  constructor(options: RequestRouterOptions) {
    this.#options = options;
  }

  route(exchange: NodeHttpExchange): void {
    const { request } = exchange;
    const { socket } = request;
    const pipelining = this.#pipelining.observe(socket);
    // The connection ends without an answer to this one, so the client sends it again.
    if (pipelining === 'ignored') return;
    if (pipelining === 'exceeded') {
      // Reading stops here. Requests that are in memory already come as `ignored`.
      socket.pause();
      exchange.closeAfterResponse();
      rejectOverloaded(exchange, this.#options, isForwardedPath(exchange.target));
      return;
    }
    const path = this.#routeOf(exchange.target);
    const action = path?.actions.get(request.method ?? '');
    if (action?.kind === 'call') {
      handleCall(exchange, withHeadersOf(exchange, action), this.#options);
      return;
    }
    const control = path === undefined ? this.#controlFor(exchange.target) : undefined;
    const isGuarded = path === undefined && (control !== undefined || this.#mayBeFile(exchange));
    const refusal = isGuarded ? this.#guard(exchange) : undefined;
    if (refusal !== undefined) {
      drainRequest(exchange);
      exchange.reply(refusal);
      return;
    }
    if (control !== undefined) {
      handleControlRequest(exchange, control, this.#options);
      return;
    }
    exchange.writeContinue();
    drainRequest(exchange);
    if (action === undefined && this.#options.isReceiving && isReceivingPath(exchange.target)) {
      // A client with a wrong base URL drops its events silently. This count is where the operator sees it.
      this.#options.discards?.refused(path === undefined ? 'not_found' : 'method_not_allowed', {
        // A GET or HEAD carries no call.
        writeKey: request.method === 'GET' || request.method === 'HEAD' ? undefined : exchange.writeKey,
      });
    }
    if (path !== undefined) this.#runAction(exchange, action, path.allow);
    else if (this.#mayBeFile(exchange)) void this.#replyFile(exchange);
    else this.#replyNoFile(exchange);
  }

  /** The refusal of a request for control API, metrics or console, if it is to be refused. */
  #guard(exchange: NodeHttpExchange): PreparedResponse | undefined {
    const { hostGuard, strictTransport } = this.#options;
    const header = strictTransport.headerFor(exchange.request.headers);
    if (header !== undefined) exchange.addHeader('Strict-Transport-Security', header);
    exchange.addHeader(...NO_SNIFFING);
    return hostGuard.refusal(exchange.request);
  }

  #replyNotFound(exchange: NodeHttpExchange): void {
    exchange.reply(errorResponse('not_found', this.#adminPortHint(exchange.target)));
  }

  /** Whether the console is asked. */
  #mayBeFile({ request, target }: NodeHttpExchange): boolean {
    const isAsked = FILE_METHODS.includes(request.method ?? '') && !isApiPath(target);
    return isAsked && this.#options.console !== undefined;
  }

  /** Answers before the body has come: what is wrong in the body would otherwise be the answer. */
  #replyNoFile(exchange: NodeHttpExchange): void {
    const isPage = this.#options.console !== undefined && targetPath(exchange.target) === '/';
    if (isPage) exchange.reply(methodNotAllowed(FILE_METHODS.join(', ')));
    else this.#replyNotFound(exchange);
  }

  /** A file of the console, to whoever asks: it holds no data. */
  async #replyFile(exchange: NodeHttpExchange): Promise<void> {
    const { console, logger } = this.#options;
    const { method, headers } = exchange.request;
    try {
      const found = await console?.respond(exchange.target, headers);
      if (found === undefined) this.#replyNotFound(exchange);
      else if (method === 'OPTIONS') exchange.reply(optionsResponse(FILE_METHODS.join(', '), undefined));
      else exchange.reply(found);
    } catch (error) {
      logger.error({ error, path: targetPath(exchange.target) }, 'request.failed');
      exchange.reply(errorResponse('internal_error'));
    }
  }

  /** A file of the browser library; 404 for what it asks its maker for and is not served here. */
  async #replyLibrary(exchange: NodeHttpExchange, file: LibraryFile | undefined): Promise<void> {
    const { browserLibrary, logger } = this.#options;
    try {
      const { headers } = exchange.request;
      const found = file === undefined ? undefined : await browserLibrary?.respond(file, headers);
      exchange.reply(found ?? errorResponse('not_found'));
    } catch (error) {
      logger.error({ error, file: file?.kind }, 'request.failed');
      exchange.reply(errorResponse('internal_error'));
    }
  }

  /**
   * Finds the routes of a path. On a node that takes no calls, the paths of the receiving API do not exist.
   */
  #routeOf(target: string): PathRoutes | undefined {
    const { isReceiving, browserLibrary } = this.#options;
    const found = isReceiving || !isReceivingPath(target) ? findRoutes(target) : undefined;
    if (found !== undefined || browserLibrary === undefined) return found;
    const file = browserLibrary.aliasAt(targetPath(target));
    return file === undefined ? undefined : libraryRoutes(file);
  }

  /** The hint of a 404 for a path of the control API, where calls have a port of their own. */
  #adminPortHint(target: string): string | undefined {
    const { adminPort } = this.#options;
    const isThere = (isApiPath(target) && !isReceivingPath(target)) || targetPath(target) === '/';
    if (adminPort === undefined || !isThere) return undefined;
    return `Here only calls are taken; control API, metrics and console are on port ${adminPort()} (admin.port).`;
  }

  /** The handler of a path outside the receiving API. */
  #controlFor(target: string): ControlHandler | undefined {
    return isControlPath(target) || isMetricsPath(target) ? this.#options.control : undefined;
  }

  /** Everything but calls. `allow` lists the methods of the path. */
  #runAction(
    exchange: NodeHttpExchange,
    action: Exclude<RouteAction, CallAction> | undefined,
    allow: string,
  ): void {
    if (action?.kind === 'pixel') handlePixel(exchange, action.type, this.#options);
    else if (action?.kind === 'library') void this.#replyLibrary(exchange, action.file);
    else exchange.reply(this.#responseOf(exchange, action, allow));
  }

  /** The headers that a preflight of the receiving API asks for. */
  #wantedHeaders({ request, target }: NodeHttpExchange): string | undefined {
    return isReceivingPath(target)
      ? String(request.headers['access-control-request-headers'] ?? '')
      : undefined;
  }

  #publicAddressFor({ request }: NodeHttpExchange): ReturnType<PublicAddress['of']> {
    const { proxies, publicAddress } = this.#options;
    const isFromProxy = proxies?.includes(request.socket.remoteAddress ?? '') === true;
    return publicAddress.of({ headers: request.headers, isFromProxy });
  }

  #responseOf(
    exchange: NodeHttpExchange,
    action: ImmediateAction | undefined,
    allow: string,
  ): PreparedResponse {
    switch (action?.kind) {
      case undefined:
        return methodNotAllowed(allow);
      case 'options':
        return optionsResponse(allow, this.#wantedHeaders(exchange));
      case 'settings':
        return projectSettingsResponse(
          action.writeKey,
          this.#publicAddressFor(exchange),
          this.#options.consentSettings?.(action.writeKey),
        );
      case 'sourceConfig':
        return sourceConfigResponse(action.writeKey ?? exchange.writeKey);
      case 'publicKey':
        return publicKeyResponse(this.#options.publicKey?.(action.id));
      case 'swallow':
        return successResponse();
      case 'alive':
        return ALIVE_RESPONSE;
      case 'ready':
        return readinessResponse(this.#options.readiness(), this.#options.degraded?.() ?? []);
    }
  }
}

/** An hour: a key whose setting was switched off is asked for again by then. */
const PUBLIC_KEY_CACHE = ['Cache-Control', 'public, max-age=3600'];

function publicKeyResponse(key: PublicKey | undefined): PreparedResponse {
  if (key === undefined) return errorResponse('not_found');
  const { status, headers, body } = jsonResponse(200, JSON.stringify(key));
  return { status, headers: [...headers, ...PUBLIC_KEY_CACHE, ...NO_SNIFFING], body };
}

/** The action with what headers of its own hold. A key of Jitsu has its id before a colon. */
function withHeadersOf({ request }: NodeHttpExchange, action: CallAction): CallAction {
  const signature = request.headers['x-signature'];
  if (action.type === 'forwarded' && typeof signature === 'string') return { ...action, signature };
  if (action.keyHeader === undefined) return action;
  const [writeKey] = String(request.headers[action.keyHeader] ?? '').split(':', 1);
  return writeKey ? { ...action, writeKey } : action;
}

/** Whether a path is never one of the console. */
function isApiPath(target: string): boolean {
  return isReceivingPath(target) || isControlPath(target) || isMetricsPath(target);
}

/** The methods of a file of the console. */
const FILE_METHODS = ['GET', 'HEAD', 'OPTIONS'];

function methodNotAllowed(allow: string): PreparedResponse {
  const answer = errorResponse('method_not_allowed');
  return { ...answer, headers: [...answer.headers, 'Allow', allow] };
}

function readinessResponse(reasons: readonly string[], degraded: readonly string[]): PreparedResponse {
  if (reasons.length > 0) return jsonResponse(503, JSON.stringify({ status: 'not_ready', reasons }));
  return degraded.length === 0
    ? READY_RESPONSE
    : jsonResponse(200, JSON.stringify({ status: 'ready', degraded }));
}
