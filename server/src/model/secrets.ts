import type { Endpoint, WebhookSettings } from './destination.ts';
import { shownUrl } from './shown-url.ts';

/** What is shown of a secret: that there is one, and the last four of at least twelve characters. contract.md section 4. */
export interface Mask {
  readonly set: true;
  readonly hint?: string;
}

/** Settings as they may be shown: every secret is given as what stands for it, in a URL by `shownUrl`. */
export type ShownSettings<Secret> = Omit<WebhookSettings, 'endpoints' | 'sharedSecret' | 'signingSecrets'> & {
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

const HINT = 4;
const SHORTEST_WITH_HINT = 12;

/** A signature of a guessable secret gives it away: whoever sees one request can try secrets until one fits. */
const SHORTEST_SAFE = 16;

/** What somebody who sets a shared secret should know about it; receivers may have it already, so it is never refused. */
export function secretWarning(secret: string | undefined): string | undefined {
  if (secret === undefined || secret.length >= SHORTEST_SAFE) return undefined;
  return `has fewer than ${SHORTEST_SAFE} characters, and could be guessed from one signed request; take a longer one if the receiver can`;
}

export function maskOf(secret: string): Mask {
  return secret.length < SHORTEST_WITH_HINT ? { set: true } : { set: true, hint: secret.slice(-HINT) };
}

/** A header whose value signs the request in somewhere. Others, such as `X-Team`, are shown as they are. */
const SECRET_HEADER = /auth|cookie|key|pass|secret|signature|token/i;

/**
 * Settings with something in the place of every secret: a mask to show them, the name of a variable to write a file.
 * `urlOf` says how a URL is shown, whose query may hold a secret too.
 */
export function withoutSecrets<Secret>(
  settings: WebhookSettings,
  instead: (secret: string, place: SecretPlace) => Secret,
  urlOf: (url: string) => string = shownUrl,
): ShownSettings<Secret> {
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
