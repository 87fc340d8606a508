import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { paintFor } from './paint.ts';
import type { Received } from './receiver.ts';
import { requestLine } from './request-line.ts';

beforeAll(() => void vi.stubEnv('TZ', 'UTC'));
afterAll(() => void vi.unstubAllEnvs());

const NOW = Date.UTC(2026, 0, 2, 10, 23, 45, 131);

function lineOf(body: string, changes: Partial<Received> = {}, withBody = false): string {
  const received: Received = {
    method: 'POST',
    path: '/hook',
    body: Buffer.from(body),
    oversized: false,
    signature: 'verified',
    webhookId: '0198c0de-0000-7000-8000-000000000001',
    status: 200,
    ...changes,
  };
  return requestLine(received, { now: NOW, paint: paintFor({}, {}), body: withBody });
}

describe('the line of a request', () => {
  it('shows time, method and path, type, name, user, id and signature', () => {
    expect(lineOf('{"type":"track","event":"Order Placed","userId":"u1"}')).toBe(
      '10:23:45.131  POST /hook          track     Order Placed            u1              ' +
        '0198c0de-0000-7000-8000-000000000001  verified ✓',
    );
  });

  it('reads the fields an alias has', () => {
    const line = lineOf('{"version":1,"type":"alias","Previous ID":"a1","User ID":"u1"}');
    expect(line).toContain('  alias     a1                      u1              0198');
  });

  it('says when a signature is wrong, missing or not checked', () => {
    expect(lineOf('{}', { signature: 'wrong' })).toMatch(/ {2}wrong signature ✗$/);
    expect(lineOf('{}', { signature: 'unsigned' })).toMatch(/ {2}not signed –$/);
    expect(lineOf('{}', { signature: 'unchecked' })).toMatch(/ {2}signed, not checked –$/);
  });

  it('says how it answered when that was no success', () => {
    expect(lineOf('{}', { status: 500 })).toMatch(/verified ✓ {2}answered 500$/);
    expect(lineOf('', { status: 413, oversized: true })).toMatch(/body over 1 MB, not read {2}answered 413$/);
  });

  it('shows what is no event with dashes, whatever it is', () => {
    for (const body of [
      '',
      'hello',
      'null',
      '[1]',
      '"x"',
      '{"type":7,"userId":null}',
      '{"__proto__":{"type":"x"}}',
    ]) {
      expect(lineOf(body), body).toContain('POST /hook          –         –                       –       ');
    }
  });

  it('prints bodies under the line when asked: JSON spread out, anything else as it is', () => {
    expect(lineOf('{"type":"track","properties":{"total":9}}', {}, true).split('\n').slice(1)).toEqual([
      '    {',
      '      "type": "track",',
      '      "properties": {',
      '        "total": 9',
      '      }',
      '    }',
    ]);
    expect(lineOf('a=\u001b[2J\nb', {}, true).split('\n').slice(1)).toEqual(['    a=·[2J', '    b']);
    expect(lineOf('', {}, true)).not.toContain('\n');
  });
});
