/** The characters that HTTP/1.1 is made of. RFC 9110 section 5.6, RFC 9112 section 2.2. */
export const CR = 0x0d;
export const LF = 0x0a;
export const SPACE = 0x20;
const TAB = 0x09;
export const COLON = 0x3a;
const DELETE = 0x7f;

/** 1 for the bytes of a token, such as the name of a header. */
export const TOKEN_BYTES = Uint8Array.from({ length: 256 }, (_, byte) =>
  /[!#$%&'*+.^_`|~0-9A-Za-z-]/.test(String.fromCharCode(byte)) ? 1 : 0,
);

/** Whether it may be in the name of a header. */
export function isTokenByte(byte: number): boolean {
  return TOKEN_BYTES[byte] === 1;
}

/** Whether it may be in the value of a header: visible characters, blanks and tabs, and everything beyond ASCII. */
export function isFieldValueByte(byte: number): boolean {
  return byte >= SPACE ? byte !== DELETE : byte === TAB;
}

/**
 * What each HTTP status is called, as in `Not Found`.
 *
 * Not imported: an import of `node:http` reads every name it exports, and one of them, `WebSocket`, loads all of Node's own
 * client (14 MB and 40 ms of each start), which nobody here uses. So whoever wants something of it asks like this.
 */
export const STATUS_TEXT = process.getBuiltinModule('node:http').STATUS_CODES;
