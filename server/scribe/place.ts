/** Not canonical. Every function that gives a place in memory gives this instead. */
export const NOWHERE: usize = 0;
