import type { Settings } from '../../ports/settings.ts';
import type { WriterThread } from './writer-thread.ts';

/** The settings of the store behind a writer thread; see `Records` for what that one does. */
export function settingsOf(thread: WriterThread): Settings {
  return {
    load: () => thread.ask({ kind: 'load' }),
    apply: (changes) => thread.ask({ kind: 'apply', changes }),
    audit: (query, limit, from) =>
      thread.ask({ kind: 'audit', audit: { query, limit, ...(from === undefined ? {} : { from }) } }),
  };
}
