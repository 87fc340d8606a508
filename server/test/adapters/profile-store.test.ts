import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openProfileStore } from '../../src/adapters/sqlite/users/profile-store.ts';
import type { ProfileStore } from '../../src/ports/profile-store.ts';
import { profileStoreConformance } from '../conformance/profile-store.ts';
import { emptyProfiles, openMemoryProfiles } from '../memory-store/profile-store.ts';

/** In memory, where the system has such a folder. The crash tests use the real disk. */
const FOLDERS = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

const folders = new WeakMap<ProfileStore, string>();

function open(folder: string): ProfileStore {
  const store = openProfileStore({ folder, log: 'a-log', cache: 1024 * 1024 });
  folders.set(store, folder);
  return store;
}

profileStoreConformance('the SQLite store of profiles', {
  open: async () => open(mkdtempSync(join(FOLDERS, 'millrace-profiles-'))),
  reopen: async (store) => {
    await store.stop();
    return open(folders.get(store)!);
  },
  close: async (store) => {
    await store.stop();
    rmSync(folders.get(store)!, { recursive: true });
  },
});

const contents = new WeakMap<ProfileStore, ReturnType<typeof emptyProfiles>>();

function openInMemory(all = emptyProfiles()): ProfileStore {
  const store = openMemoryProfiles(all);
  contents.set(store, all);
  return store;
}

profileStoreConformance('the memory store of profiles', {
  open: async () => openInMemory(),
  reopen: async (store) => openInMemory(contents.get(store)),
  close: (store) => store.stop(),
});
