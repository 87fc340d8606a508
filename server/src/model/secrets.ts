/**
 * The visible part of a secret: that it is set, and the last four characters when it has at least twelve.
 * spec/contract.md, "Conventions".
 */
export interface SecretMask {
  readonly set: true;
  readonly hint?: string;
}

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

/** Whether the value of a header is a credential. */
export function isSecretHeader(name: string): boolean {
  return SECRET_HEADER.test(name);
}

/** The mask of one value. */
const MASK = '…';

/**
 * A write key as somebody may see it who may not send with it. It is a text, as the key is, and no key: the
 * configuration refuses it.
 */
export function maskKey(key: string): string {
  return `${MASK}${maskSecret(key).hint ?? ''}`;
}

/** Whether a write key is the mask of one. */
export function isMaskedKey(key: string): boolean {
  return key.startsWith(MASK);
}

/** The place of a value in a URL that may be a secret. */
export type UrlValuePlace =
  | {
      /** Name of the parameter; empty for a value without a name, as in `?value`. */
      readonly name: string;
      /** Among the values of that name, from 0. */
      readonly nth: number;
    }
  | {
      /** Number of the segment in the path, from 0. */
      readonly segment: number;
    };

/** A shorter segment of a path is no credential. */
const MIN_TOKEN_LENGTH = 16;

/**
 * Words of lower-case letters, such as `incoming-webhooks`. A word with more letters than this is none that
 * somebody would read.
 */
const WORDS = /^[a-z]{1,15}([-_.][a-z]{1,15})*$/;

/** The mask, also as a program writes it that parses URLs. */
const isMask = (value: string) => /^(…|%e2%80%a6)$/i.test(value);

/**
 * Whether a segment of a path may be a credential, as in the URLs of chat services: it is long, and not made
 * of words.
 */
function isToken(segment: string): boolean {
  return isMask(segment) || (segment.length >= MIN_TOKEN_LENGTH && !WORDS.test(segment));
}

/**
 * A URL that may be shown anywhere, with `…` for user name and password, for every value of the query, for
 * each long segment of the path that is not made of words, and for the fragment. Names in the query stay. It
 * shows no value, because only the receiver knows which of them are credentials.
 */
export function maskUrl(url: string): string {
  const withoutUser = url.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/?#]*@/i, `$1${MASK}@`);
  return mapUrlValues(withoutUser, () => MASK).replace(/#.*$/s, `#${MASK}`);
}

/**
 * Replaces the values of a URL that may be secrets: those of its query, except empty ones, and tokens of its
 * path.
 */
export function mapUrlValues(url: string, instead: (value: string, place: UrlValuePlace) => string): string {
  const { before, query, after } = splitUrl(url);
  const start = mapTokens(before, instead);
  if (query === undefined) return start + after;
  const counts = new Map<string, number>();
  const values = query.split('&').map((part) => {
    const name = part.includes('=') ? part.slice(0, part.indexOf('=')) : '';
    const value = part.includes('=') ? part.slice(name.length + 1) : part;
    const nth = counts.get(name) ?? 0;
    counts.set(name, nth + 1);
    if (value === '') return part;
    return part.slice(0, part.length - value.length) + instead(value, { name, nth });
  });
  return `${start}?${values.join('&')}${after}`;
}

/** Replaces the tokens in the path of a URL without its query. */
function mapTokens(url: string, instead: (value: string, place: UrlValuePlace) => string): string {
  const [, origin, path] = /^([a-z][a-z0-9+.-]*:\/\/[^/]*\/)(.*)$/is.exec(url) ?? [];
  if (origin === undefined || path === undefined) return url;
  const segments = path.split('/');
  return (
    origin +
    segments.map((value, segment) => (isToken(value) ? instead(value, { segment }) : value)).join('/')
  );
}

/** Undoes `maskUrl`: replaces each mask with the value of the stored URL at the same place. */
export function unmaskUrl(url: string, stored: string): string {
  const values = new Map<string, string>();
  mapUrlValues(stored, (value, place) => {
    values.set(JSON.stringify(place), value);
    return value;
  });
  return mapUrlValues(url, (value, place) =>
    isMask(value) ? (values.get(JSON.stringify(place)) ?? value) : value,
  );
}

/** Whether a value of the path or the query is a mask. */
export function hasMaskedValue(url: string): boolean {
  let found = false;
  mapUrlValues(url, (value) => {
    found ||= isMask(value);
    return value;
  });
  return found;
}

function splitUrl(url: string): { before: string; query?: string; after: string } {
  const hash = url.indexOf('#');
  const whole = hash < 0 ? url : url.slice(0, hash);
  const mark = whole.indexOf('?');
  const after = url.slice(whole.length);
  if (mark < 0) return { before: whole, after };
  return { before: whole.slice(0, mark), query: whole.slice(mark + 1), after };
}
