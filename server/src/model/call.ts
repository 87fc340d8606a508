/**
 * The six calls that a client library can make. spec/specification.md, "Purpose".
 */
export const CALL_TYPES = ['identify', 'track', 'page', 'screen', 'group', 'alias'] as const;

export type CallType = (typeof CALL_TYPES)[number];

/** The one-letter paths of browsers and mobile clients: `/v1/t` is `/v1/track`. spec/specification.md, "Paths". */
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
