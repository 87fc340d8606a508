import { ABSENT, fieldFrom, fieldTo, kindOf, OBJECT, TEXT, valueFrom } from './fields';
import {
  addAddress,
  channelOf,
  DESCRIPTORS,
  fillsAddress,
  hasIntegrations,
  mark,
  newMessageId,
  pieceFrom,
  pieceTo,
  receivedAt,
  sentAt as sharedSentAt,
} from './host';
import { CLOSE_OBJECT, COMMA, isPlain, LINE_FEED, OPEN_OBJECT, QUOTE } from './json';
import {
  CHANNEL,
  CHANNEL_PIECE,
  CONTEXT,
  CONTEXT_PIECE,
  DESCRIPTOR,
  ENCODED,
  ESCAPED_USER,
  ID_TO,
  INTEGRATIONS,
  INTEGRATIONS_PIECE,
  IP,
  LIBRARY,
  LINE_FROM,
  LINE_TO,
  MESSAGE_ID,
  NO_INTEGRATIONS,
  OTHER,
  SENT_AT,
  SKEWED,
  TIMES_PIECE,
  TRAITS,
  USER_FROM,
  USER_ID,
  USER_TO,
} from './layout';
import { beginAt, constant, end, put, putByte, putConstant } from './output';
import { calls, INDEX_ENTRY, INDEX_HEAD } from './scan';
import { correctedTime, putTime } from './times';
import { isValid, originalAt, sentAt, typeOfCall } from './validate';

/** Marks and descriptor of the call being written. */
let marks: u32 = 0;
let descriptor: usize = DESCRIPTORS;

const FIRST = constant('{"messageId":"');
const TIMESTAMP = constant(',"timestamp":"');
const ORIGINAL_TIMESTAMP_NAME = constant('","originalTimestamp":"');
const SENT_AT_NAME = constant('","sentAt":"');
const RECEIVED_AT_NAME = constant('","receivedAt":"');

/**
 * Writes the events of the scanned calls from pieces of the body, one a line, and gives the address behind
 * the last line. A line is byte for byte what `normalize` and `JSON.stringify` make of the call. Calls that
 * they would discard get no line, nor do calls too rare to be worth a second way.
 */
export function encode(fieldIndex: usize, lines: usize): usize {
  beginAt(lines);
  descriptor = DESCRIPTORS;
  for (let left = calls; left > 0; left--) {
    if (isValid(fieldIndex, descriptor)) {
      marks = ENCODED;
      store<u32>(descriptor, <u32>end, LINE_FROM);
      writeLine(fieldIndex);
      store<u32>(descriptor, <u32>end, LINE_TO);
      putByte(LINE_FEED);
      mark(descriptor, marks);
    }
    fieldIndex += load<u32>(fieldIndex);
    descriptor += DESCRIPTOR;
  }
  return end;
}

function writeLine(fieldIndex: usize): void {
  if (kindOf(MESSAGE_ID) === ABSENT) {
    putConstant(FIRST);
    beginAt(end + newMessageId(end));
    putByte(QUOTE);
  } else {
    putByte(OPEN_OBJECT);
    putField(MESSAGE_ID);
  }
  store<u32>(descriptor, <u32>(end - 1), ID_TO);
  putConstant(typeOfCall);
  putChannel();
  putUser();
  for (let field = USER_ID + 1; field <= TRAITS; field++) {
    const kind = kindOf(field);
    if (kind !== TEXT && kind !== OBJECT) continue;
    putByte(COMMA);
    putField(field);
  }
  putShared();
  putTimes();
  putOthers(fieldIndex);
  putByte(CLOSE_OBJECT);
}

/** Writes key and value. */
function putField(field: i32): void {
  put(fieldFrom(field), fieldTo(field));
}

function putPiece(piece: usize): void {
  put(pieceFrom(piece), pieceTo(piece));
}

function putChannel(): void {
  if (kindOf(CHANNEL) === TEXT) putField(CHANNEL);
  else if (kindOf(CONTEXT) === ABSENT) putPiece(CHANNEL_PIECE);
  else if (kindOf(LIBRARY) === ABSENT) putConstant(defaultChannel());
  else putConstant(channelOfLibrary(fieldFrom(LIBRARY), fieldTo(LIBRARY)));
}

function putUser(): void {
  let from: usize = 0;
  let to: usize = 0;
  if (kindOf(USER_ID) === TEXT) {
    putByte(COMMA);
    from = end + (valueFrom(USER_ID) - fieldFrom(USER_ID)) + 1;
    putField(USER_ID);
    to = end - 1;
    if (!isPlain(from, to)) marks |= ESCAPED_USER;
  }
  store<u32>(descriptor, <u32>from, USER_FROM);
  store<u32>(descriptor, <u32>to, USER_TO);
}

function putShared(): void {
  putByte(COMMA);
  if (kindOf(CONTEXT) === OBJECT) {
    putField(CONTEXT);
    if (fillsAddress && kindOf(IP) === ABSENT && isOfClientLibrary()) beginAt(end + addAddress(end));
  } else putPiece(CONTEXT_PIECE);
  putByte(COMMA);
  // Scanning has refused a context with integrations.
  let hasNoIntegrations = !hasIntegrations;
  if (kindOf(INTEGRATIONS) === OBJECT) {
    putField(INTEGRATIONS);
    hasNoIntegrations = fieldTo(INTEGRATIONS) - valueFrom(INTEGRATIONS) === EMPTY_OBJECT;
  } else putPiece(INTEGRATIONS_PIECE);
  if (hasNoIntegrations) marks |= NO_INTEGRATIONS;
}

/** Bytes of `{}`. */
const EMPTY_OBJECT: usize = 2;

/** As `takeTimes` in `normalize.ts`. Each name begins with the quote that closes the time before it. */
function putTimes(): void {
  const isSent = kindOf(SENT_AT) !== ABSENT;
  const sent = isSent ? sentAt : sharedSentAt;
  putConstant(TIMESTAMP);
  if (F64.isNaN(originalAt)) putTime(receivedAt);
  else {
    let timestamp = originalAt;
    if (!F64.isNaN(sent) && sent !== receivedAt) {
      const corrected = correctedTime(originalAt, sent, receivedAt);
      if (F64.isNaN(corrected)) marks |= SKEWED;
      else timestamp = corrected;
    }
    putTime(timestamp);
    putConstant(ORIGINAL_TIMESTAMP_NAME);
    putTime(originalAt);
  }
  if (!isSent) {
    putPiece(TIMES_PIECE);
    return;
  }
  putConstant(SENT_AT_NAME);
  putTime(sentAt);
  putConstant(RECEIVED_AT_NAME);
  putTime(receivedAt);
  putByte(QUOTE);
}

/** Writes the fields that the protocol does not know, in the client's order. */
function putOthers(fieldIndex: usize): void {
  const to = fieldIndex + load<u32>(fieldIndex);
  for (let at = fieldIndex + INDEX_HEAD; at < to; at += INDEX_ENTRY) {
    if (load<u32>(at) !== OTHER) continue;
    putByte(COMMA);
    put(load<u32>(at, 4), load<u32>(at, 8));
  }
}

/** In the order of `CHANNELS` in `../layout.ts`. */
const SERVER = constant('"channel":"server"');
constant('"channel":"browser"');
constant('"channel":"mobile"');

/** The JSON of the library met last, and its channel: one application sends with one library. */
const MAX_CACHED_LIBRARY: usize = 256;
const LAST_LIBRARY = memory.data(256, 16);
let lastLength: usize = 0;
let lastChannel: usize = SERVER;

/** Whether the call comes straight from a browser or a phone, by the library that its own context names. */
function isOfClientLibrary(): bool {
  return kindOf(LIBRARY) !== ABSENT && channelOfLibrary(fieldFrom(LIBRARY), fieldTo(LIBRARY)) !== SERVER;
}

/** The constant for calls whose `context` names no library. */
export function defaultChannel(): usize {
  return SERVER;
}

/** The constant for calls whose `context.library` stands as JSON between two addresses. */
export function channelOfLibrary(from: usize, to: usize): usize {
  const length = to - from;
  if (length !== lastLength || memory.compare(LAST_LIBRARY, from, length) !== 0) {
    lastChannel = SERVER + channelOf(from, to);
    lastLength = length <= MAX_CACHED_LIBRARY ? length : 0;
    memory.copy(LAST_LIBRARY, from, lastLength);
  }
  return lastChannel;
}
