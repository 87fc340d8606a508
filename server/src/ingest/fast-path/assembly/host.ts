import { CALL_FROM, CALL_TO, DESCRIPTOR, MARKS, PIECES_SIZE } from './layout';

// The values that this module and the program exchange; `../parser.ts` is the other side.

// The program answers rare questions, because JavaScript has the answers already.

/** Whether JavaScript writes the number between two addresses like that. */
export declare function isCanonicalNumber(from: usize, to: usize): bool;

/** A client's time between two addresses, in any form; `NaN` when it cannot be read. */
export declare function parseTime(from: usize, to: usize): f64;

/** The number of the channel of the library whose JSON stands between two addresses. */
export declare function channelOf(from: usize, to: usize): i32;

/** Writes the id of a call that has none to an address and gives its length. */
export declare function newMessageId(at: usize): usize;

/**
 * Writes the address of the caller in the place of the brace that ends a context, with a brace of its own,
 * and gives by how many bytes the context is longer then. `end`: behind the context.
 */
export declare function addAddress(end: usize): usize;

// Facts that all calls of one request share. The program sets them before it calls `encode`.

/** The type of a single call, as its index in `CALL_TYPES`; `IN_BATCH` where each call has its own. */
export let type: i32 = 0;

export let receivedAt: f64 = 0;
/** The time of sending for calls without their own; `NaN` when there is none. */
export let sentAt: f64 = NaN;

/** A call's own must be merged with the batch's, which takes more than copying. */
export let mergesContext: bool = false;
export let mergesIntegrations: bool = false;
/** Whether the integrations of the batch have any key. */
export let hasIntegrations: bool = false;

/**
 * Whether a context that has an address is stored as it is, and whether one of a client library that has none
 * gets that of the caller.
 */
export let keepsAddress: bool = true;
export let fillsAddress: bool = false;

/** Begin and end of each piece, as two 32-bit addresses that the program writes. */
export const PIECES = memory.data(PIECES_SIZE, 16);

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

export function setShared(contextMerges: bool, integrationsMerge: bool, integrationsHaveKeys: bool): void {
  mergesContext = contextMerges;
  mergesIntegrations = integrationsMerge;
  hasIntegrations = integrationsHaveKeys;
}

export function setAddress(keeps: bool, fills: bool): void {
  keepsAddress = keeps;
  fillsAddress = fills;
}

/**
 * Limits that the program sets: calls of a batch, bytes of one call, characters of a messageId and of the
 * other ids.
 */
export let maxCalls: i32 = 0;
export let maxCallBytes: u32 = 0;
export let maxMessageIdLength: usize = 0;
export let maxIdLength: usize = 0;

/**
 * Gives the address from which on memory is the program's, behind the descriptors of so many calls and one
 * more.
 */
export function setLimits(calls: i32, call: u32, messageId: usize, id: usize): usize {
  maxCalls = calls;
  maxCallBytes = call;
  maxMessageIdLength = messageId;
  maxIdLength = id;
  return DESCRIPTORS + <usize>(calls + 1) * DESCRIPTOR;
}

/** The descriptors of all calls, which the program reads. They stand behind all static memory. */
export const DESCRIPTORS: usize = (__heap_base + 15) & ~15;

export function beginDescriptor(descriptor: usize, from: usize, to: usize): void {
  store<u32>(descriptor, <u32>from, CALL_FROM);
  store<u32>(descriptor, <u32>to, CALL_TO);
  store<u32>(descriptor, 0, MARKS);
}

export function mark(descriptor: usize, marks: u32): void {
  store<u32>(descriptor, load<u32>(descriptor, MARKS) | marks, MARKS);
}
