import type { DatabaseSync } from 'node:sqlite';
import { collectGarbage } from '../../system/garbage.ts';
import type { KeyIndex } from '../log/key-index.ts';
import { read } from '../rpc.ts';

/** Gives memory of the writer thread back (`StoreMemory` in ports/store.ts). */
export function idleHandlers(database: DatabaseSync, keys: KeyIndex) {
  return {
    shrinkKeys: read(() => keys.shrink()),
    releaseMemory: read(() => {
      // The pages are still in the page cache of the system.
      database.exec('pragma shrink_memory');
      collectGarbage();
    }),
  };
}
