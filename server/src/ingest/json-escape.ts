const ESCAPES = Buffer.from('"\\/bfnrt');

/** Whether JSON allows what stands behind a backslash; `at` is where it stands. */
export function isEscape(bytes: Buffer, at: number): boolean {
  const byte = bytes[at];
  if (byte === undefined) return true; // The body breaks off, which is said elsewhere.
  if (byte !== 0x75) return ESCAPES.includes(byte);
  for (let digit = at + 1; digit < at + 5; digit++) if (!isHex(bytes[digit] ?? 0)) return false;
  return true;
}

function isHex(byte: number): boolean {
  const letter = byte | 0x20;
  return (byte >= 0x30 && byte <= 0x39) || (letter >= 0x61 && letter <= 0x66);
}
