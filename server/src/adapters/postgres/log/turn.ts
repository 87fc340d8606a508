import type { KeyMemory, OwnKeys } from './key-memory.ts';

/** How far an append has come. The one after it waits for parts of that. */
export class Turn {
  readonly #positions = Promise.withResolvers<void>();
  readonly #try = Promise.withResolvers<void>();
  /** Half of each key: two batches that share none of them share no key. */
  #halves = new Set<number>();
  hasEnded = false;

  /** Resolves when its first try has its positions, or has failed. */
  get hasPositions(): Promise<void> {
    return this.#positions.promise;
  }

  /** Resolves when its first try has ended. */
  get isTried(): Promise<void> {
    return this.#try.promise;
  }

  /** Resolves when a batch with these keys may begin: the one before has its positions, and no earlier one has any of the keys under way. */
  async begin(keys: Uint32Array, before: Turn, underWay: Iterable<Turn>): Promise<void> {
    this.#halves = new Set(keys.filter((_, index) => index % 2 === 0));
    const earlier = [...underWay];
    await before.hasPositions;
    for (const turn of earlier) if (shareOne(turn.#halves, this.#halves)) await turn.isTried;
  }

  positionsAreTaken(): void {
    this.#positions.resolve();
  }

  end(): void {
    this.hasEnded = true;
    this.#positions.resolve();
    this.#try.resolve();
    this.#halves.clear();
  }
}

/** The keys that a batch has sent, until it is known what became of them. */
export class Tries {
  readonly #keys: KeyMemory;
  readonly #turn: Turn;
  /** Of the try under way. */
  #own: OwnKeys | undefined;
  /** Of tries whose commit is in doubt. */
  readonly #doubtful: OwnKeys[] = [];

  constructor(keys: KeyMemory, turn: Turn) {
    this.#keys = keys;
    this.#turn = turn;
  }

  /** A try is about to send its keys. */
  begin(own: OwnKeys): void {
    this.#own = own;
    this.#keys.begin(own);
  }

  /** Nothing of the try was written. */
  undone(): void {
    this.#end();
    if (this.#own !== undefined) this.#keys.drop(this.#own);
    this.#own = undefined;
  }

  /** Nobody knows whether the try was committed. */
  inDoubt(): void {
    this.#end();
    if (this.#own !== undefined) this.#doubtful.push(this.#own);
    this.#own = undefined;
  }

  /** The batch has its answer. Without keys of its own the last try may have found that of an earlier one. */
  done(): void {
    if (this.#own === undefined) return;
    this.#keys.commit(this.#own);
    // Their batch has the same id.
    for (const own of this.#doubtful) this.#keys.drop(own);
  }

  /** The turn ends without an answer: what was sent is not known to be there, nor to be gone. */
  #end(): void {
    for (const own of [...this.#doubtful, ...(this.#own === undefined ? [] : [this.#own])]) own.isFree = true;
    this.#turn.end();
  }
}

function shareOne(some: ReadonlySet<number>, others: ReadonlySet<number>): boolean {
  for (const one of some) if (others.has(one)) return true;
  return false;
}
