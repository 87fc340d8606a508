import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openProfileStore } from '../../src/adapters/sqlite/users/profile-store.ts';
import { emptyProfiles, openMemoryProfiles } from '../memory-store/profile-store.ts';
import type { ProfilesPlace } from './profiles-model.ts';

/** In memory, where the system has such a folder: nothing here cuts the power. */
const FOLDERS = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

export function memoryPlace(): ProfilesPlace {
  const profiles = emptyProfiles();
  return { open: () => openMemoryProfiles(profiles), remove: async () => {} };
}

/** A folder with users.db. */
export function diskPlace(): ProfilesPlace {
  const folder = mkdtempSync(join(FOLDERS, 'millrace-profiles-'));
  return {
    open: () => openProfileStore({ folder, log: 'a-log', cache: 1024 * 1024 }),
    remove: async () => rmSync(folder, { recursive: true }),
  };
}
