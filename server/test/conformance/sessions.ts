import { describe, expect, it } from 'vitest';
import { StorageError } from '../../src/ports/event-log.ts';
import type { StoredSession } from '../../src/ports/session-store.ts';
import { START, type Subject } from './harness.ts';

const session = (id: string, more: Partial<StoredSession> = {}): StoredSession => ({
  ...{ id, key: `key of ${id}`, token: 'token', expiresAt: START + 500, until: START + 1000 },
  ...more,
});

/** The sentences of ports/session-store.ts. */
export function sessionsConformance(subject: Subject): void {
  const begin = (one: StoredSession, now = START, most = 3) => subject.store.sessions.begin(one, now, most);
  const known = async (...ids: string[]) => {
    const found = await Promise.all(ids.map((id) => subject.store.sessions.find(id)));
    return found.flatMap((one) => (one === undefined ? [] : [one.id]));
  };

  describe('sessions of the console', () => {
    it('are there after a crash, as they were begun', async () => {
      await begin(session('a'));
      await subject.crash();
      expect(await subject.store.sessions.find('a')).toEqual(session('a'));
      expect(await subject.store.sessions.find('b')).toBeUndefined();
    });

    it('are gone when they have ended, after a crash too', async () => {
      await begin(session('a'));
      await begin(session('b'));
      await subject.store.sessions.end('a');
      await subject.store.sessions.end('never there');
      await subject.crash();
      expect(await known('a', 'b')).toEqual(['b']);
    });

    it('of one token are so many at most, and the oldest goes, whatever others have', async () => {
      await begin(session('other', { token: 'another' }));
      const gone: (readonly string[])[] = [];
      for (const id of ['z', 'b', 'y', 'a', 'x']) gone.push(await begin(session(id)));
      expect(gone).toEqual([[], [], [], ['z'], ['b']]);
      expect(await known('z', 'b', 'y', 'a', 'x', 'other')).toEqual(['y', 'a', 'x', 'other']);
    });

    it('go when they are over and another one begins, of whichever token', async () => {
      await begin(session('over', { token: 'another', until: START + 10 }));
      await begin(session('early'), START + 9);
      expect(await known('over')).toEqual(['over']);
      await begin(session('late'), START + 10);
      expect(await known('over', 'early', 'late')).toEqual(['early', 'late']);
    });

    it('are not begun or ended by a process that is gone', async () => {
      await begin(session('a'));
      const before = await subject.crash();
      await expect(before.sessions.begin(session('b'), START, 3)).rejects.toThrow(StorageError);
      await expect(before.sessions.end('a')).rejects.toThrow(StorageError);
      expect(await known('a', 'b')).toEqual(['a']);
    });
  });
}
