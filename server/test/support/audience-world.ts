import { createHmac } from 'node:crypto';
import { expect } from 'vitest';
import { makePlace, oneDestination, startServer } from './program.ts';
import { startReceiver } from './receiver.ts';

const SECRET = 's3cret-of-the-tests';

/**
 * Members viewed twice within seconds, have the plan, and belong to the group: it takes all kinds of calls to
 * get there. A slow machine takes longer than the first window for them, and has the second.
 */
const ACTIVE = `
audiences:
  - name: Active Pros
    definition: event('Viewed').within(6 seconds).count() >= 2 and trait('plan') = 'pro' and group('acme')
    destinations: [crm]
  - name: Lately Active Pros
    definition: event('Viewed').within(90 seconds).count() >= 2 and trait('plan') = 'pro' and group('acme')
    destinations: [crm]
`;
const KEYS = ['active_pros', 'lately_active_pros'];

/** A call of a client library. */
export type MakeCall = (
  type: 'identify' | 'track' | 'group' | 'alias',
  fields: Record<string, unknown>,
) => Promise<void>;

/** The real server with one audience, and a destination that verifies what it gets. */
export interface AudienceWorld {
  readonly url: string;
  /**
   * Makes calls in the specified order (anonymous actions, alias, identify, actions under the known id) for a
   * user of its own, and expects that the audience is entered, and left when the window has passed: one
   * signed event each.
   */
  expectEnteredAndLeft(call: MakeCall, flush: () => Promise<void>, user: string): Promise<void>;
  stop(): Promise<void>;
}

export async function startAudienceWorld(): Promise<AudienceWorld> {
  const receiver = await startReceiver();
  const yaml = oneDestination([`${receiver.url}/in`], SECRET).replace('sources: [website]', 'sources: []');
  const place = makePlace(`${yaml}${ACTIVE}`);
  const program = await startServer(place);
  const heardOf = (user: string, key: string) =>
    receiver.arrivals
      .map(({ body }) => JSON.parse(body.toString()) as { userId?: string; traits: Record<string, unknown> })
      .filter(({ userId, traits }) => userId === user && key in traits)
      .map(({ traits }) => traits[key]);
  return {
    url: program.url,
    async expectEnteredAndLeft(call, flush, user) {
      await call('track', { anonymousId: `${user}-device`, event: 'Viewed' });
      await call('alias', { previousId: `${user}-device`, userId: user });
      await call('identify', { userId: user, traits: { plan: 'pro' } });
      await call('group', { userId: user, groupId: 'acme' });
      await call('track', { userId: user, event: 'Viewed' });
      await flush();
      const left = () => KEYS.find((key) => heardOf(user, key).length >= 2);
      await receiver.until(() => left() !== undefined);
      expect(heardOf(user, left()!)).toEqual([true, false]);
      for (const { headers, body } of receiver.arrivals)
        expect(headers['x-signature']).toBe(createHmac('sha1', SECRET).update(body).digest('hex'));
    },
    async stop() {
      await program.stop();
      await receiver.stop();
      place.remove();
    },
  };
}
