import { ABSENT, EMPTY_TEXT, fieldTo, kindOf, OBJECT, readFieldIndex, TEXT, valueFrom } from './fields';
import {
  keepsAddress,
  maxCallBytes,
  maxIdLength,
  maxMessageIdLength,
  mergesContext,
  mergesIntegrations,
  type,
} from './host';
import { isPlain } from './json';
import {
  ANONYMOUS_ID,
  CALL_FROM,
  CALL_TO,
  CATEGORY,
  CONTEXT,
  EVENT,
  GROUP_ID,
  IN_BATCH,
  INTEGRATIONS,
  IP,
  MESSAGE_ID,
  ORIGINAL_TIMESTAMP,
  PREVIOUS_ID,
  PROPERTIES,
  SENT_AT,
  TIMESTAMP,
  TYPE,
  USER_ID,
} from './layout';
import { constant, matchesConstant } from './output';
import { readTime } from './times';

/** Types in the order of `CALL_TYPES`. */
const IDENTIFY = constant(',"type":"identify",');
const TRACK = constant(',"type":"track",');
const PAGE = constant(',"type":"page",');
const SCREEN = constant(',"type":"screen",');
const GROUP = constant(',"type":"group",');
const ALIAS = constant(',"type":"alias",');
/** Offset of the type's name in them. */
const TYPE_FROM: usize = 9;

const NO_TYPE: usize = 0xff;

/**
 * Of the call checked last: the constant for its type, and when it happened and was sent by the client's
 * clock.
 */
export let typeOfCall: usize = 0;
export let originalAt: f64 = NaN;
export let sentAt: f64 = NaN;

/** Whether a line can be written of the call with this field index. Its fields are read then. */
export function isValid(fieldIndex: usize, descriptor: usize): bool {
  if (!readFieldIndex(fieldIndex) || isTooLarge(descriptor)) return false;
  typeOfCall = type === IN_BATCH ? ownType() : IDENTIFY + type;
  if (typeOfCall === NO_TYPE || !hasRequiredFields() || !needsNoMerge() || !readTimes()) return false;
  if (!keepsAddress && kindOf(IP) !== ABSENT) return false;
  return kindOf(MESSAGE_ID) === ABSENT || isPlainId();
}

/** As `isTooLarge` in `limits.ts`: a canonical call is its own compact JSON. */
function isTooLarge(descriptor: usize): bool {
  return (
    type === IN_BATCH && load<u32>(descriptor, CALL_TO) - load<u32>(descriptor, CALL_FROM) > maxCallBytes
  );
}

function ownType(): usize {
  if (kindOf(TYPE) !== TEXT) return NO_TYPE;
  const from = valueFrom(TYPE) + 1;
  const to = fieldTo(TYPE) - 1;
  const found = typeOfLetter(load<u8>(from));
  if (found === NO_TYPE || to - from !== lengthOf(found)) return NO_TYPE;
  return matchesConstant(from, to, found, TYPE_FROM) ? found : NO_TYPE;
}

/** No two types begin with the same letter. */
function typeOfLetter(letter: u8): usize {
  if (letter === 0x74) return TRACK;
  if (letter === 0x69) return IDENTIFY;
  if (letter === 0x70) return PAGE;
  if (letter === 0x73) return SCREEN;
  if (letter === 0x67) return GROUP;
  return letter === 0x61 ? ALIAS : NO_TYPE;
}

function lengthOf(found: usize): usize {
  if (found === IDENTIFY) return 8;
  if (found === PAGE) return 4;
  return found === SCREEN ? 6 : 5;
}

/**
 * True when every field has the right kind of value and none is missing; `normalize.ts` has the same rules in
 * the plain way.
 */
function hasRequiredFields(): bool {
  for (let field = USER_ID; field <= GROUP_ID; field++) if (!mayBeId(field)) return false;
  for (let field = EVENT; field <= CATEGORY; field++) if (kindOf(field) > EMPTY_TEXT) return false;
  for (let field = PROPERTIES; field <= INTEGRATIONS; field++) {
    const kind = kindOf(field);
    if (kind !== ABSENT && kind !== OBJECT) return false;
  }
  if (kindOf(USER_ID) !== TEXT && kindOf(ANONYMOUS_ID) !== TEXT) return false;
  if (typeOfCall === TRACK) return kindOf(EVENT) === TEXT;
  if (typeOfCall === GROUP) return kindOf(GROUP_ID) === TEXT;
  return typeOfCall !== ALIAS || kindOf(PREVIOUS_ID) === TEXT;
}

/**
 * Whether a field is an id, or absent as an empty text is. A text has at most as many code units as bytes.
 */
function mayBeId(field: i32): bool {
  const kind = kindOf(field);
  return (
    kind === ABSENT ||
    kind === EMPTY_TEXT ||
    (kind === TEXT && fieldTo(field) - valueFrom(field) <= maxIdLength + 2)
  );
}

/** False when the call's own context or integrations must be merged with those of its batch. */
function needsNoMerge(): bool {
  return (
    !(mergesContext && kindOf(CONTEXT) === OBJECT) && !(mergesIntegrations && kindOf(INTEGRATIONS) === OBJECT)
  );
}

/** False when a time cannot be read. `takeTimes` in `normalize.ts` counts those. */
function readTimes(): bool {
  const happened = kindOf(TIMESTAMP) === ABSENT ? ORIGINAL_TIMESTAMP : TIMESTAMP;
  originalAt = timeOfField(happened);
  sentAt = timeOfField(SENT_AT);
  return (
    (kindOf(happened) === ABSENT || !F64.isNaN(originalAt)) &&
    (kindOf(SENT_AT) === ABSENT || !F64.isNaN(sentAt))
  );
}

function timeOfField(field: i32): f64 {
  return kindOf(field) === TEXT ? readTime(valueFrom(field) + 1, fieldTo(field) - 1) : NaN;
}

/** Whether the client's messageId is kept as it is. */
function isPlainId(): bool {
  const from = valueFrom(MESSAGE_ID) + 1;
  const to = fieldTo(MESSAGE_ID) - 1;
  if (kindOf(MESSAGE_ID) !== TEXT || to - from > maxMessageIdLength) return false;
  return !isOwnId(load<u32>(from)) && isPlain(from, to);
}

/**
 * `aud_`, `trt_` and `del_` as they stand in memory, the first letter lowest: ids that the server gives
 * itself.
 */
function isOwnId(first: u32): bool {
  return first === 0x5f647561 || first === 0x5f747274 || first === 0x5f6c6564;
}
