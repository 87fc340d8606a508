import * as z from 'zod';
import { isObject } from '../../model/json.ts';
import { hasMaskedValue } from '../../model/secrets.ts';

/** spec/specification.md, "Limits": static headers per URL. */
const MAX_HEADERS = 5;

/**
 * Headers that belong to Millrace or to the connection; `*` stands for any rest. Names are compared without
 * case. spec/specification.md, "Reserved headers". `Authorization` is allowed on purpose.
 */
export const RESERVED_HEADERS: readonly string[] = [
  'Host',
  'Content-*',
  'Transfer-Encoding',
  'Connection',
  'Keep-Alive',
  'TE',
  'Trailer',
  'Upgrade',
  'Expect',
  'Proxy-*',
  'User-Agent',
  'X-Signature',
  'X-Signature-Next',
  'X-Replay-Id',
  'Webhook-*',
];

/** JSON Schema has no flag for "any case", so every letter becomes a class of two. */
const RESERVED = new RegExp(`^(${RESERVED_HEADERS.map(anyCase).join('|')})$`);

/** Whether requests have a header of this name that the settings cannot set. */
export function isReservedHeader(name: string): boolean {
  return RESERVED.test(name);
}

/** A token of RFC 9110. */
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** One byte per character on the wire; a line break would let a value add headers of its own. */
const HEADER_VALUE = /^[\u0020-\u007e\u00a0-\u00ff]*$/;

const WEB_URL = /^[hH][tT][tT][pP][sS]?:\/\/[^\s/?#@\\]+([/?][^\s#]*)?$/;

/** Characters of a URL: servers and proxies take at least as many. */
const MAX_URL_LENGTH = 2048;

/** Characters of a header's value: servers refuse a head of 16 KB, and often one of 8. */
const MAX_VALUE_LENGTH = 8192;

const URL_RULE = 'must be an absolute http or https URL';
const VALUE_RULE = 'must be text without control characters or characters beyond Latin-1';
const MASKED_VALUE_RULE =
  'must be typed again: a stored value is sent to the URL that it was stored for, and neither to another host nor to another path';
const LONG_VALUE_RULE = `must be text of at most ${MAX_VALUE_LENGTH} characters`;

/**
 * The error in an address that requests are sent to, or `undefined`. Credentials and fragments are refused
 * because neither is ever sent: an operator who writes one would expect an effect that it does not have.
 */
export function urlProblem(text: string): string | undefined {
  if (text.length > MAX_URL_LENGTH) return `${URL_RULE} of at most ${MAX_URL_LENGTH} characters`;
  const authority = /^https?:\/\/([^\s/?#\\]+)/i.exec(text)?.[1];
  if (authority === undefined || /[\s\p{Cc}]/u.test(text)) return URL_RULE;
  if (authority.includes('@'))
    return `${URL_RULE} without user name and password; use an Authorization header`;
  if (text.includes('#')) return `${URL_RULE} without a fragment (the part from # on), which is never sent`;
  if (hasMaskedValue(text))
    return `${URL_RULE} with its whole path and query: … only stands for what is stored of a URL with the same path`;
  const url = WEB_URL.test(text) ? URL.parse(text) : null;
  if (url === null) return URL_RULE;
  return url.port === '0' ? `${URL_RULE} with a port from 1 to 65535` : undefined;
}

export const webUrl = z
  .string(URL_RULE)
  .superRefine((text, context) => {
    const message = urlProblem(text);
    if (message !== undefined) context.addIssue({ code: 'custom', message, params: { found: true } });
  })
  .meta({
    description: 'Where the requests go: an absolute http or https URL without credentials or fragment.',
    pattern: WEB_URL.source,
    maxLength: MAX_URL_LENGTH,
  });

/**
 * The most entries of a list or mapping that are checked one by one. A list a little too long gets all its
 * errors.
 */
export const MAX_CHECKED_ENTRIES = 20;

export const HEADERS_RULE = `must have at most ${MAX_HEADERS} headers`;

/** A mask that is left over: the server has put no stored value in its place. */
const isMask = (value: unknown) => isObject(value) && value['set'] === true;

const headerValue = z
  .string({ error: ({ input }) => (isMask(input) ? MASKED_VALUE_RULE : VALUE_RULE) })
  .regex(HEADER_VALUE, VALUE_RULE)
  .max(MAX_VALUE_LENGTH, { error: LONG_VALUE_RULE, abort: true });

const headers = z
  .record(z.string(), headerValue, 'must be a mapping of header names to values')
  // Runs also when a value is wrong, so that one check reports every error.
  .superRefine((record: unknown, context) => checkNames(record, context), { when: () => true })
  .default({})
  .meta({
    description: `Static headers of every request to this URL, at most ${MAX_HEADERS}. Reserved names are refused.`,
    propertyNames: { pattern: HEADER_NAME.source, not: { pattern: RESERVED.source } },
    maxProperties: MAX_HEADERS,
    examples: [{ 'X-Team': 'growth' }],
  });

/**
 * The names of headers as a whole; a key schema of the record would drop wrong names before they are counted.
 */
function checkNames(record: unknown, context: z.core.$RefinementCtx): void {
  if (!isObject(record)) return;
  const names = Object.keys(record);
  if (names.length > MAX_HEADERS) {
    context.addIssue({ code: 'custom', message: HEADERS_RULE, params: { found: true } });
  }
  const first = new Map<string, string>();
  for (const name of names) {
    const same = first.get(name.toLowerCase());
    if (same === undefined) first.set(name.toLowerCase(), name);
    const message =
      same === undefined ? nameProblem(name) : `is the same header as ${same}: case does not matter`;
    if (message !== undefined)
      context.addIssue({ code: 'custom', path: [name], message, params: { at: 'key' } });
  }
}

function nameProblem(name: string): string | undefined {
  if (!HEADER_NAME.test(name)) return "is not a header name: letters, digits and !#$%&'*+-.^_`|~ are allowed";
  return isReservedHeader(name)
    ? `is a reserved header; reserved are ${RESERVED_HEADERS.join(', ')}`
    : undefined;
}

export const endpointSchema = z
  .strictObject({ url: webUrl, headers }, 'must be a mapping with url and headers')
  .meta({ description: 'One URL with the static headers of its requests.' });

/**
 * Two are enough to replace one while receivers know either. spec/specification.md, "Standard Webhooks
 * signature".
 */
const MAX_SIGNING_SECRETS = 2;

/** `whsec_` and the base64 of 24 to 64 bytes, which is what the Standard Webhooks specification asks for. */
const SIGNING_SECRET =
  /^whsec_([A-Za-z0-9+/]{4}){8,20}([A-Za-z0-9+/]{4}([A-Za-z0-9+/]{2}==)?|[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

const SIGNING_SECRETS_RULE = 'must be a list of 1 or 2 secrets';
const SIGNING_SECRET_RULE = 'must be whsec_ followed by the base64 of 24 to 64 bytes';

export const signingSecrets = z
  .array(z.string(SIGNING_SECRET_RULE).regex(SIGNING_SECRET, SIGNING_SECRET_RULE), SIGNING_SECRETS_RULE)
  .min(1, SIGNING_SECRETS_RULE)
  .max(MAX_SIGNING_SECRETS, SIGNING_SECRETS_RULE)
  .exactOptional()
  .meta({
    description:
      'Secrets of the Standard Webhooks scheme (webhook-timestamp, webhook-signature), beside sharedSecret. Two while one replaces the other: every request then carries a signature of each.',
    writeOnly: true,
  });

function anyCase(name: string): string {
  return name
    .replace(/[a-z]/gi, (letter) => `[${letter.toUpperCase()}${letter.toLowerCase()}]`)
    .replace('*', '.*');
}
