/** The characters that HTTP/1.1 is made of. RFC 9110 section 5.6, RFC 9112 section 2.2. */
export const CR = 0x0d;
export const LF = 0x0a;
export const SPACE = 0x20;
const TAB = 0x09;
export const COLON = 0x3a;
const DELETE = 0x7f;

/** 1 for the bytes of a token, such as the name of a header. */
export const TOKEN = Uint8Array.from({ length: 256 }, (_, byte) =>
  /[!#$%&'*+.^_`|~0-9A-Za-z-]/.test(String.fromCharCode(byte)) ? 1 : 0,
);

/** Whether it may be in the name of a header. */
export function isToken(byte: number): boolean {
  return TOKEN[byte] === 1;
}

/** Whether it may be in the value of a header: visible characters, blanks and tabs, and everything beyond ASCII. */
export function isText(byte: number): boolean {
  return byte >= SPACE ? byte !== DELETE : byte === TAB;
}
