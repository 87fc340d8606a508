import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isObject } from '../../model/json.ts';
import type { TokenUseStore, TokenUses } from '../../ports/token-use-store.ts';

const OWNER_ONLY = 0o600;

/** The uses of tokens as one small file of JSON in the data folder, replaced as a whole. A damaged one counts as empty. */
export class TokenUseFile implements TokenUseStore {
  readonly #path: string;
  readonly #isReplaced: () => boolean;

  /** While `isReplaced`, the folder of this name may belong to another program, and nothing is written there. */
  constructor(folder: string, isReplaced: () => boolean = () => false) {
    this.#path = join(folder, 'token-uses.json');
    this.#isReplaced = isReplaced;
  }

  async load(): Promise<TokenUses> {
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

  async save(uses: TokenUses): Promise<void> {
    if (this.#isReplaced()) throw new Error('the data folder is not that of this process any more');
    const unfinished = `${this.#path}.new`;
    await writeFile(unfinished, JSON.stringify(uses), { mode: OWNER_ONLY });
    await rename(unfinished, this.#path);
  }
}
