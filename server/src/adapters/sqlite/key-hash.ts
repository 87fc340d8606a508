/**
 * HalfSipHash-2-4 with a 64-bit result (Aumasson and Bernstein, https://github.com/veorq/SipHash): a keyed hash made of
 * 32-bit operations, which JavaScript does at full speed. Keyed with a secret per installation, so that nobody can
 * prepare messageIds that all fall together. The input is the source id and the UTF-16 units of the messageId, two to a
 * word. It only narrows the search: every match is verified against the stored event.
 */
export type KeyHash = (source: number, messageId: string | Ascii, out: Uint32Array, at: number) => void;

/** A text that stands somewhere as ASCII: its bytes are its units. */
export interface Ascii {
  readonly bytes: Uint8Array;
  readonly from: number;
  readonly to: number;
}

/** Two units of the text that begin at one of them, as one word. */
function wordOf(text: string | Ascii, at: number, units: number): number {
  if (typeof text === 'string') {
    const low = text.charCodeAt(at);
    return at + 1 < units ? low | (text.charCodeAt(at + 1) << 16) : low;
  }
  const low = text.bytes[text.from + at]!;
  return at + 1 < units ? low | (text.bytes[text.from + at + 1]! << 16) : low;
}

/** `secret` is 8 bytes. The hash is written as two 32-bit words to `out[at]` and `out[at + 1]`. */
export function keyHash(secret: Uint8Array): KeyHash {
  const view = new DataView(secret.buffer, secret.byteOffset, 8);
  const k0 = view.getUint32(0, true);
  const k1 = view.getUint32(4, true);

  return (source, messageId, out, at) => {
    const units = typeof messageId === 'string' ? messageId.length : messageId.to - messageId.from;
    let v0 = k0;
    let v1 = k1 ^ 0xee;
    let v2 = k0 ^ 0x6c796765;
    let v3 = k1 ^ 0x74656462;
    const words = (units + 1) >> 1;
    // Word −1 is the source, the last one carries the length, −4…−1 and +0…+3 below are the finishing rounds.
    for (let word = -1; word <= words; word++) {
      let m: number;
      if (word === -1) m = source;
      else if (word === words) m = units << 24;
      else m = wordOf(messageId, word * 2, units);
      v3 ^= m;
      for (let round = 0; round < 2; round++) {
        v0 = (v0 + v1) | 0;
        v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
        v0 = (v0 << 16) | (v0 >>> 16);
        v2 = (v2 + v3) | 0;
        v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
        v0 = (v0 + v3) | 0;
        v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
        v2 = (v2 + v1) | 0;
        v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
        v2 = (v2 << 16) | (v2 >>> 16);
      }
      v0 ^= m;
    }
    v2 ^= 0xee;
    for (let half = 0; half < 2; half++) {
      for (let round = 0; round < 4; round++) {
        v0 = (v0 + v1) | 0;
        v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
        v0 = (v0 << 16) | (v0 >>> 16);
        v2 = (v2 + v3) | 0;
        v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
        v0 = (v0 + v3) | 0;
        v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
        v2 = (v2 + v1) | 0;
        v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
        v2 = (v2 << 16) | (v2 >>> 16);
      }
      out[at + half] = v1 ^ v3;
      v1 ^= 0xdd;
    }
  };
}
