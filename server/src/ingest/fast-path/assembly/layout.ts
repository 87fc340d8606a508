/** Made from `../layout.ts`, which says what each of these means, by `npm run generate`. */

/** Offsets in a descriptor, and its size. */
export const CALL_FROM: usize = 0;
export const CALL_TO: usize = 4;
export const MARKS: usize = 8;
export const LINE_FROM: usize = 12;
export const LINE_TO: usize = 16;
export const ID_TO: usize = 20;
export const USER_FROM: usize = 24;
export const USER_TO: usize = 28;
export const DESCRIPTOR: usize = 32;

/** Bits of `MARKS`. */
export const HAS_WRITE_KEY: u32 = 1;
export const NON_CANONICAL: u32 = 2;
export const ENCODED: u32 = 4;
export const NO_INTEGRATIONS: u32 = 8;
export const SKEWED: u32 = 16;
export const ESCAPED_USER: u32 = 32;

/** Offsets in the addresses of the pieces, and how many bytes those take. */
export const CONTEXT_PIECE: usize = 0;
export const INTEGRATIONS_PIECE: usize = 8;
export const CHANNEL_PIECE: usize = 16;
export const TIMES_PIECE: usize = 24;
export const PIECES_SIZE: i32 = 32;

/** In place of the type of a single call. */
export const IN_BATCH: i32 = -1;

/** Numbers of the names that are recognised. */
export const MESSAGE_ID: i32 = 0;
export const TYPE: i32 = 1;
export const CHANNEL: i32 = 2;
export const USER_ID: i32 = 3;
export const ANONYMOUS_ID: i32 = 4;
export const PREVIOUS_ID: i32 = 5;
export const GROUP_ID: i32 = 6;
export const EVENT: i32 = 7;
export const NAME: i32 = 8;
export const CATEGORY: i32 = 9;
export const PROPERTIES: i32 = 10;
export const TRAITS: i32 = 11;
export const CONTEXT: i32 = 12;
export const INTEGRATIONS: i32 = 13;
export const TIMESTAMP: i32 = 14;
export const ORIGINAL_TIMESTAMP: i32 = 15;
export const SENT_AT: i32 = 16;
export const RECEIVED_AT: i32 = 17;
export const WRITE_KEY: i32 = 18;
export const OTHER: i32 = 19;
export const LIBRARY: i32 = 20;
export const DIRECT: i32 = 21;
export const IP: i32 = 22;
export const BATCH: i32 = 23;
