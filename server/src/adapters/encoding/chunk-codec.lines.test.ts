import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { findLineOffsets, type JsonLine, lineOf } from '../../model/serialized-event.ts';
import { joinLines, offsetsOf, spansOf } from './chunk-codec.ts';

const textOf = ({ bytes, from, to }: JsonLine) => bytes.toString('utf8', from, to);

/** Lines that stand in a few buffers, as those of several requests; some of them are left out. */
const standing = fc
  .array(
    fc.array(
      fc.record({
        text: fc.constantFrom('', '{}', '{"a":1}', '{"event":"Größe"}'),
        isLeftOut: fc.boolean(),
        separator: fc.constantFrom('\n', '\n', '\n', ','),
      }),
      { minLength: 1, maxLength: 6 },
    ),
    { maxLength: 5 },
  )
  .map((requests) =>
    requests.flatMap((calls) => {
      const bytes = Buffer.from(calls.map(({ text, separator }) => text + separator).join(''));
      let at = 0;
      return calls.flatMap(({ text, isLeftOut }) => {
        const line = { bytes, from: at, to: at + Buffer.byteLength(text) };
        at = line.to + 1;
        return isLeftOut ? [] : [line];
      });
    }),
  );

describe('lines', () => {
  it('are joined in their order, whatever buffers they stand in and whatever stands between them', () => {
    fc.assert(
      fc.property(standing, (lines) => {
        const together = joinLines(lines);
        expect(Buffer.from(together).toString()).toBe(lines.map(textOf).join('\n'));
        expect(together.buffer.byteLength).toBe(together.byteLength);
      }),
    );
  });

  it('begin where it is said before they are joined', () => {
    fc.assert(
      fc.property(standing, (lines) => {
        fc.pre(lines.length > 0);
        expect(offsetsOf(lines)).toEqual(findLineOffsets(joinLines(lines), lines.length));
      }),
    );
  });

  it('come in runs that hold each of them once', () => {
    fc.assert(
      fc.property(standing, (lines) => {
        const texts = spansOf(lines).flatMap((run) => {
          const split = textOf(run).split('\n');
          expect(split.length).toBe(run.lines);
          return split;
        });
        expect(texts).toEqual(lines.map(textOf));
      }),
    );
  });

  it('of one request are one run', () => {
    const bytes = Buffer.from('{"a":1}\n{"a":2}\n{"a":3}\n');
    const lines = [0, 8, 16].map((from) => ({ bytes, from, to: from + 7 }));
    expect(spansOf(lines)).toEqual([{ bytes, from: 0, to: 23, lines: 3 }]);
    expect(spansOf([lines[0]!, lines[2]!]).map(({ lines }) => lines)).toEqual([1, 1]);
    expect(spansOf([...lines, lineOf('{"a":4}')]).map(({ lines }) => lines)).toEqual([3, 1]);
  });

  it('are found in a body, empty ones too', () => {
    const body = Buffer.from('{"a":1}\n\n{"b":"ü"}');
    const starts = findLineOffsets(body, 3);
    const lines = [0, 1, 2].map((line) => body.subarray(starts[line]!, starts[line + 1]! - 1).toString());
    expect(lines).toEqual(['{"a":1}', '', '{"b":"ü"}']);
  });
});
