import type { IncomingHttpHeaders } from 'node:http';
import { defined } from '../model/json.ts';
import { jsonResponse, type PreparedResponse, VARY } from './exchange.ts';

/** An address by which clients reach this server. */
interface ApiAddress {
  /** The host with its port, where it has one, and the path before the paths of the calls. */
  readonly apiHost: string;
  readonly protocol: string;
}

export interface PublicAddressOptions {
  /** By which clients reach this server; empty where the configuration names none. */
  readonly publicUrls: readonly string[];
  /** This server speaks https itself. */
  readonly isTls: boolean;
  /** Told once, when the address is the one that was asked for because the configuration names none. */
  readonly onGuess?: ((address: ApiAddress) => void) | undefined;
}

/**
 * Consent categories of a source, as consent banners read them: whether anything may be sent at all before
 * somebody has consented.
 */
export interface ConsentSettings {
  readonly allCategories: readonly string[];
  /** Whether enabled destinations of the source ask for no consent. */
  readonly hasUnmappedDestinations: boolean;
}

/** The request for the settings, as far as it tells by which address the client came. */
export interface SettingsRequest {
  readonly headers: IncomingHttpHeaders;
  /** The connection is that of a trusted proxy, whose `X-Forwarded-Proto` holds. */
  readonly isFromProxy: boolean;
}

/**
 * Where the settings tell clients to send to. Without a host a library sends every call to its maker, so one
 * is always named: that of `publicUrl` that was asked for, else the first of them, else simply the host that
 * was asked for.
 */
export class PublicAddress {
  readonly #known: readonly ApiAddress[];
  readonly #isTls: boolean;
  #onGuess: PublicAddressOptions['onGuess'];

  constructor({ publicUrls, isTls, onGuess }: PublicAddressOptions) {
    this.#known = publicUrls.map(apiAddressOf);
    this.#isTls = isTls;
    this.#onGuess = onGuess;
  }

  /** `isGuessed`: it is that of the request. Undefined where a request names no host. */
  of(request: SettingsRequest): { readonly address: ApiAddress; readonly isGuessed: boolean } | undefined {
    const { host = '' } = request.headers;
    const asked = this.#known.find(({ apiHost }) => apiHost.startsWith(`${host.toLowerCase()}/`));
    const known = asked ?? this.#known[0];
    if (known !== undefined) return { address: known, isGuessed: false };
    const url = URL.parse(`${this.#schemeOf(request)}://${host}`);
    if (host === '' || url === null || url.host === '' || url.pathname !== '/' || url.username !== '')
      return undefined;
    const address = apiAddressOf(url.origin);
    this.#onGuess?.(address);
    this.#onGuess = undefined;
    return { address, isGuessed: true };
  }

  #schemeOf({ headers, isFromProxy }: SettingsRequest): 'http' | 'https' {
    const forwarded = isFromProxy
      ? String(headers['x-forwarded-proto'] ?? '')
          .split(',', 1)[0]!
          .trim()
      : '';
    if (/^https?$/i.test(forwarded)) return forwarded.toLowerCase() as 'http' | 'https';
    if (this.#isTls) return 'https';
    // A page of https cannot send to http, so it has come by https, through a proxy that does not say so.
    return /^https:/i.test(headers.origin ?? headers.referer ?? '') ? 'https' : 'http';
  }
}

function apiAddressOf(publicUrl: string): ApiAddress {
  const { protocol, host, pathname } = new URL(publicUrl);
  const path = pathname.replace(/\/+$/, '');
  return { apiHost: `${host}${path}/v1`, protocol: protocol.slice(0, -1) };
}

/** Browsers ask at every page load. A change of the public address reaches them within five minutes. */
const SHARED_CACHE = ['Cache-Control', 'public, max-age=300', ...VARY];

/** A cache between would give one client the address by which another came. */
const OWN_CACHE = ['Cache-Control', 'private, max-age=300', ...VARY];

/**
 * The settings that browsers and mobile clients ask for before they send. There is exactly one integration:
 * without it a client accepts calls and sends none, and with a second one it loads code from elsewhere
 * (spec/specification.md, "Project settings"). An unknown key gets the answer of a source without consent
 * categories; a wrong key is refused with its first call.
 */
export function projectSettingsResponse(
  writeKey: string,
  found: ReturnType<PublicAddress['of']>,
  consentSettings?: ConsentSettings,
): PreparedResponse {
  const settings = {
    integrations: { 'Segment.io': { apiKey: writeKey, ...found?.address } },
    plan: { track: { __default: { enabled: true, integrations: {} } } },
    // Switches off the clients' own telemetry, which is not used here.
    metrics: { sampleRate: 0 },
    ...defined({ consentSettings }),
  };
  const { status, headers, body } = jsonResponse(200, JSON.stringify(settings));
  return { status, headers: [...headers, ...(found?.isGuessed === false ? SHARED_CACHE : OWN_CACHE)], body };
}

/**
 * The same for the browser library of RudderStack, which sends to the address it was given, and asks here
 * only whether there is anything to load. No destination is in it: each is served from here.
 */
export function sourceConfigResponse(writeKey = ''): PreparedResponse {
  const lists = { config: {}, connections: [], destinations: [], workspaceId: '', dataplanes: {} };
  const source = { id: writeKey, name: writeKey, writeKey, enabled: true, ...lists };
  const { status, headers, body } = jsonResponse(200, JSON.stringify({ source }));
  // The key may be in a header, so no cache may give one client what another one got.
  return { status, headers: [...headers, ...OWN_CACHE], body };
}
