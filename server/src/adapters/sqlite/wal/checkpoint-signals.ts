/** The words that the writer's thread and the checkpointer's share: pages in the log, pages copied, what it is to do, what it does. */
export const WAL_PAGES = 0;
export const COPIED_PAGES = 1;
export const COMMAND = 2;
export const PAUSED_BY = 3;
export const SIGNALS = 4;

/**
 * Wishes. Any number above 0 stands for a pause, another one for each: give up the file until told to go on. The thread
 * answers with the same number in `PAUSED`, so that the answer to an earlier pause is not taken for one to this.
 */
export const RUN = 0;
export const STOP = -1;
