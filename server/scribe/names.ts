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
