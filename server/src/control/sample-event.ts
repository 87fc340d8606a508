import type { CallType } from '../model/call.ts';
import type { Event } from '../model/event.ts';
import type { Time } from '../model/time.ts';

/** An event of a type as an ordinary client would have sent it, for trying a destination out. */
export function sampleEvent(type: CallType, messageId: string, now: Time): Event {
  const at = new Date(now).toISOString();
  return {
    ...{ messageId, type, channel: 'server', userId: 'test-user' },
    ...PARTS[type],
    context: { library: { name: 'millrace-test', version: '1.0.0' } },
    integrations: {},
    ...{ timestamp: at, receivedAt: at },
  };
}

const PARTS: Readonly<Record<CallType, Partial<Event>>> = {
  identify: { traits: { name: 'Test User', email: 'test@example.com' } },
  track: { event: 'Test Event', properties: { total: 9.5, currency: 'EUR' } },
  page: { name: 'Home', properties: { url: 'https://example.com/', title: 'Home' } },
  screen: { name: 'Home', properties: {} },
  group: { groupId: 'test-group', traits: { name: 'Test Group' } },
  alias: { previousId: 'test-anonymous' },
};
