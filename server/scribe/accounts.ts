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
export const ACCOUNT: usize = 32;

/** It may carry a write key. */
export const KEYED: u32 = 1;
/** It is not canonical. */
export const ODD: u32 = 2;
/** It has a line; without this mark it is to be parsed. */
export const TRANSCRIBED: u32 = 4;
/** It said nothing of where it may go. */
export const UNDIRECTED: u32 = 8;
/** Its time was not corrected, as its client's clock is too far off. */
export const SKEWED: u32 = 16;
/** Its userId has escapes, or characters beyond ASCII. */
export const ESCAPED_USER: u32 = 32;

/** Behind all that is static. */
export const ACCOUNTS: usize = (__heap_base + 15) & ~15;

export function describe(account: usize, from: usize, to: usize): void {
  store<u32>(account, <u32>from, CALL_FROM);
  store<u32>(account, <u32>to, CALL_TO);
  store<u32>(account, 0, MARKS);
}

export function mark(account: usize, marks: u32): void {
  store<u32>(account, load<u32>(account, MARKS) | marks, MARKS);
}
