import { describe, expect, it } from 'vitest';
import { decodeBody, decodeNumbers, encodeBody, encodeNumbers, RAW, ZSTD } from './chunk-codec.ts';

describe('chunk codec', () => {
  it('leaves a few events uncompressed and compresses many', () => {
    const body = Buffer.from(
      Array.from({ length: 100 }, (_, n) => `{"messageId":"m${n}","type":"track"}`).join('\n'),
    );
    expect(encodeBody(body, 7).codec).toBe(RAW);
    const { codec, bytes } = encodeBody(body, 100);
    expect(codec).toBe(ZSTD);
    expect(bytes.byteLength).toBeLessThan(body.byteLength / 4);
    expect(decodeBody(codec, bytes, body.length).equals(body)).toBe(true);
  });

  it('refuses a codec it does not know', () => {
    expect(() => decodeBody(9, Buffer.alloc(0), 0)).toThrow('codec 9');
  });

  it('keeps the source of every event in a few bytes', () => {
    const sources = Uint32Array.of(...Array<number>(200).fill(7), 9, ...Array<number>(50).fill(7));
    const bytes = encodeNumbers(sources);
    expect(bytes.byteLength).toBe(24);
    expect(decodeNumbers(bytes, 251)).toEqual(sources);
  });
});
