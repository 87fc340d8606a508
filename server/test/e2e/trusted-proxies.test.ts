import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { send, track } from '../support/calls.ts';
import { adminTokenOf, makePlace, type Place, type Program, startServer } from '../support/program.ts';

/** The tests stand in for the proxy: they add what a proxy would add. */
describe('behind a trusted proxy', () => {
  let place: Place;
  let program: Program;
  let token: string;

  beforeAll(async () => {
    place = makePlace('trustedProxies: [127.0.0.1/32]\nsources: [{ name: website, writeKeys: [wk] }]\n');
    program = await startServer(place);
    token = adminTokenOf(place);
  });

  afterAll(async () => {
    await program.kill();
    place.remove();
  });

  const ask = (path: string, bearer: string, forwardedFor: string) =>
    fetch(`${program.url}/api/v1/${path}`, {
      headers: { authorization: `Bearer ${bearer}`, 'x-forwarded-for': forwardedFor },
    });

  it('a call with context.direct has the address of its client', async () => {
    const headers = { 'x-forwarded-for': '1.2.3.4, 203.0.113.9' };
    const direct = track('m-direct', { context: { direct: true } });
    expect(await send(program.url, '/v1/track', direct, { headers })).toMatchObject({ status: 200 });
    const answer = await ask('events/m-direct', token, '203.0.113.9');
    const { data } = (await answer.json()) as { data: { event: { context: unknown } }[] };
    expect(data[0]!.event.context).toEqual({ direct: true, ip: '203.0.113.9' });
  });

  it('a client that guesses tokens has to wait, and no other client behind the same proxy', async () => {
    const guess = async () => (await ask('ledger', 'wrong', '203.0.113.66')).status;
    for (let nth = 0; nth < 20; nth++) expect(await guess()).toBe(401);
    expect(await guess()).toBe(429);
    expect((await ask('ledger', token, '203.0.113.66')).status).toBe(429);
    expect((await ask('ledger', token, '203.0.113.9')).status).toBe(200);
  });
});
