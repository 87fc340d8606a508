import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Json } from '../../model/json.ts';
import { ByteReader, ByteWriter } from './byte-codec.ts';

/** A list or an object is stored as JSON text, in which minus zero is zero; a number alone keeps its sign. */
const asInJson = (value: unknown): Json =>
  (typeof value === 'object' && value !== null ? JSON.parse(JSON.stringify(value)) : value) as Json;

test('everything that is written is read again, in its order', () => {
  const item = fc.oneof(
    fc.record({ kind: fc.constant('varint' as const), value: fc.maxSafeNat() }),
    fc.record({ kind: fc.constant('float64' as const), value: fc.double() }),
    fc.record({ kind: fc.constant('time' as const), value: fc.integer({ min: -(2 ** 46), max: 2 ** 46 }) }),
    fc.record({ kind: fc.constant('text' as const), value: fc.string({ unit: 'binary' }) }),
    fc.record({ kind: fc.constant('json' as const), value: fc.jsonValue().map(asInJson) }),
    fc.record({ kind: fc.constant('bytes' as const), value: fc.uint8Array() }),
  );
  const writer = new ByteWriter();
  fc.assert(
    fc.property(fc.array(item), fc.constantFrom(1, 128), (items, multiple) => {
      for (const { kind, value } of items) (writer[kind] as (value: unknown) => void)(value);
      const bytes = writer.finish(multiple);
      expect(bytes.length % multiple).toBe(0);
      const reader = new ByteReader(bytes);
      for (const { kind, value } of items) expect(reader[kind]()).toEqual(value);
    }),
  );
});

test('a text keeps half of a surrogate pair, alone and inside of a list or an object', () => {
  const writer = new ByteWriter();
  const values = ['\ud83d', 'mia \udc00 \ud83d\udc00', ['\udc00'], { a: '\ud83d', '\ud83d': 1 }];
  for (const value of values) writer.json(value);
  const reader = new ByteReader(writer.finish(1));
  for (const value of values) expect(reader.json()).toEqual(value);
});

test('numbers keep their sign, their fraction and minus zero', () => {
  const writer = new ByteWriter();
  const numbers = [0, -0, 1, -1, 0.1, -0.1, 2 ** 53 - 1, -(2 ** 53 - 1), 2 ** 53, 1e308, 5e-324];
  for (const number of numbers) writer.json(number);
  const reader = new ByteReader(writer.finish(1));
  for (const number of numbers) expect(reader.json()).toBe(number);
});

test('a text stands in the bytes as UTF-8, so that a file can be searched for it', () => {
  const writer = new ByteWriter();
  for (const text of ['ann@example.com', 'Zoë', '日本']) {
    writer.text(text);
    expect(Buffer.from(writer.finish(128)).includes(text)).toBe(true);
  }
});

test('a time beyond what fits becomes the nearest that does', () => {
  const writer = new ByteWriter();
  writer.time(Date.UTC(9999, 0));
  writer.time(Date.UTC(-9999, 0));
  const reader = new ByteReader(writer.finish(1));
  expect(new Date(reader.time()).getUTCFullYear()).toBe(6429);
  expect(new Date(reader.time()).getUTCFullYear()).toBe(-2490);
});

test('bytes that are cut off or strange are refused and not read beyond their end', () => {
  const writer = new ByteWriter();
  writer.text('a long enough text');
  writer.varint(300);
  writer.float64(1);
  const bytes = writer.finish(1);
  for (let length = 0; length < bytes.length; length++) {
    expect(() => {
      const reader = new ByteReader(bytes.subarray(0, length));
      reader.text();
      reader.varint();
      reader.float64();
    }).toThrow(RangeError);
  }
});
