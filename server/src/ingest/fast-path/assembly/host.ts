import { DESCRIPTOR, DESCRIPTORS } from './layout';

/** What is left to the program, because it is rare and JavaScript has it already: `../encoder.ts`. */

/** Whether JavaScript writes the number between two places like that. */
export declare function isCanonicalNumber(from: usize, to: usize): bool;

/** A client's time between two places, in any form; `NaN` when it cannot be read. */
export declare function parseTime(from: usize, to: usize): f64;

/** The number of the channel of the library whose JSON stands between two places. */
export declare function channelOf(from: usize, to: usize): i32;

/** Writes the id of a call that has none to a place; its length. */
export declare function newMessageId(at: usize): usize;

/** What all calls of one request share. The program says so before it has them transcribed. */

/** The type of a single call, as its place in `CALL_TYPES`; `IN_BATCH` where each call has its own. */
export let type: i32 = 0;
export const IN_BATCH: i32 = -1;

export let receivedAt: f64 = 0;
/** For calls without their own; `NaN` when there is none. */
export let sentAt: f64 = NaN;

/** A call's own must be merged with what its batch shares, which is more than copying. */
export let mergesContext: bool = false;
export let mergesIntegrations: bool = false;
/** Whether there is any word in the integrations of the batch. */
export let hasIntegrations: bool = false;

/**
 * What goes into lines where the call has no such field of its own: whole fields, `"context":{…}`, and the time of arrival,
 * behind that of sending where the batch has one, from the quote before it to the one behind it.
 */
export const CONTEXT_PIECE: usize = 0;
export const INTEGRATIONS_PIECE: usize = 8;
export const CHANNEL_PIECE: usize = 16;
export const TIMES_PIECE: usize = 24;

/** For each of them two 32-bit numbers: where it begins and where it ends. The program writes them. */
export const PIECES = memory.data(32, 16);

export function pieceFrom(piece: usize): usize {
  return load<u32>(PIECES + piece);
}

export function pieceTo(piece: usize): usize {
  return load<u32>(PIECES + piece, 4);
}

export function setRequest(typeOfCalls: i32, received: f64, sent: f64): void {
  type = typeOfCalls;
  receivedAt = received;
  sentAt = sent;
}

export function setShared(
  contextMerges: bool,
  integrationsMerge: bool,
  integrationsSaySomething: bool,
): void {
  mergesContext = contextMerges;
  mergesIntegrations = integrationsMerge;
  hasIntegrations = integrationsSaySomething;
}

/** Calls a batch may have, bytes of one of them, and characters of a messageId. The program says so. */
export let maxCalls: i32 = 0;
export let maxCallBytes: u32 = 0;
export let maxMessageIdLength: usize = 0;

/** Where memory begins that is the program's, behind the accounts of so many calls and one more. */
export function setLimits(calls: i32, item: u32, messageId: usize): usize {
  maxCalls = calls;
  maxCallBytes = item;
  maxMessageIdLength = messageId;
  return DESCRIPTORS + <usize>(calls + 1) * DESCRIPTOR;
}
