import { systemClock } from '../../src/adapters/system/clock.ts';
import { Authenticator } from '../../src/control-api/auth.ts';
import { SessionStore } from '../../src/control-api/sessions.ts';

/** An authenticator that knows one token, with every right. */
export function testAuthenticator(adminToken: string): Authenticator {
  const sessions = new SessionStore(systemClock);
  return new Authenticator({ adminToken, tokens: () => [], sessions, clock: systemClock });
}
