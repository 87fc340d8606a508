import { describe, expect, it } from 'vitest';
import { EventStream } from './event-stream.ts';

const TEXT = [
  ': watching\n\n',
  'event: accepted\ndata: {"user":"Zoë"}\n\n',
  'data: one\r\ndata:two\r\n\r\n',
  'event: empty\n\nid: 7\nretry: 5\nevent: lost\ndata: {"count":2}\n\n',
].join('');

const EVENTS = [
  { name: 'accepted', data: '{"user":"Zoë"}' },
  { name: 'message', data: 'one\ntwo' },
  { name: 'lost', data: '{"count":2}' },
];

describe('server-sent events', () => {
  it('are read however their bytes are cut', () => {
    const bytes = Buffer.from(TEXT);
    for (let size = 1; size <= bytes.length; size++) {
      const stream = new EventStream();
      const events = [];
      for (let at = 0; at < bytes.length; at += size)
        events.push(...stream.take(bytes.subarray(at, at + size)));
      expect({ size, events }).toEqual({ size, events: EVENTS });
    }
  });

  it('are none before their end', () => {
    const stream = new EventStream();
    expect(stream.take(Buffer.from('event: accepted\ndata: {}\n'))).toEqual([]);
    expect(stream.take(Buffer.from('\n'))).toEqual([{ name: 'accepted', data: '{}' }]);
  });
});
