/** The words that the writer's thread and the checkpointer's share: pages in the log, pages copied, what it is to do, what it does. */
export const LOG = 0;
export const COPIED = 1;
export const WISH = 2;
export const PAUSED = 3;
export const WORDS = 4;

/**
 * Wishes. Any number above 0 stands for a pause, another one for each: give up the file until told to go on. The thread
 * answers with the same number in `PAUSED`, so that the answer to an earlier pause is not taken for one to this.
 */
export const GO_ON = 0;
export const STOP = -1;
