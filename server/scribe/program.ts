/** What is left to the program, because it is rare and JavaScript has it already: `../src/ingest/scribe.ts`. */

/** Whether JavaScript writes the number between two places like that. */
export declare function isAsWritten(from: usize, to: usize): bool;

/** A client's time between two places, in any form; `NaN` when it cannot be read. */
export declare function timeOf(from: usize, to: usize): f64;

/** The number of the channel of the library whose JSON stands between two places. */
export declare function channelOf(from: usize, to: usize): i32;

/** Writes the id of a call that has none to a place; its length. */
export declare function newMessageId(at: usize): usize;
