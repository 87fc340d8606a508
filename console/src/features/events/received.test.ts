import { describe, expect, it } from 'vitest';
import { receivedFacts, storedSize } from './received.ts';

const EVENT = {
  type: 'track',
  channel: 'browser',
  context: { library: { name: 'analytics.js', version: '2.11.1' }, userAgent: 'Firefox' },
  originalTimestamp: '2026-11-20T09:00:00.000Z',
};
const shown = (event: object) =>
  receivedFacts(event as never).map(({ name, value, note }) => [name, value, note]);

describe('what an event says of its call', () => {
  it('is what it holds, and whose word it is', () => {
    expect(shown(EVENT)).toEqual([
      ['Address', 'not kept', 'the event has no context.ip'],
      ['Library', 'analytics.js 2.11.1', undefined],
      ['User agent', 'Firefox', 'as the client says'],
      ['Channel', 'browser', undefined],
      ['Dated', '2026-11-20T09:00:00.000Z', 'by the clock of the client'],
    ]);
  });

  it('tells an address that the client named from one that may be of the connection', () => {
    const note = (context: object) => shown({ context })[0]?.[2];
    expect(note({ ip: '203.0.113.9' })).toBe('context.ip, as the client says');
    expect(note({ ip: '203.0.113.9', direct: true })).toContain('the one of the connection, unless');
  });

  it.each([null, 7, 'text', { library: 'x', ip: 7, userAgent: {} }, { library: { version: 3 } }])(
    'takes any context: %j',
    (context) => {
      expect(shown({ context })).toEqual([['Address', 'not kept', 'the event has no context.ip']]);
    },
  );

  it('names no address of a notification, which no client has sent', () => {
    expect(shown({ ...EVENT, type: 'delete', context: {} })[0]?.[0]).toBe('Channel');
  });

  it('counts bytes, not characters', () => {
    expect(storedSize({ a: 'ü😀' })).toBe('{"a":"'.length + 2 + 4 + '"}'.length);
  });
});
