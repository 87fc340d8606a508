import type { Endpoint } from './endpoint.ts';
import { isSecretHeader, mapUrlValues } from './secrets.ts';

/** A shorter text stands in too many answers by chance, such as the value of `?v=1`. */
const MIN_SECRET = 6;

/** A shorter word of a header, such as `Bearer`, is no credential by itself. */
const MIN_WORD = 8;

/** Replacement of a secret. */
const ELLIPSIS = '…';

/**
 * Length from which only the beginning of an answer is kept (ports/http-client.ts): a secret at its end may
 * be cut.
 */
const MAY_BE_CUT = 4000;

/**
 * Strikes secrets from texts that a receiver has written: as they are, with the escapes of JSON, HTML and
 * URLs, and in base64, also where more stands before and behind them in it. Endpoints that are being
 * developed answer with the request that they got.
 */
export class SecretRedactor {
  /** The longest first: a secret goes with its scheme, where that stands there too. */
  readonly #forms: readonly string[];

  constructor(secrets: Iterable<string>) {
    const forms = new Set([...secrets].flatMap(formsOf).filter(({ length }) => length >= MIN_SECRET));
    this.#forms = [...forms].sort((a, b) => b.length - a.length);
  }

  readonly redact = (text: string): string => {
    let redacted = text;
    for (const form of this.#forms) redacted = redacted.replaceAll(form, ELLIPSIS);
    return Buffer.byteLength(text) < MAY_BE_CUT ? redacted : this.#withoutCutSecret(redacted);
  };

  #withoutCutSecret(text: string): string {
    for (const form of this.#forms)
      for (let length = form.length - 1; length >= MIN_SECRET; length--)
        if (text.endsWith(form.slice(0, length))) return `${text.slice(0, -length)}${ELLIPSIS}`;
    return text;
  }
}

/** The ways in which a secret may stand in an answer. */
function formsOf(secret: string): string[] {
  const json = JSON.stringify(secret).slice(1, -1);
  const url = encodeURIComponent(secret.toWellFormed());
  const lowerUrl = url.replace(/%[0-9A-F]{2}/g, (byte) => byte.toLowerCase());
  const html = secret.replace(/[&<>"']/g, (character) => HTML[character]!);
  return [secret, json, json.replaceAll('/', '\\/'), url, lowerUrl, html, ...base64Forms(secret)];
}

const HTML: Readonly<Record<string, string>> = {
  ...{ '&': '&amp;', '<': '&lt;', '>': '&gt;' },
  ...{ '"': '&quot;', "'": '&#39;' },
};

/**
 * The characters of base64 that depend on nothing but the secret, for each of the three places at which it
 * may begin in a longer text, in both alphabets.
 */
function base64Forms(secret: string): string[] {
  const bytes = Buffer.from(secret);
  return [0, 1, 2].flatMap((before) => {
    const whole = Buffer.concat([Buffer.alloc(before), bytes]);
    const from = Math.ceil((before * 8) / 6);
    const to = Math.floor((whole.length * 8) / 6);
    return (['base64', 'base64url'] as const).map((alphabet) => whole.toString(alphabet).slice(from, to));
  });
}

/** Secrets that requests are signed with. */
export interface SigningSecrets {
  /** Signs every request when set (`X-Signature`). */
  readonly sharedSecret?: string;
  /**
   * Takes the place of `sharedSecret` soon: a second signature (`X-Signature-Next`) while receivers change
   * over.
   */
  readonly nextSharedSecret?: string;
  /**
   * Standard Webhooks secrets, `whsec_…`; two while one replaces the other. Each adds a signature to every
   * request.
   */
  readonly signingSecrets?: readonly string[];
}

/**
 * The secrets that an endpoint knows: credentials in its headers and URL, and the secrets that requests to it
 * are signed with.
 */
export function secretsOfEndpoint(
  { url, headers }: Endpoint,
  { sharedSecret, nextSharedSecret, signingSecrets = [] }: SigningSecrets,
): string[] {
  return [
    ...Object.entries(headers).flatMap(([name, value]) => (isSecretHeader(name) ? credentialsIn(value) : [])),
    ...valuesOfUrl(url),
    ...[sharedSecret, nextSharedSecret].filter((secret) => secret !== undefined),
    ...signingSecrets.flatMap((secret) => [secret, secret.replace(/^whsec_/, '')]),
  ];
}

/** The signatures of a request: whoever has them can send its body as Millrace does. */
export function signaturesIn(headers: Readonly<Record<string, string>>): string[] {
  return Object.entries(headers).flatMap(([name, value]) =>
    /signature/i.test(name) ? value.split(/[\s,]+/).filter((part) => part.length >= MIN_WORD) : [],
  );
}

/** The value of a header, its words without the scheme, and what stands in them in base64, as with Basic. */
function credentialsIn(value: string): string[] {
  const words = value.split(/[\s;,="]+/).filter((word) => word.length >= MIN_WORD);
  const decoded = words.flatMap((word) => {
    const text = Buffer.from(word, 'base64').toString('latin1');
    return /^[ -~]{4,}$/.test(text) ? [text, text.slice(text.indexOf(':') + 1)] : [];
  });
  return [value, ...words, ...decoded];
}

function valuesOfUrl(url: string): string[] {
  const values: string[] = [];
  mapUrlValues(url, (value) => {
    values.push(value, decoded(value));
    return value;
  });
  return values;
}

function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}
