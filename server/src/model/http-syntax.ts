/** Bytes of the HTTP/1.1 syntax. RFC 9110 section 5.6, RFC 9112 section 2.2. */
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

/** Whether the byte may be in the name of a header. */
export function isTokenByte(byte: number): boolean {
  return TOKEN_BYTES[byte] === 1;
}

/**
 * Whether the byte may be in the value of a header: a visible character, blank or tab, or a byte beyond
 * ASCII.
 */
export function isFieldValueByte(byte: number): boolean {
  return byte >= SPACE ? byte !== DELETE : byte === TAB;
}

/**
 * Whether the bytes at `at` are `name`, ignoring case. `name` is a token in small letters of which the caller
 * knows that the lengths are equal: among the bytes of tokens, setting bit 0x20 turns only capital letters
 * into others.
 */
export function equalsIgnoreCase(bytes: Uint8Array, at: number, name: Uint8Array): boolean {
  for (let nth = 0; nth < name.length; nth++) if ((bytes[at + nth]! | SPACE) !== name[nth]) return false;
  return true;
}

/**
 * The reason phrase of each HTTP status, such as `Not Found`.
 *
 * Not imported: an import of `node:http` evaluates every export, and one of them, `WebSocket`, loads Node's
 * own HTTP client (14 MB and 40 ms of each start), which is not used here. Use `process.getBuiltinModule` for
 * everything of `node:http`.
 */
export const STATUS_TEXT = process.getBuiltinModule('node:http').STATUS_CODES;
