import { openDatabase } from '../../../src/adapters/sqlite/database.ts';

/**
 * A process of its own, because the disk fails for whole processes: opens the store's file of a folder when
 * told to, and closes it.
 */
process.on('message', (folder: string) => {
  try {
    openDatabase(folder).close();
    process.send!('opened');
  } catch (error) {
    process.send!(String(error));
  }
});
