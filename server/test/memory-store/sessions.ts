import type { SessionStore } from '../../src/ports/session-store.ts';
import { assertOpen, type MemoryContents, type Opening } from './contents.ts';

export function openSessions(contents: MemoryContents, holder: Opening): SessionStore {
  const { sessions } = contents;
  return {
    async begin(session, now, most) {
      assertOpen(contents, holder);
      for (const { id, until } of sessions.values()) if (until <= now) sessions.delete(id);
      sessions.set(session.id, session);
      const own = [...sessions.values()].filter(({ token }) => token === session.token);
      const gone = own.slice(0, Math.max(own.length - most, 0)).map(({ id }) => id);
      for (const id of gone) sessions.delete(id);
      return gone;
    },
    async find(id) {
      return sessions.get(id);
    },
    async end(id) {
      assertOpen(contents, holder);
      sessions.delete(id);
    },
  };
}
