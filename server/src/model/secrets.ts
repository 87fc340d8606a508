import type { Endpoint, WebhookSettings } from './destination.ts';

/**
 * The visible part of a secret: that it is set, and the last four characters when it has at least twelve. spec/contract.md,
 * "Conventions".
 */
export interface SecretMask {
  readonly set: true;
  readonly hint?: string;
}

/** Settings that may be shown: every secret is replaced by a `Secret`, and every URL is masked. */
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

/** The place of a secret: `sharedSecret`; `signingSecrets` and an index; `endpoints`, an index and the name of a header. */
export type SecretPlace =
  | readonly ['sharedSecret']
  | readonly ['signingSecrets', number]
  | readonly ['endpoints', number, string];

const HINT_LENGTH = 4;
const MIN_LENGTH_WITH_HINT = 12;

/** A shorter secret can be guessed: with one signed request, secrets can be tried until one fits. */
const MIN_SAFE_LENGTH = 16;

/** A warning about a weak shared secret. It is never refused, because receivers may have it already. */
export function weakSecretWarning(secret: string | undefined): string | undefined {
  if (secret === undefined || secret.length >= MIN_SAFE_LENGTH) return undefined;
  return `has fewer than ${MIN_SAFE_LENGTH} characters, and could be guessed from one signed request; take a longer one if the receiver can`;
}

export function maskSecret(secret: string): SecretMask {
  return secret.length < MIN_LENGTH_WITH_HINT
    ? { set: true }
    : { set: true, hint: secret.slice(-HINT_LENGTH) };
}

/** Names of headers whose values are credentials. Values of other headers, such as `X-Team`, are shown. */
const SECRET_HEADER = /auth|cookie|key|pass|secret|signature|token/i;

/**
 * Replaces every secret of the settings: with a mask to show them, or with the name of a variable to write a file. `urlOf` masks
 * URLs, whose query may hold a secret too.
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

/** The mask of one value. */
const MASK = '…';

/** The place of a value in the query of a URL. */
export interface QueryValuePlace {
  /** Name of the parameter; empty for a value without a name, as in `?value`. */
  readonly name: string;
  /** Among the values of that name, from 0. */
  readonly nth: number;
}

/**
 * A URL that may be shown anywhere, with `…` for user name and password, for every value of the query, and for the fragment. Names
 * in the query stay. It shows no value, because only the receiver knows which of them are credentials.
 */
export function maskUrl(url: string): string {
  const withoutUser = url.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/?#]*@/i, `$1${MASK}@`);
  return mapQueryValues(withoutUser, () => MASK).replace(/#.*$/s, `#${MASK}`);
}

/** Replaces the values in the query of a URL, except empty ones. */
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

/** Undoes `maskUrl`: replaces each mask in the query with the value of the stored URL at the same place. */
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

/** Whether a value of the query is a mask. */
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
