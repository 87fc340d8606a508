import {
  ACCOUNT,
  ACCOUNTS,
  ESCAPED_USER,
  ID_TO,
  LINE_FROM,
  LINE_TO,
  mark,
  SKEWED,
  TRANSCRIBED,
  UNDIRECTED,
  USER_FROM,
  USER_TO,
} from './accounts';
import { CLOSE_OBJECT, COMMA, LINE_FEED, OPEN_OBJECT, QUOTE } from './characters';
import {
  CHANNEL_PIECE,
  CONTEXT_PIECE,
  hasIntegrations,
  INTEGRATIONS_PIECE,
  pieceFrom,
  pieceTo,
  receivedAt,
  sentAt as sharedSentAt,
  TIMES_PIECE,
} from './envelope';
import { ABSENT, fieldFrom, fieldTo, kindOf, OBJECT, TEXT, valueFrom } from './fields';
import { isFit, originalAt, sentAt, typeOfCall } from './fitness';
import { channelOfLibrary, noChannel } from './library';
import { beginAt, end, put, putByte, putWord, word } from './line';
import {
  CHANNEL,
  CONTEXT,
  INTEGRATIONS,
  LIBRARY,
  MESSAGE_ID,
  OTHER,
  SENT_AT,
  TRAITS,
  USER_ID,
} from './names';
import { newMessageId } from './program';
import { calls, RECORD_FIELD, RECORD_HEAD } from './records';
import { isPlain } from './texts';
import { correctedTime, putTime } from './times';

/** Of the call being written. */
let marks: u32 = 0;
let account: usize = ACCOUNTS;

const FIRST = word('{"messageId":"');
const TIMESTAMP = word(',"timestamp":"');
const ORIGINAL_TIMESTAMP_WORD = word('","originalTimestamp":"');
const SENT_AT_WORD = word('","sentAt":"');
const RECEIVED_AT_WORD = word('","receivedAt":"');

/**
 * Writes the events of calls from pieces of the body, one a line: byte for byte what `normalise` and `JSON.stringify` make of
 * them. No line where they are to be asked: for every call that is to be discarded, and for what is too rare to be worth a
 * second way. Gives where the lines end.
 */
export function transcribe(record: usize, lines: usize): usize {
  beginAt(lines);
  account = ACCOUNTS;
  for (let left = calls; left > 0; left--) {
    if (isFit(record, account)) {
      marks = TRANSCRIBED;
      store<u32>(account, <u32>end, LINE_FROM);
      writeLine(record);
      store<u32>(account, <u32>end, LINE_TO);
      putByte(LINE_FEED);
      mark(account, marks);
    }
    record += load<u32>(record);
    account += ACCOUNT;
  }
  return end;
}

function writeLine(record: usize): void {
  if (kindOf(MESSAGE_ID) === ABSENT) {
    putWord(FIRST);
    beginAt(end + newMessageId(end));
    putByte(QUOTE);
  } else {
    putByte(OPEN_OBJECT);
    putField(MESSAGE_ID);
  }
  store<u32>(account, <u32>(end - 1), ID_TO);
  putWord(typeOfCall);
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
  putOthers(record);
  putByte(CLOSE_OBJECT);
}

/** Key and value. */
function putField(field: i32): void {
  put(fieldFrom(field), fieldTo(field));
}

function putPiece(piece: usize): void {
  put(pieceFrom(piece), pieceTo(piece));
}

function putChannel(): void {
  if (kindOf(CHANNEL) === TEXT) putField(CHANNEL);
  else if (kindOf(CONTEXT) === ABSENT) putPiece(CHANNEL_PIECE);
  else if (kindOf(LIBRARY) === ABSENT) putWord(noChannel());
  else putWord(channelOfLibrary(fieldFrom(LIBRARY), fieldTo(LIBRARY)));
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
  store<u32>(account, <u32>from, USER_FROM);
  store<u32>(account, <u32>to, USER_TO);
}

function putShared(): void {
  putByte(COMMA);
  if (kindOf(CONTEXT) === OBJECT) putField(CONTEXT);
  else putPiece(CONTEXT_PIECE);
  putByte(COMMA);
  // A context that says where the event goes is not canonical.
  let isUndirected = !hasIntegrations;
  if (kindOf(INTEGRATIONS) === OBJECT) {
    putField(INTEGRATIONS);
    isUndirected = fieldTo(INTEGRATIONS) - valueFrom(INTEGRATIONS) === EMPTY_OBJECT;
  } else putPiece(INTEGRATIONS_PIECE);
  if (isUndirected) marks |= UNDIRECTED;
}

/** Bytes of `{}`. */
const EMPTY_OBJECT: usize = 2;

/** As `takeTimes`. Each name begins with the quote that closes the time before it. */
function putTimes(): void {
  const isSent = kindOf(SENT_AT) !== ABSENT;
  const sent = isSent ? sentAt : sharedSentAt;
  putWord(TIMESTAMP);
  if (F64.isNaN(originalAt)) putTime(receivedAt);
  else {
    let timestamp = originalAt;
    if (!F64.isNaN(sent) && sent !== receivedAt) {
      const corrected = correctedTime(originalAt, sent, receivedAt);
      if (F64.isNaN(corrected)) marks |= SKEWED;
      else timestamp = corrected;
    }
    putTime(timestamp);
    putWord(ORIGINAL_TIMESTAMP_WORD);
    putTime(originalAt);
  }
  if (!isSent) {
    putPiece(TIMES_PIECE);
    return;
  }
  putWord(SENT_AT_WORD);
  putTime(sentAt);
  putWord(RECEIVED_AT_WORD);
  putTime(receivedAt);
  putByte(QUOTE);
}

/** The fields the protocol does not know, in the client's order. */
function putOthers(record: usize): void {
  const to = record + load<u32>(record);
  for (let at = record + RECORD_HEAD; at < to; at += RECORD_FIELD) {
    if (load<u32>(at) !== OTHER) continue;
    putByte(COMMA);
    put(load<u32>(at, 4), load<u32>(at, 8));
  }
}
