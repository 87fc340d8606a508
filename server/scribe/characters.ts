/** Bytes that mean something in JSON. */
export const QUOTE: u8 = 0x22;
export const COMMA: u8 = 0x2c;
export const COLON: u8 = 0x3a;
export const OPEN_LIST: u8 = 0x5b;
export const CLOSE_LIST: u8 = 0x5d;
export const OPEN_OBJECT: u8 = 0x7b;
export const CLOSE_OBJECT: u8 = 0x7d;
export const BACKSLASH: u8 = 0x5c;
export const MINUS: u8 = 0x2d;
export const DOT: u8 = 0x2e;
export const ZERO: u8 = 0x30;
export const BLANK: u8 = 0x20;
export const LINE_FEED: u8 = 0x0a;

export function isDigit(byte: u8): bool {
  return byte - ZERO <= 9;
}
