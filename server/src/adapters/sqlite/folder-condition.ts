import { join } from 'node:path';
import type { Logger } from '../../ports/logger.ts';
import { tighten } from './folder.ts';
import { MARK } from './high-water-mark.ts';

const SILENT = { info: () => {}, warn: () => {}, error: () => {} };

/** What there is to tell of the data folder besides what is asked of the store in it. */
export class FolderCondition {
  readonly #folder: string;
  readonly #logger: Pick<Logger, 'info' | 'warn' | 'error'>;
  #amiss: string | undefined;

  constructor(folder: string, logger: Pick<Logger, 'info' | 'warn' | 'error'> = SILENT) {
    this.#folder = folder;
    this.#logger = logger;
  }

  /** The store is open. */
  opened(isMarkDamaged: boolean): void {
    if (isMarkDamaged) this.#logger.warn({ path: join(this.#folder, MARK) }, 'storage.mark_renewed');
    for (const loose of tighten(this.#folder)) this.#logger.warn({ ...loose }, 'storage.rights_loose');
  }

  /** The open files are no longer those of the folder, and why; without a reason: they are again. */
  readonly changed = (amiss: string | undefined): void => {
    this.#amiss = amiss;
    if (amiss === undefined) this.#logger.info({}, 'storage.intact');
    else this.#logger.error({ reason: amiss }, 'storage.amiss');
  };

  readonly problems = (): readonly string[] => (this.#amiss === undefined ? [] : [this.#amiss]);
}
