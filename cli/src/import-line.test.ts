import { describe, expect, it } from 'vitest';
import { callIn } from './import-line.ts';

const AT = { file: 'events.ndjson', line: 7 };
const read = (text: string, at = AT) => callIn(Buffer.from(text), at);

function idOf(text: string, at = AT): unknown {
  const line = read(text, at);
  return line.kind === 'call' ? line.call['messageId'] : line;
}

describe('a line of a file of calls', () => {
  it('is a call as it stands there, without what a server sets anew', () => {
    const call = {
      type: 'track',
      event: 'E',
      userId: 'u1',
      messageId: 'm1',
      timestamp: '2026-01-02',
      extra: 1,
    };
    const exported = {
      ...call,
      receivedAt: 'x',
      originalTimestamp: 'x',
      sentAt: 'x',
      channel: 'server',
      writeKey: 'k',
    };
    expect(read(JSON.stringify(exported))).toEqual({ kind: 'call', call });
    expect(read('\uFEFF{"type":"page"}\r', { ...AT, line: 1 })).toMatchObject({ kind: 'call' });
  });

  it('has the time that its client gave it, in whichever field that is', () => {
    const timeOf = (text: string) => {
      const line = read(text);
      return line.kind === 'call' ? line.call['timestamp'] : line;
    };
    expect(timeOf('{"timestamp":"2026-01-02","originalTimestamp":"2026-01-01"}')).toBe('2026-01-02');
    expect(timeOf('{"timestamp":null,"originalTimestamp":"2026-01-01"}')).toBe('2026-01-01');
    expect(timeOf('{"originalTimestamp":"2026-01-01"}')).toBe('2026-01-01');
    expect(read('{"messageId":"m1"}')).toEqual({ kind: 'call', call: { messageId: 'm1' } });
  });

  it('keeps every digit of its ids, and only of those', () => {
    const line = read(
      '{"userId":12345678901234567890,"messageId":98765432109876543210,"properties":{"userId":12345678901234567890}}',
    );
    expect(line).toEqual({
      kind: 'call',
      call: {
        ...{ userId: '12345678901234567890', messageId: '98765432109876543210' },
        properties: { userId: 12345678901234567000 },
      },
    });
  });

  it('gets an id that depends on the line, its number and the name of the file, and on nothing else', () => {
    const id = idOf('{"type":"page"}');
    expect(id).toMatch(/^import-[0-9a-f]{32}$/);
    expect(idOf('{"type":"page"}')).toBe(id);
    const others = [
      idOf('{"type":"page" }'),
      idOf('{"type":"page"}', { ...AT, line: 8 }),
      idOf('{"type":"page"}', { ...AT, file: 'tomorrow.ndjson' }),
    ];
    expect(new Set([id, ...others]).size).toBe(4);
    expect(idOf('{"messageId":"m1"}')).toBe('m1');
    expect(idOf('{"messageId":5}')).toBe('5');
    expect(idOf('{"messageId":""}')).toMatch(/^import-/);
  });

  it('is bad, with the reason, when it is no object in JSON and UTF-8, and nothing when it is blank', () => {
    const reasons = ['{"type":', '[1]', 'null', '5', '12345678901234567890', '"x"'].map((text) => {
      const line = read(text);
      return line.kind === 'bad' ? line.reason : line.kind;
    });
    expect(reasons).toEqual(['not_json', ...Array.from({ length: 5 }, () => 'not_an_object')]);
    expect(callIn(Buffer.from([0x7b, 0xff, 0x7d]), AT)).toMatchObject({ kind: 'bad', reason: 'not_utf8' });
    expect([read(''), read(' \t\r')]).toEqual([{ kind: 'empty' }, { kind: 'empty' }]);
  });
});
