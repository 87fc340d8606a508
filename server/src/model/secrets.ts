import type { Endpoint, WebhookSettings } from './destination.ts';

/**
 * What is shown of a secret: that there is one, and the last four of at least twelve characters. spec/contract.md,
 * "Conventions".
 */
export interface SecretMask {
  readonly set: true;
  readonly hint?: string;
}

/** Settings as they may be shown: every secret is given as what stands for it, in a URL by `maskUrl`. */
export type MaskedSettings<Secret> = Omit<
  WebhookSettings,
  'endpoints' | 'sharedSecret' | 'signingSecrets'
> & {
  readonly endpoints: readonly {
    readonly url: string;
    readonly headers: Readonly<Record<string, string | Secret>>;
  }[];
  readonly sharedSecret?: Secret;
  readonly signingSecrets?: readonly Secret[];
};

/** Where a secret stands: `sharedSecret`, `signingSecrets` and its number, or the header of an endpoint, both from 0. */
export type SecretPlace =
  | readonly ['sharedSecret']
  | readonly ['signingSecrets', number]
  | readonly ['endpoints', number, string];

const HINT_LENGTH = 4;
const MIN_LENGTH_WITH_HINT = 12;

/** A signature of a guessable secret gives it away: whoever sees one request can try secrets until one fits. */
const MIN_SAFE_LENGTH = 16;

/** What somebody who sets a shared secret should know about it; receivers may have it already, so it is never refused. */
export function weakSecretWarning(secret: string | undefined): string | undefined {
  if (secret === undefined || secret.length >= MIN_SAFE_LENGTH) return undefined;
  return `has fewer than ${MIN_SAFE_LENGTH} characters, and could be guessed from one signed request; take a longer one if the receiver can`;
}

export function maskSecret(secret: string): SecretMask {
  return secret.length < MIN_LENGTH_WITH_HINT
    ? { set: true }
    : { set: true, hint: secret.slice(-HINT_LENGTH) };
}

/** A header whose value signs the request in somewhere. Others, such as `X-Team`, are shown as they are. */
const SECRET_HEADER = /auth|cookie|key|pass|secret|signature|token/i;

/**
 * Settings with something in the place of every secret: a mask to show them, the name of a variable to write a file.
 * `urlOf` says how a URL is shown, whose query may hold a secret too.
 */
export function replaceSecrets<Secret>(
  settings: WebhookSettings,
  instead: (secret: string, place: SecretPlace) => Secret,
  urlOf: (url: string) => string = maskUrl,
): MaskedSettings<Secret> {
  const { endpoints, sharedSecret, signingSecrets, ...rest } = settings;
  const shown = ({ url, headers }: Endpoint, nth: number) => ({
    url: urlOf(url),
    headers: Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [
        name,
        SECRET_HEADER.test(name) ? instead(value, ['endpoints', nth, name]) : value,
      ]),
    ),
  });
  return {
    endpoints: endpoints.map(shown),
    ...(sharedSecret === undefined ? {} : { sharedSecret: instead(sharedSecret, ['sharedSecret']) }),
    ...(signingSecrets === undefined
      ? {}
      : { signingSecrets: signingSecrets.map((secret, nth) => instead(secret, ['signingSecrets', nth])) }),
    ...rest,
  };
}

/** Stands for a value that is not shown. */
const MASK = '…';

/** Where a value stands in the query of a URL. */
export interface QueryValuePlace {
  /** Empty for a value without a name, as in `?value`. */
  readonly name: string;
  /** Among the values of that name, from 0. */
  readonly nth: number;
}

/**
 * A URL as it may be shown anywhere: `…` stands for user name and password, for every value of the query, and for the
 * fragment. Names of the query stay. Which values are credentials depends on the receiver, so none is shown.
 */
export function maskUrl(url: string): string {
  const withoutUser = url.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/?#]*@/i, `$1${MASK}@`);
  return mapQueryValues(withoutUser, () => MASK).replace(/#.*$/s, `#${MASK}`);
}

/** The URL with other values in its query; an empty value stays as it is. */
export function mapQueryValues(
  url: string,
  instead: (value: string, place: QueryValuePlace) => string,
): string {
  const { before, query, after } = splitUrl(url);
  if (query === undefined) return url;
  const counts = new Map<string, number>();
  const values = query.split('&').map((part) => {
    const name = part.includes('=') ? part.slice(0, part.indexOf('=')) : '';
    const value = part.includes('=') ? part.slice(name.length + 1) : part;
    const nth = counts.get(name) ?? 0;
    counts.set(name, nth + 1);
    if (value === '') return part;
    return part.slice(0, part.length - value.length) + instead(value, { name, nth });
  });
  return `${before}?${values.join('&')}${after}`;
}

/** The URL with the values of another one where it holds what `maskUrl` puts in their place. */
export function unmaskUrl(url: string, stored: string): string {
  const values = new Map<string, string>();
  mapQueryValues(stored, (value, { name, nth }) => {
    values.set(JSON.stringify([name, nth]), value);
    return value;
  });
  return mapQueryValues(url, (value, { name, nth }) =>
    value === MASK ? (values.get(JSON.stringify([name, nth])) ?? value) : value,
  );
}

/** Whether a value of the query is what `maskUrl` puts in the place of one. */
export function hasMaskedValue(url: string): boolean {
  let found = false;
  mapQueryValues(url, (value) => {
    found ||= value === MASK;
    return value;
  });
  return found;
}

function splitUrl(url: string): { before: string; query?: string; after: string } {
  const hash = url.indexOf('#');
  const whole = hash < 0 ? url : url.slice(0, hash);
  const mark = whole.indexOf('?');
  if (mark < 0) return { before: url, after: '' };
  return { before: whole.slice(0, mark), query: whole.slice(mark + 1), after: url.slice(whole.length) };
}
