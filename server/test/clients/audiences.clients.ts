import { Analytics } from 'segment-node-3.1';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { type AudienceWorld, startAudienceWorld } from '../support/audience-world.ts';

describe('a published client library', () => {
  let world: AudienceWorld;
  beforeAll(async () => {
    world = await startAudienceWorld();
  });
  afterAll(() => world.stop());

  it('makes a user enter an audience, who leaves it when the window has passed', async () => {
    const analytics = new Analytics({ writeKey: 'wk', host: world.url });
    await world.expectEnteredAndLeft(
      async (type, fields) => {
        analytics[type](fields as never);
      },
      () => analytics.flush(),
      'segment-user',
    );
    await analytics.closeAndFlush();
  });
});
