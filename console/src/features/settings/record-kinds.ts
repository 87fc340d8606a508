/** Kinds of records that the audit trail has. */
export const KINDS = [
  'source',
  'destination',
  'audience',
  'trait',
  'alert',
  'token',
  'replay',
  'regulation',
] as const;
export type RecordKind = (typeof KINDS)[number];
