import type { PreparedResponse } from './responses.ts';

/** Any page may send events and read the answer; there are no cookies here that another site could abuse. */
const ANY_ORIGIN = ['Access-Control-Allow-Origin', '*'];

const CORS_HEADERS = [...ANY_ORIGIN, 'Access-Control-Expose-Headers', 'Retry-After, X-RateLimit-Reset'];

const PREFLIGHT_HEADERS = [
  ...ANY_ORIGIN,
  // By name: a * does not cover Authorization under the Fetch standard.
  // Pages that are traced put `traceparent` on every request, and could otherwise send none here.
  ...['Access-Control-Allow-Headers', 'Authorization, Content-Type, X-Retry-Count, traceparent'],
  // A day, so that a page asks once and not before every call; browsers cut it to what they allow.
  ...['Access-Control-Max-Age', '86400'],
];

/** The answer with what a browser wants before a script may read it. spec/specification.md, "Browsers". */
export function withCorsHeaders({ status, headers, body }: PreparedResponse): PreparedResponse {
  // Twice the same header is none at all to a browser, and the answer to a preflight has it already.
  const more = headers.includes(ANY_ORIGIN[0]!) ? CORS_HEADERS.slice(ANY_ORIGIN.length) : CORS_HEADERS;
  return { status, headers: [...headers, ...more], body };
}

/** The answer to OPTIONS, for browsers that ask before they send and for whoever else wants to know. */
export function optionsResponse(allow: string, isReceiving: boolean): PreparedResponse {
  const preflight = isReceiving ? ['Access-Control-Allow-Methods', allow, ...PREFLIGHT_HEADERS] : [];
  return { status: 204, headers: ['Allow', allow, ...preflight], body: '' };
}
