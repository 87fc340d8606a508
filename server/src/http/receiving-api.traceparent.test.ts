import { describe, expect, it } from 'vitest';
import { parseTraceparent } from './receiving-api.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT = '00f067aa0ba902b7';

describe('traceparentIn', () => {
  it.each([
    `00-${TRACE}-${PARENT}-01`,
    `00-${TRACE}-${PARENT}-00`,
    // A version of the future, alone and with more behind it.
    `cc-${TRACE}-${PARENT}-01`,
    `cc-${TRACE}-${PARENT}-01-what-the-future-holds`,
  ])('takes %s as it is', (header) => {
    expect(parseTraceparent(header)).toBe(header);
  });

  it.each([
    ['nothing', undefined],
    ['the header sent twice', [`00-${TRACE}-${PARENT}-01`, `00-${TRACE}-${PARENT}-01`]],
    ['an empty text', ''],
    ['capital letters', `00-${TRACE.toUpperCase()}-${PARENT}-01`],
    ['a trace of zeros', `00-${'0'.repeat(32)}-${PARENT}-01`],
    ['a parent of zeros', `00-${TRACE}-${'0'.repeat(16)}-01`],
    ['the forbidden version', `ff-${TRACE}-${PARENT}-01`],
    ['more behind version 00', `00-${TRACE}-${PARENT}-01-more`],
    ['a short trace', `00-${TRACE.slice(1)}-${PARENT}-01`],
    ['a space at the end', `00-${TRACE}-${PARENT}-01 `],
    ['another header behind a line end', `cc-${TRACE}-${PARENT}-01-\r\nX-Evil: 1`],
    ['a text without end', `cc-${TRACE}-${PARENT}-01-${'x'.repeat(1000)}`],
  ])('ignores %s', (_, header) => {
    expect(parseTraceparent(header)).toBeUndefined();
  });
});
