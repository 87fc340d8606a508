/**
 * Memory layout and numbers on which the two halves of the encoder agree: `parser.ts` and the WebAssembly
 * module. `npm run generate` writes `assembly/layout.ts` from these tables.
 */

/**
 * Words of a call's descriptor, 32 bits each: what the module says of one call. All but `MARKS` are addresses
 * in its memory.
 */
export const DESCRIPTOR = {
  CALL_FROM: 0,
  CALL_TO: 1,
  MARKS: 2,
  LINE_FROM: 3,
  LINE_TO: 4,
  /** End of the messageId, which begins at the same offset in every line. */
  ID_TO: 5,
  /** Both 0 when the call has no userId. */
  USER_FROM: 6,
  USER_TO: 7,
} as const;

/** Bits of a descriptor's `MARKS`. */
export const MARK_BITS = {
  /** The call may carry a write key. */
  HAS_WRITE_KEY: 1,
  NON_CANONICAL: 2,
  /** The call has a line. Without this mark it is parsed. */
  ENCODED: 4,
  /** Neither the call nor its batch has an `integrations` object with a key in it. */
  NO_INTEGRATIONS: 8,
  /** The timestamp is not corrected, because the client's clock is too far off. */
  SKEWED: 16,
  /** The userId has escapes, or characters beyond ASCII. */
  ESCAPED_USER: 32,
} as const;

/**
 * Pieces of JSON that go into lines where the call has no such field, in the order in which `PIECES` has two
 * words for each: begin and end. The times are `receivedAt`, behind `sentAt` where the batch has one, without
 * the first quote.
 */
export const PIECE = {
  CONTEXT_PIECE: 0,
  INTEGRATIONS_PIECE: 1,
  CHANNEL_PIECE: 2,
  TIMES_PIECE: 3,
} as const;

/** Words of one piece. */
export const PIECE_WORDS = 2;

/** In place of the type of a single call. */
export const IN_BATCH = -1;

/**
 * Names of fields that the module recognises; each has its place in this table as its number. Those up to
 * `WRITE_KEY` are fields of a call, and `USER_ID` to `TRAITS` are written in this order. `OTHER` stands for
 * every other field of a call.
 */
export const FIELD_NAMES = {
  MESSAGE_ID: 'messageId',
  TYPE: 'type',
  CHANNEL: 'channel',
  USER_ID: 'userId',
  ANONYMOUS_ID: 'anonymousId',
  PREVIOUS_ID: 'previousId',
  GROUP_ID: 'groupId',
  EVENT: 'event',
  NAME: 'name',
  CATEGORY: 'category',
  PROPERTIES: 'properties',
  TRAITS: 'traits',
  CONTEXT: 'context',
  INTEGRATIONS: 'integrations',
  TIMESTAMP: 'timestamp',
  ORIGINAL_TIMESTAMP: 'originalTimestamp',
  SENT_AT: 'sentAt',
  RECEIVED_AT: 'receivedAt',
  WRITE_KEY: 'writeKey',
  OTHER: undefined,
  /** Of a `context`. */
  LIBRARY: 'library',
  DIRECT: 'direct',
  IP: 'ip',
  /** Of the body of a batch. */
  BATCH: 'batch',
} as const;

/** Everything `channelOf` can make of a library, by its number in the module. */
export const CHANNELS = ['server', 'browser', 'mobile'];
