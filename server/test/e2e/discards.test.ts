import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runVerb } from '../../../cli/test/program.ts';
import type { Overview } from '../../src/app.ts';
import { send, track } from '../support/calls.ts';
import { ControlApi } from '../support/control-api.ts';
import { adminTokenOf, makePlace, type Place, type Program, startServer } from '../support/program.ts';

const SOURCES = `
unknownWriteKeys: discard
sources:
  - { name: website, writeKeys: [wk] }
  - { name: exact, writeKeys: [wk_exact_1, wk_exact_2], mode: strict }
  - { name: closed, writeKeys: [wk_closed], enabled: false }
`;

/** spec/specification.md, "Invalid calls", against the real program. */
describe('calls that are not accepted', () => {
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
  const countsOf = async (source: string) => (await api.read<Overview>('ledger')).sources[source];

  it('start without a warning about the mode', () => {
    expect(program.out.stderr).not.toContain('no effect');
  });

  it('refuse the whole batch of a strict source, and say of each what is wrong', async () => {
    const batch = [track('m1'), { type: 'track', userId: 'u1' }, track('m2'), { type: 'identify' }];
    const sent = await send(program.url, '/v1/batch', { batch }, { writeKey: 'wk_exact_2' });
    expect(sent).toMatchObject({ status: 400 });
    expect(sent.answer).toEqual({
      success: false,
      code: 'invalid_calls',
      message: expect.stringMatching(/nothing of it was kept/),
      errors: [
        { index: 1, code: 'event_not_defined', message: 'The track call has no event.' },
        { index: 3, code: 'no_user_anon_id', message: 'The call has neither userId nor anonymousId.' },
      ],
    });
    // The same ids again: they would be duplicates if anything had been kept.
    const mended = await send(
      program.url,
      '/v1/batch',
      { batch: [track('m1'), track('m2')] },
      { writeKey: 'wk_exact_1' },
    );
    expect(mended).toMatchObject({ status: 200, answer: { success: true } });
    await api.until<Overview>('ledger', ({ sources }) => sources['exact']!.received === 6);
    expect(await countsOf('exact')).toEqual({
      received: 6,
      accepted: 2,
      discarded: { event_not_defined: 1, no_user_anon_id: 1, batch_refused: 2 },
      duplicates: 0,
    });
  });

  it('are left out of the batch of any other source', async () => {
    const batch = [track('m1'), { type: 'track', userId: 'u1', writeKey: 'wk' }, null];
    expect(await send(program.url, '/v1/batch', { batch })).toMatchObject({ status: 200 });
    expect(await countsOf('website')).toMatchObject({ received: 3, accepted: 1 });
  });

  it('are shown with their source and reason, without their write key', async () => {
    await send(program.url, '/v1/track', track('m3'), { writeKey: 'nobody' });
    await send(program.url, '/v1/track', track('m3'), { writeKey: 'wk_closed' });
    const { data } = await api.read<{ data: Overview['discards'] }>('discards');
    const seen = data.map(({ source, reason }) => `${source ?? '–'} ${reason}`);
    expect(new Set(seen)).toEqual(
      new Set([
        ...['exact event_not_defined', 'exact no_user_anon_id', 'website event_not_defined'],
        ...['website not_an_object', '– unknown_write_key', 'closed source_disabled'],
      ]),
    );
    const sample = data.find(({ source, reason }) => source === 'website' && reason === 'event_not_defined');
    expect(sample!.call).toBe('{"type":"track","userId":"u1","writeKey":"…"}');
    expect((await api.read<Overview>('status')).discards).toHaveLength(6);
  });

  it('are on the screen of `millrace status`', async () => {
    const { out } = await runVerb(['status', '--url', program.url, '--data', place.data]);
    expect(out).toMatch(/last discarded +reason +when +call/);
    expect(out).toMatch(/exact +no_user_anon_id +\d+ s ago +\{"type":"identify"\}/);
  });

  it('are not those that want the address of the client filled in, also where it is one of this machine', async () => {
    const direct = track('m-direct', { context: { direct: true } });
    expect(await send(program.url, '/v1/track', direct)).toMatchObject({ status: 200 });
    const { data } = await api.read<{ data: { event: { context: unknown } }[] }>('events/m-direct');
    expect(data[0]!.event.context).toEqual({ direct: true });
  });
});
