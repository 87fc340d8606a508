/** The words that the writer's thread and the checkpointer's share: pages in the log, pages copied, what it is to do, what it does. */
export const LOG = 0;
export const COPIED = 1;
export const WISH = 2;
export const STATE = 3;
export const WORDS = 4;

/** Wishes. */
export const GO_ON = 0;
export const STOP = 1;
/** Give up the file until told to go on. */
export const PAUSE = 2;

/** States. */
export const AT_WORK = 0;
/** Without a handle. */
export const PAUSED = 1;
