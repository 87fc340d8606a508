import { afterEach, describe, expect, test } from 'vitest';
import type { Verdict } from '../ports/receiver.ts';
import { type Connection, post, type Running, type RunOptions, run } from './testing.ts';

let running: Running | undefined;

async function start(options?: RunOptions): Promise<Connection> {
  running = await run(options);
  return running.connect();
}

afterEach(async () => {
  await running?.listener.stop();
  running = undefined;
});

describe('verdicts', () => {
  async function answerTo(verdict: Verdict) {
    const connection = await start({ verdict });
    await connection.send(post('/v1/track', '{}'));
    const { status, headers, body } = await connection.answer();
    return { status, headers, body: JSON.parse(body) };
  }

  test.each([
    ['invalid_json', 400],
    ['no_user_anon_id', 400],
    ['batch_not_array', 400],
    ['invalid_write_key', 401],
    ['missing_write_key', 401],
  ])('of %s answer %i with success, code and message', async (code, status) => {
    const answer = await answerTo({ kind: 'refused', code });
    expect(answer.status).toBe(status);
    expect(answer.body).toEqual({ success: false, code, message: expect.stringMatching(/\.$/) });
  });

  test('carry their detail behind the message of the catalogue', async () => {
    const { body } = await answerTo({ kind: 'refused', code: 'invalid_json', detail: 'It is "empty".' });
    expect(body.message).toBe('The body is not valid JSON. It is "empty".');
  });

  test('with a code that nobody knows are our error', async () => {
    const { status, body } = await answerTo({ kind: 'refused', code: 'toString' });
    expect(status).toBe(500);
    expect(body).toMatchObject({ success: false, code: 'internal_error' });
  });

  test.each([
    ['overloaded', 429, 1, '1'],
    ['overloaded', 429, 0, '1'],
    ['storage_unavailable', 503, 4.2, '5'],
    ['storage_unavailable', 503, 9000, '300'],
  ] as const)(
    'of %s answer %i and when to come back after %f s',
    async (code, status, retryAfter, seconds) => {
      const { headers, body, ...answer } = await answerTo({ kind: 'unavailable', code, retryAfter });
      expect(answer.status).toBe(status);
      expect(headers.get('retry-after')).toBe(seconds);
      expect(headers.get('x-ratelimit-reset')).toBe(seconds);
      expect(body).toMatchObject({ success: false, code });
    },
  );

  test('may come later', async () => {
    const held: (() => void)[] = [];
    const connection = await start({ verdict: (_, answer) => held.push(() => answer({ kind: 'stored' })) });
    const other = await running!.connect();
    await connection.send(post('/v1/track', '{}'));
    await other.send('GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n');
    await other.answer();
    while (running!.calls.length === 0) await new Promise((resolve) => setImmediate(resolve));
    for (const release of held) release();
    expect((await connection.answer()).status).toBe(200);
  });

  test('that throw answer 500, are logged, and end nothing', async () => {
    let first = true;
    const connection = await start({
      verdict: (_, answer) => {
        if (!first) return answer({ kind: 'stored' });
        first = false;
        throw new Error('bug');
      },
    });
    await connection.send(post('/v1/track', '{}'));
    const { status, body } = await connection.answer();
    expect([status, JSON.parse(body).code]).toEqual([500, 'internal_error']);
    expect(running!.logged).toMatchObject([{ event: 'request.failed', facts: { type: 'track' } }]);
    await connection.send(post('/v1/track', '{}'));
    expect((await connection.answer()).status).toBe(200);
  });
});
