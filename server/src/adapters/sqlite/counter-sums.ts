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

  /** The same counters in two parts of one size, give or take one. */
  halves(): [CounterSums, CounterSums] {
    const halves: [CounterSums, CounterSums] = [new CounterSums(), new CounterSums()];
    const all = [...this];
    for (const [nth, { scope, id, name, n }] of all.entries())
      halves[nth < all.length / 2 ? 0 : 1].add(scope, id, name, n);
    return halves;
  }

  /** For each group its name and its counters: gap since the id before, and the number with its sign in the lowest bit. */
  encode(): Buffer {
    const bytes: number[] = [];
    pushVarint(bytes, this.#groups.size);
    for (const [group, sums] of this.#groups) {
      const name = Buffer.from(group);
      pushVarint(bytes, name.length);
      bytes.push(...name);
      pushVarint(bytes, sums.size);
      let before = 0;
      for (const [id, n] of [...sums].sort(([a], [b]) => a - b)) {
        pushVarint(bytes, id - before);
        pushVarint(bytes, n < 0 ? -2 * n - 1 : 2 * n);
        before = id;
      }
    }
    return Buffer.from(bytes);
  }

  /** Adds what `encode` has written. Bytes behind it may be anything. */
  decode(bytes: Uint8Array): void {
    const cursor = { at: 0 };
    for (let groups = readVarint(bytes, cursor); groups > 0; groups--) {
      const length = readVarint(bytes, cursor);
      const group = Buffer.from(bytes.subarray(cursor.at, cursor.at + length)).toString();
      cursor.at += length;
      let id = 0;
      for (let n = readVarint(bytes, cursor); n > 0; n--) {
        id += readVarint(bytes, cursor);
        const signed = readVarint(bytes, cursor);
        this.#addTo(group, id, signed % 2 === 1 ? -(signed + 1) / 2 : signed / 2);
      }
    }
  }
}
