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

  it('claims of no address that the client has named it', () => {
    const [name, value, note] = shown({ context: { ip: '203.0.113.9' } })[0]!;
    expect([name, value]).toEqual(['Address', '203.0.113.9']);
    expect(note).toContain('said by the client, or where the call came from');
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
