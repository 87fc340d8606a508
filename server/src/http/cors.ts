import type { Answer } from './respond.ts';

/** Any page may send events and read the answer; there are no cookies here that another site could abuse. */
const ANY_ORIGIN = ['Access-Control-Allow-Origin', '*'];

const READABLE = [...ANY_ORIGIN, 'Access-Control-Expose-Headers', 'Retry-After, X-RateLimit-Reset'];

const PREFLIGHT = [
  ...ANY_ORIGIN,
  // By name: a * does not cover Authorization under the Fetch standard.
  // Pages that are traced put `traceparent` on every request, and could otherwise send none here.
  ...['Access-Control-Allow-Headers', 'Authorization, Content-Type, X-Retry-Count, traceparent'],
  // A day, so that a page asks once and not before every call; browsers cut it to what they allow.
  ...['Access-Control-Max-Age', '86400'],
];

/** The answer with what a browser wants before a script may read it. decisions.md section 1, "CORS". */
export function forBrowsers({ status, headers, body }: Answer): Answer {
  // Twice the same header is none at all to a browser, and the answer to a preflight has it already.
  const more = headers.includes(ANY_ORIGIN[0]!) ? READABLE.slice(ANY_ORIGIN.length) : READABLE;
  return { status, headers: [...headers, ...more], body };
}

/** The answer to OPTIONS, for browsers that ask before they send and for whoever else wants to know. */
export function optionsAnswer(allow: string, isReceiving: boolean): Answer {
  const preflight = isReceiving ? ['Access-Control-Allow-Methods', allow, ...PREFLIGHT] : [];
  return { status: 204, headers: ['Allow', allow, ...preflight], body: '' };
}
