import { describe, expect, it } from 'vitest';
import { eventStreamParser } from './event-stream.ts';

const STREAM = ': watching\n\nevent: settled\ndata: {"a":1}\n\ndata: one\r\ndata: two\r\n\r\nevent: lost\n';

describe('an event stream', () => {
  it('is the same in one piece and cut anywhere', () => {
    const whole = eventStreamParser()(STREAM);
    expect(whole).toEqual([
      { name: 'settled', data: '{"a":1}' },
      { name: 'message', data: 'one\ntwo' },
    ]);
    for (let at = 0; at <= STREAM.length; at += 1) {
      const parse = eventStreamParser();
      expect([...parse(STREAM.slice(0, at)), ...parse(STREAM.slice(at))]).toEqual(whole);
    }
  });

  it('gives an event only when its empty line has come', () => {
    const parse = eventStreamParser();
    expect(parse('data: 1\n')).toEqual([]);
    expect(parse('\n')).toEqual([{ name: 'message', data: '1' }]);
  });
});
