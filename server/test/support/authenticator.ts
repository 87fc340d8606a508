import { systemClock } from '../../src/adapters/system/clock.ts';
import { Authenticator } from '../../src/control-api/auth.ts';
import { ConsoleSessions } from '../../src/control-api/sessions.ts';
import type { Clock } from '../../src/ports/clock.ts';
import { openMemoryStore } from '../memory-store/store.ts';

/** An authenticator that knows one token, with every right. */
export function testAuthenticator(adminToken: string): Authenticator {
  const sessions = testSessions(systemClock);
  return new Authenticator({ adminToken, tokens: () => [], sessions, clock: systemClock });
}

/** The installation that tests of sessions name. Their cookie is `millrace_0a1b2c3d`. */
const IDENTITY = { id: '0a1b2c3d4e5f', keySecret: new Uint8Array(8) };

/** Sessions in a store in memory. `store`: another one, such as one that fails. */
export function testSessions(
  clock: Clock,
  store: Partial<ConstructorParameters<typeof ConsoleSessions>[0]['store']> = {},
  warn: () => void = () => undefined,
): ConsoleSessions {
  const { sessions } = openMemoryStore();
  return new ConsoleSessions({
    store: { sessions, identity: IDENTITY, ...store },
    clock,
    logger: { warn },
  });
}
