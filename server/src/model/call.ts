/**
 * The six calls a client library can make, and the short names some of them use in paths.
 * Source: spec/specification.md, "Purpose" and "Paths".
 */
export const CALL_TYPES = ['identify', 'track', 'page', 'screen', 'group', 'alias'] as const;

export type CallType = (typeof CALL_TYPES)[number];

/** The one-letter paths of browsers and mobile clients: `/v1/t` is `/v1/track`. */
export const SHORT_FORMS: Readonly<Record<string, CallType>> = {
  i: 'identify',
  t: 'track',
  p: 'page',
  s: 'screen',
  g: 'group',
  a: 'alias',
};

export function isCallType(value: unknown): value is CallType {
  return CALL_TYPES.includes(value as CallType);
}
