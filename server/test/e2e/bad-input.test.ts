import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { send, track } from '../support/calls.ts';
import { makePlace, oneDestination, type Place, type Program, startServer } from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';

/** spec/specification.md, "Receiving", against the real program. */
describe('the receiving API', () => {
  let receiver: TestReceiver;
  let place: Place;
  let program: Program;

  beforeAll(async () => {
    receiver = await startReceiver();
    place = makePlace(oneDestination([receiver.url]));
    program = await startServer(place);
  });

  afterAll(async () => {
    await program.stop();
    await receiver.stop();
    place.remove();
  });

  const sized = (bytes: number) => {
    const call = track('m-size', { properties: { pad: '' } });
    const pad = 'x'.repeat(bytes - Buffer.byteLength(JSON.stringify(call)));
    return JSON.stringify({ ...call, properties: { pad } });
  };

  it.each<[string, string, unknown, string | undefined, number, string]>([
    ['malformed JSON', '/v1/track', '{"userId":', 'wk', 400, 'invalid_json'],
    ['an unknown write key', '/v1/track', track('m'), 'nobody', 401, 'invalid_write_key'],
    ['a call without any id', '/v1/track', { event: 'E' }, 'wk', 400, 'no_user_anon_id'],
    ['a track without its event', '/v1/track', { userId: 'u' }, 'wk', 400, 'event_not_defined'],
    ['a group without its groupId', '/v1/group', { userId: 'u' }, 'wk', 400, 'group_id_missing'],
    ['an alias without its previousId', '/v1/alias', { userId: 'u' }, 'wk', 400, 'previous_id_missing'],
    ['an id that is an object', '/v1/track', { userId: {}, event: 'E' }, 'wk', 400, 'id_not_string'],
    ['a single call over 32 KB', '/v1/track', sized(32_769), 'wk', 400, 'message_too_large'],
    [
      'a batch over 500 KB',
      '/v1/batch',
      `{"batch":[],"pad":"${'x'.repeat(524_288)}"}`,
      'wk',
      400,
      'batch_too_large',
    ],
    [
      'a batch of 2,501 events',
      '/v1/batch',
      { batch: Array(2501).fill({ type: 'track' }) },
      'wk',
      400,
      'batch_too_large',
    ],
  ])('answers %s with its status, code and message', async (_what, path, body, writeKey, status, code) => {
    const sent = await send(program.url, path, body, { writeKey });
    expect(sent).toMatchObject({
      status,
      answer: { success: false, code, message: expect.stringMatching(/\w/) },
    });
    expect(Object.keys(sent.answer as object).sort()).toEqual(['code', 'message', 'success']);
  });

  it('answers a call without any write key with 401', async () => {
    const response = await fetch(`${program.url}/v1/track`, {
      method: 'POST',
      body: JSON.stringify(track('m')),
    });
    expect(response.status).toBe(401);
    expect(await response.json()).toMatchObject({ success: false, code: 'missing_write_key' });
  });

  it('accepts exactly 32,768 bytes, an empty batch, gzip, the short forms, and keeps the good events of a mixed batch', async () => {
    const ok = { status: 200, answer: { success: true } };
    expect(await send(program.url, '/v1/track', sized(32_768))).toMatchObject(ok);
    expect(await send(program.url, '/v1/batch', { batch: [] })).toMatchObject(ok);
    const zipped = gzipSync(JSON.stringify({ batch: [track('m-gzip')] }));
    expect(
      await send(program.url, '/v1/b/', zipped, { headers: { 'content-encoding': 'gzip' } }),
    ).toMatchObject(ok);
    expect(await send(program.url, '/v1/t', track('m-short'))).toMatchObject(ok);
    const mixed = {
      batch: [{ type: 'track', userId: 'u' }, track('m-good'), { type: 'track', messageId: 'm-bad' }],
    };
    expect(await send(program.url, '/v1/import', mixed)).toMatchObject(ok);
    const arrived = () => receiver.arrivals.map(({ headers }) => String(headers['webhook-id']));
    await receiver.until(() =>
      ['m-size', 'm-gzip', 'm-short', 'm-good'].every((id) => arrived().includes(id)),
    );
    expect(arrived()).not.toContain('m-bad');
  });

  it('delivers a messageId that comes twice only once', async () => {
    await send(program.url, '/v1/track', track('m-twice'));
    await send(program.url, '/v1/track', track('m-twice', { event: 'Another' }));
    await send(program.url, '/v1/track', track('m-after'));
    await receiver.until(() => receiver.arrivals.some(({ headers }) => headers['webhook-id'] === 'm-after'));
    expect(receiver.arrivals.filter(({ headers }) => headers['webhook-id'] === 'm-twice')).toHaveLength(1);
  });

  it('says that it is alive and ready', async () => {
    expect((await fetch(`${program.url}/healthz`)).status).toBe(200);
    expect((await fetch(`${program.url}/readyz`)).status).toBe(200);
  });
});
