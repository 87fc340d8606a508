import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type AudienceWorld, startAudienceWorld } from '../../server/test/support/audience-world.ts';
import { libraries, startDriver } from './library.ts';

const { found, missing } = libraries();
for (const line of missing) console.log(line);

describe.each(found)('the $name client', (library) => {
  let world: AudienceWorld;
  beforeAll(async () => {
    world = await startAudienceWorld();
  });
  afterAll(() => world.stop());

  it('makes a user enter an audience, who leaves it when the window has passed', async () => {
    const client = await startDriver(library, { writeKey: 'wk', endpoint: world.url });
    expect(client.ready, client.log()).toMatchObject({ ready: true });
    let calls = 0;
    await world.expectEnteredAndLeft(
      async (type, fields) => {
        const messageId = `${library.name}-${++calls}`;
        expect(await client.call(type, { ...fields, messageId })).toMatchObject({ ok: true });
      },
      async () => {
        expect(await client.flush()).toMatchObject({ ok: true });
      },
      `${library.name}-user`,
    );
    expect(await client.close()).toMatchObject({ ok: true });
    expect(await client.end()).toBe(0);
  });
});
