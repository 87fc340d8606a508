/**
 * What is said of each call, in eight 32-bit numbers that the program reads: where the call begins and ends, its marks, where
 * its line begins and ends, where its messageId ends, and where its userId begins and ends, or twice 0 where it has none. The
 * messageId begins where it does in every line.
 */
export const CALL_FROM: usize = 0;
export const CALL_TO: usize = 4;
export const MARKS: usize = 8;
export const LINE_FROM: usize = 12;
export const LINE_TO: usize = 16;
export const ID_TO: usize = 20;
export const USER_FROM: usize = 24;
export const USER_TO: usize = 28;
export const DESCRIPTOR: usize = 32;

/** It may carry a write key. */
export const HAS_WRITE_KEY: u32 = 1;
/** It is not canonical. */
export const NON_CANONICAL: u32 = 2;
/** It has a line; without this mark it is to be parsed. */
export const ENCODED: u32 = 4;
/** It said nothing of where it may go. */
export const NO_INTEGRATIONS: u32 = 8;
/** Its time was not corrected, as its client's clock is too far off. */
export const SKEWED: u32 = 16;
/** Its userId has escapes, or characters beyond ASCII. */
export const ESCAPED_USER: u32 = 32;

/** Behind all that is static. */
export const DESCRIPTORS: usize = (__heap_base + 15) & ~15;

export function beginDescriptor(descriptor: usize, from: usize, to: usize): void {
  store<u32>(descriptor, <u32>from, CALL_FROM);
  store<u32>(descriptor, <u32>to, CALL_TO);
  store<u32>(descriptor, 0, MARKS);
}

export function mark(descriptor: usize, marks: u32): void {
  store<u32>(descriptor, load<u32>(descriptor, MARKS) | marks, MARKS);
}

/**
 * The numbers of the names that are recognised. The first are the fields of a call that normalising looks at; those from
 * `userId` to `traits` are written in this order.
 */
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
/** The number of every other field of a call. */
export const OTHER: i32 = 19;
/** A field of a call's `context`. */
export const LIBRARY: i32 = 20;
/** What else is recognised: fields of a `context`, and of the body of a batch. */
export const DIRECT: i32 = 21;
export const BATCH: i32 = 22;

/** Not canonical. Every function that gives a place in memory gives this instead. */
export const FAILED: usize = 0;
