import { writeFileSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import { send } from '../support/calls.ts';
import {
  adminTokenOf,
  logOf,
  makePlace,
  oneDestination,
  type Place,
  type Program,
  startServer,
} from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';

const VISITORS = `
profiles: on
audiences:
  - name: Watchers
    definition: event('Watched').count() >= 1
    includeAnonymous: true
    destinations: [crm]
`;

const OPEN: { stop(): Promise<unknown> }[] = [];
afterEach(async () => {
  while (OPEN.length > 0) await OPEN.pop()!.stop();
});

describe('profiles of visitors whose time is over', () => {
  async function world(): Promise<{ place: Place; receiver: TestReceiver; yaml: string }> {
    const receiver = await startReceiver();
    const yaml = `${oneDestination([receiver.url])}${VISITORS}`;
    const place = makePlace(yaml);
    OPEN.push({ stop: async () => place.remove() }, receiver);
    return { place, receiver, yaml };
  }

  async function start(place: Place): Promise<Program> {
    const program = await startServer(place);
    OPEN.push(program);
    return program;
  }

  /** Events received of a visitor, in order. */
  const heard = ({ arrivals }: TestReceiver, id: string): unknown[] =>
    arrivals
      .map(
        ({ body }) =>
          JSON.parse(body.toString()) as { anonymousId?: string; traits?: { watchers?: boolean } },
      )
      .filter(({ anonymousId, traits }) => anonymousId === id && traits?.watchers !== undefined)
      .map(({ traits }) => traits!.watchers);

  const profileOf = async (program: Program, place: Place, query: string): Promise<number> => {
    const headers = { authorization: `Bearer ${adminTokenOf(place)}` };
    return (await fetch(`${program.url}/api/v1/profiles${query}`, { headers })).status;
  };

  it('go with the next look at all of them, destinations hear it, and users stay', async () => {
    const { place, receiver, yaml } = await world();
    const first = await start(place);
    const watched = { event: 'Watched' };
    for (const who of [{ anonymousId: 'visitor' }, { userId: 'ann', anonymousId: 'device of ann' }])
      expect((await send(first.url, '/v1/track', { ...watched, ...who })).status).toBe(200);
    await until('the destination knows the visitor', () => heard(receiver, 'visitor').length === 1);
    expect(await profileOf(first, place, '?anonymousId=visitor')).toBe(200);
    expect(await first.stop()).toBe(0);
    writeFileSync(place.config, `${yaml}retention: { profiles: { anonymous: 1ms } }\n`);
    const second = await start(place);
    await until('the destination hears that it is gone', () => heard(receiver, 'visitor').length === 2);
    expect(heard(receiver, 'visitor')).toEqual([true, false]);
    expect(await profileOf(second, place, '?anonymousId=visitor')).toBe(404);
    expect(await profileOf(second, place, '/ann')).toBe(200);
    await until('the log says so', () =>
      logOf(second.out.stderr).some(({ event }) => event === 'profiles.forgotten'),
    );
  });

  it('stay in a new installation for 90 days', async () => {
    const { place, receiver } = await world();
    const program = await start(place);
    await send(program.url, '/v1/track', { event: 'Watched', anonymousId: 'visitor' });
    await until('the destination knows the visitor', () => heard(receiver, 'visitor').length === 1);
    expect(await program.stop()).toBe(0);
    const again = await start(place);
    await send(again.url, '/v1/track', { event: 'Watched', anonymousId: 'other' });
    await until('the destination knows the other', () => heard(receiver, 'other').length === 1);
    expect(heard(receiver, 'visitor')).toEqual([true]);
    expect(await profileOf(again, place, '?anonymousId=visitor')).toBe(200);
  });
});
