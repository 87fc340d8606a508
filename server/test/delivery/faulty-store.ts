import { StorageError } from '../../src/ports/event-log.ts';
import type { Store } from '../../src/ports/store.ts';

/** Calls that the store can refuse, some of them after they have taken effect. */
export type Operation = 'append' | 'read' | 'claim' | 'settle' | 'release' | 'expire' | 'stats';

/** A store that rejects an operation whenever `fails` returns true, and then writes nothing. */
export function faulty(
  { log, queue: backlog, ...store }: Store,
  fails: (operation: Operation) => boolean,
): Store {
  const guard = <A extends unknown[], R>(operation: Operation, call: (...args: A) => Promise<R>) => {
    return async (...args: A): Promise<R> => {
      if (fails(operation)) throw new StorageError(`${operation} is refused by the test`);
      return await call(...args);
    };
  };
  return {
    ...store,
    log: { ...log, append: guard('append', log.append), read: guard('read', log.read) },
    queue: {
      ...backlog,
      claim: guard('claim', backlog.claim),
      settle: guard('settle', backlog.settle),
      makeDue: guard('release', backlog.makeDue),
      expire: guard('expire', backlog.expire),
      stats: guard('stats', backlog.stats),
    },
  };
}
