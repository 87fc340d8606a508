import { describe, expect, it } from 'vitest';
import {
  decodeBody,
  decodeNumbers,
  encodeBody,
  encodeNumbers,
  freeBuffer,
  RAW,
  ZSTD,
} from './chunk-codec.ts';

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

  it('gives the memory of large bytes back at once', () => {
    const body = Buffer.alloc(40_000, 'x');
    const decoded = decodeBody(ZSTD, encodeBody(body, 100).bytes, body.length);
    const before = process.memoryUsage().arrayBuffers;
    freeBuffer(decoded);
    expect(process.memoryUsage().arrayBuffers).toBeLessThanOrEqual(before - 40_000);
    expect(decoded.byteLength).toBe(0);
  });

  it('leaves bytes alone that share their memory with others', () => {
    const [one, other] = [Buffer.from('one'), Buffer.from('other')];
    expect(one.buffer).toBe(other.buffer);
    freeBuffer(one);
    expect([one.toString(), other.toString()]).toEqual(['one', 'other']);
  });
});
