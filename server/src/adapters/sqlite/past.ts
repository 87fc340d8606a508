import type { DeadLetters } from '../../ports/dead-letters.ts';
import type { History } from '../../ports/history.ts';
import type { WriterThread } from './writer-thread.ts';

/** The main thread's end of ports/history.ts: what became of events. */
export function historyOf(thread: WriterThread): History {
  return {
    of: (positions) => thread.ask({ kind: 'history', positions: Float64Array.from(positions) }),
    pending: (query, max, below) =>
      thread.ask({
        kind: 'pending',
        pending: { query, max, ...(below === undefined ? {} : { below }) },
      }),
    owing: (origin) => thread.ask({ kind: 'owing', origin }),
  };
}

/** The main thread's end of ports/dead-letters.ts. */
export function deadLettersOf(thread: WriterThread): DeadLetters {
  return {
    list: (query, limit, from) =>
      thread.ask({
        kind: 'deadLetters',
        deadLetters: { query, limit, ...(from === undefined ? {} : { from }) },
      }),
    count: (query, from) =>
      thread.ask({ kind: 'countDead', deadLetters: from === undefined ? { query } : { query, from } }),
    revive: (slice) => thread.ask({ kind: 'revive', slice }),
  };
}
