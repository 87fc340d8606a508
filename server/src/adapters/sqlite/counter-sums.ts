import type { LedgerCount, LedgerScope } from '../encoding/ledger.ts';
import { pushVarint, readVarint } from '../encoding/pending-set.ts';

/** Counters of the ledger, and how much is to be added to each. */
export class CounterSums {
  /** By scope and name, written `destination/owed`, and by id. */
  readonly #groups = new Map<string, Map<number, number>>();

  add(scope: LedgerScope, id: number, name: string, n: number): void {
    this.#addTo(`${scope}/${name}`, id, n);
  }

  addAll(other: CounterSums): void {
    for (const [group, sums] of other.#groups) for (const [id, n] of sums) this.#addTo(group, id, n);
  }

  #addTo(group: string, id: number, n: number): void {
    const sums = this.#groups.get(group);
    if (sums === undefined) this.#groups.set(group, new Map([[id, n]]));
    else sums.set(id, (sums.get(id) ?? 0) + n);
  }

  *[Symbol.iterator](): Generator<LedgerCount> {
    for (const [group, sums] of this.#groups) {
      const slash = group.indexOf('/');
      const [scope, name] = [group.slice(0, slash) as LedgerScope, group.slice(slash + 1)];
      for (const [id, n] of sums) yield { scope, id, name, n };
    }
  }

  /** Removes the counters of these ids, and returns them. */
  take(isTaken: (id: number) => boolean): CounterSums {
    const taken = new CounterSums();
    for (const [group, sums] of this.#groups) {
      for (const [id, n] of sums) {
        if (!isTaken(id)) continue;
        taken.#addTo(group, id, n);
        sums.delete(id);
      }
    }
    return taken;
  }

  /**
   * The counters in pieces of at most so many bytes, of which there is one at least. For each group its name and its counters: gap since
   * the id before, and the number with its sign in the lowest bit. Zero ends a group, and a piece.
   */
  encode(limit: number): Buffer[] {
    const pieces: number[][] = [[]];
    for (const [group, sums] of this.#groups) {
      const name = Buffer.from(group);
      let before: number | undefined;
      for (const [id, n] of [...sums].sort(([a], [b]) => a - b)) {
        let piece = pieces.at(-1)!;
        const needed = before === undefined ? ENTRY_BYTES + 2 + name.length : ENTRY_BYTES;
        if (piece.length + needed > limit && piece.length > 0) {
          if (before !== undefined) piece.push(0);
          before = undefined;
          piece = [];
          pieces.push(piece);
        }
        if (before === undefined) {
          pushVarint(piece, name.length);
          piece.push(...name);
        }
        pushVarint(piece, id - (before ?? -1));
        pushVarint(piece, n < 0 ? -2 * n - 1 : 2 * n);
        before = id;
      }
      if (before !== undefined) pieces.at(-1)!.push(0);
    }
    return pieces.map((piece) => Buffer.from(piece));
  }

  /** Adds a piece that `encode` has made. Zeros may follow it. */
  decode(bytes: Uint8Array): void {
    const cursor = { at: 0 };
    while (cursor.at < bytes.length) {
      const length = readVarint(bytes, cursor);
      if (length === 0) return;
      const group = Buffer.from(bytes.subarray(cursor.at, cursor.at + length)).toString();
      cursor.at += length;
      let id = -1;
      for (let gap = readVarint(bytes, cursor); gap > 0; gap = readVarint(bytes, cursor)) {
        id += gap;
        const signed = readVarint(bytes, cursor);
        this.#addTo(group, id, signed % 2 === 1 ? -(signed + 1) / 2 : signed / 2);
      }
    }
  }
}

/** The most that a counter takes: two numbers of 53 bits, and the end of its group. */
const ENTRY_BYTES = 8 + 8 + 1;
