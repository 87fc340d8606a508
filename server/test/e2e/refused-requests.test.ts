import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runVerb } from '../../../cli/test/program.ts';
import type { Overview } from '../../src/app.ts';
import { send, track } from '../support/calls.ts';
import { ControlApi } from '../support/control-api.ts';
import { adminTokenOf, makePlace, type Place, type Program, startServer } from '../support/program.ts';

const SOURCES = `
sources:
  - { name: website, writeKeys: [wk] }
  - { name: python, writeKeys: [wk_python] }
  - { name: quick, writeKeys: [wk_quick], rateLimit: 1 }
`;

/** A body as Python's `json.dumps` writes it: library 2.3 has the key in the body only, behind the calls. */
const FROM_PYTHON =
  '{"batch": [{"type": "track", "userId": "u1", "event": "E", "properties": {"price": NaN}}], "writeKey": "wk_python"}';

describe('a request that is refused as a whole', () => {
  let place: Place;
  let program: Program;

  beforeAll(async () => {
    place = makePlace(SOURCES);
    program = await startServer(place);
  });

  afterAll(async () => {
    await program.kill();
    place.remove();
  });

  const api = new ControlApi(() => ({ url: program.url, token: adminTokenOf(place) }));
  const sources = async () => (await api.read<Overview>('ledger')).sources;
  /**
   * The counts of a source, once it has received so many: counts of refused calls are stored a moment later.
   */
  const countsWhen = async (source: string, received: number) => {
    const isReached = (ledger: Overview) => ledger.sources[source]!.received === received;
    return (await api.until('ledger', isReached)).sources[source];
  };
  const noSource = async () => (await api.read<Overview>('status')).callsOfNoSource.refused;

  it('tells a Python program which value of which field is no JSON, and counts for the source of its key', async () => {
    const response = await fetch(`${program.url}/v1/batch`, { method: 'POST', body: FROM_PYTHON });
    expect([response.status, await response.json()]).toEqual([
      400,
      {
        success: false,
        code: 'invalid_json',
        message:
          'The body is not valid JSON. Unexpected NaN at byte 83 (line 1), in batch[0].properties.price. ' +
          'JSON has no such number: send null, or leave the field out.',
      },
    ]);
    expect(await countsWhen('python', 1)).toEqual({
      ...{ received: 1, accepted: 0, discarded: { invalid_json: 1 }, duplicates: 0 },
    });
    const { out } = await runVerb(['status', '--url', program.url, '--data', place.data]);
    expect(out).toMatch(/python +1 +0 +0 +1 +invalid_json 1/);
    expect(out).toMatch(/python +invalid_json +\d+ s ago +\{"refused":"Unexpected NaN at byte 83/);
    expect(out).not.toContain('wk_python');
  });

  it('counts for the source of the key in its header, wherever it was refused', async () => {
    const tooLong = `{"userId":"u1","event":"E","pad":"${'x'.repeat(40_000)}"}`;
    const tooMany = { batch: Array(2501).fill(track('m')) };
    const refusals: [string, unknown, Record<string, string>, string][] = [
      ['/v1/track', '{"userId":', {}, 'invalid_json'],
      ['/v1/track', tooLong, {}, 'message_too_large'],
      ['/v1/track', Buffer.from('no gzip'), { 'content-encoding': 'gzip' }, 'invalid_encoding'],
      ['/v1/track', track('m'), { 'content-encoding': 'br' }, 'unsupported_encoding'],
      ['/v1/batch', `{"pad":"${'x'.repeat(600_000)}"}`, {}, 'batch_too_large'],
      ['/v1/batch', tooMany, {}, 'batch_too_large'],
      ['/v1/batch', { batch: 'all of them' }, {}, 'batch_not_array'],
      ['/v1/tracks', track('m'), {}, 'not_found'],
    ];
    for (const [path, body, headers, code] of refusals) {
      expect((await send(program.url, path, body, { headers })).answer).toMatchObject({ code });
    }
    const discarded = {
      ...{ invalid_json: 1, message_too_large: 1, invalid_encoding: 1, unsupported_encoding: 1 },
      ...{ batch_too_large: 2502, batch_not_array: 1, not_found: 1 },
    };
    expect(await countsWhen('website', 2508)).toEqual({
      ...{ received: 2508, accepted: 0, discarded, duplicates: 0 },
    });
    expect(await noSource()).toEqual({});
    expect(await api.read<Overview>('ledger')).toMatchObject({ balanced: true });
  });

  it('counts for no source where its key belongs to none, or where it only asks for something', async () => {
    await send(program.url, '/v1/track', '{"userId":', { writeKey: 'nobody' });
    await send(program.url, '/v1/tracks', track('m'), { writeKey: 'nobody' });
    const authorization = `Basic ${Buffer.from('wk:').toString('base64')}`;
    await fetch(`${program.url}/v1/track`, { headers: { authorization } });
    expect(await noSource()).toEqual({ invalid_json: 1, not_found: 1, method_not_allowed: 1 });
  });

  it('takes nothing from the rate limit of its source', async () => {
    const options = { writeKey: 'wk_quick' };
    const tooMany = { batch: Array(2501).fill(track('m')) };
    expect(await send(program.url, '/v1/batch', tooMany, options)).toMatchObject({ status: 400 });
    expect(await send(program.url, '/v1/batch', '{"batch":[NaN]}', options)).toMatchObject({ status: 400 });
    expect(await send(program.url, '/v1/track', track('m'), options)).toMatchObject({ status: 200 });
  });

  it('is still counted after a crash', async () => {
    const before = await sources();
    await program.kill();
    program = await startServer(place);
    expect(await sources()).toEqual(before);
  });
});
