import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isObject } from '../../model/json.ts';
import type { Time } from '../../model/time.ts';

const OWNER_ONLY = 0o600;

/**
 * Stores when tokens were last used, as one small JSON file in the data folder that is replaced as a whole.
 */
export class TokenUseFile {
  readonly #path: string;
  readonly #isReplaced: () => boolean;

  /**
   * While `isReplaced`, the folder of this name may belong to another program, and nothing is written there.
   */
  constructor(folder: string, isReplaced: () => boolean = () => false) {
    this.#path = join(folder, 'token-uses.json');
    this.#isReplaced = isReplaced;
  }

  /** Last saved times of use, by name of the token; empty when the file is missing or damaged. */
  async load(): Promise<Readonly<Record<string, Time>>> {
    try {
      const read: unknown = JSON.parse(await readFile(this.#path, 'utf8'));
      if (!isObject(read)) return {};
      const entries = Object.entries(read).flatMap(([name, at]) =>
        typeof at === 'number' && Number.isFinite(at) ? [[name, at] as const] : [],
      );
      return Object.fromEntries(entries);
    } catch {
      return {};
    }
  }

  async save(uses: Readonly<Record<string, Time>>): Promise<void> {
    if (this.#isReplaced()) throw new Error('the data folder is not that of this process any more');
    const unfinished = `${this.#path}.new`;
    // An earlier try may have left the file, or a link that leads elsewhere.
    await rm(unfinished, { force: true });
    await writeFile(unfinished, JSON.stringify(uses), { mode: OWNER_ONLY, flag: 'wx' });
    await rename(unfinished, this.#path);
  }
}
