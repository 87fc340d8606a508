import { closeSync, fstatSync, fsyncSync, openSync, readSync, statSync, writeSync } from 'node:fs';

/**
 * Looks for deleted bytes in an SQLite file whose write-ahead log is empty. SQLite overwrites what it
 * deletes, but when it moves the rows of a page together their old bytes stay in the space between them, and
 * no setting removes them; only a VACUUM does. Live rows are not looked at: a short text, such as a user id
 * of two digits, stands in many of them.
 *
 * The file must have `auto_vacuum` on: it then has pages of pointers, which tell the type of every page
 * (sqlite.org/fileformat2.html).
 */
export function hasRemnants(path: string, texts: readonly Buffer[]): boolean {
  if (texts.length === 0) return false;
  const handle = openSync(path, 'r');
  try {
    return searchFile(handle, texts);
  } finally {
    closeSync(handle);
  }
}

/** Types of pages in a page of pointers. */
const ROOT = 1;
const FREE = 2;
const TREE = 5;

/** Bytes of an entry in a page of pointers. */
const ENTRY = 5;

const FILE_HEADER = 100;

/**
 * The page at one gigabyte is never used. A page of pointers that would stand there stands on the next one.
 */
const LOCK_PAGE = 2 ** 30;

function searchFile(handle: number, texts: readonly Buffer[]): boolean {
  const head = Buffer.alloc(FILE_HEADER);
  readSync(handle, head, 0, FILE_HEADER, 0);
  const size = head.readUInt16BE(16) === 1 ? 65_536 : head.readUInt16BE(16);
  const usable = size - head[20]!;
  // A page of pointers stands before the pages that it describes, from the second page of the file on.
  const described = Math.floor(usable / ENTRY);
  const group = Buffer.alloc((described + 1) * size);
  const { size: end } = fstatSync(handle);
  const first = group.subarray(0, size);
  readSync(handle, first, 0, size, 0);
  if (slackHas(first.subarray(0, usable), FILE_HEADER, texts)) return true;
  for (let at = size; at < end; at += group.length) {
    const read = readSync(handle, group, 0, Math.min(group.length, end - at), at);
    const pointers = at === LOCK_PAGE ? size : 0;
    for (let nth = 0; pointers + (nth + 2) * size <= read; nth++) {
      const type = group[pointers + nth * ENTRY]!;
      const from = pointers + (nth + 1) * size;
      const page = group.subarray(from, from + usable);
      if (type === FREE && has(page, texts)) return true;
      if ((type === ROOT || type === TREE) && slackHas(page, 0, texts)) return true;
    }
  }
  return false;
}

/**
 * Whether one of the texts stands in the unused space of a page of a tree. `header`: where its header begins.
 */
function slackHas(page: Buffer, header: number, texts: readonly Buffer[]): boolean {
  const type = page[header]!;
  const isInner = type === 2 || type === 5;
  const cells = page.readUInt16BE(header + 3);
  const content = page.readUInt16BE(header + 5) || 65_536;
  const gap = header + (isInner ? 12 : 8) + 2 * cells;
  if (has(page.subarray(gap, content), texts)) return true;
  // Free blocks are a chain of (next, size).
  for (let block = page.readUInt16BE(header + 1); block !== 0 && block + 4 <= page.length; ) {
    const end = block + page.readUInt16BE(block + 2);
    if (has(page.subarray(block + 4, end), texts)) return true;
    const next = page.readUInt16BE(block);
    if (next <= block) break;
    block = next;
  }
  return false;
}

function has(bytes: Buffer, texts: readonly Buffer[]): boolean {
  return texts.some((text) => bytes.includes(text));
}

/** Pages of pointers that one call of `wipe` looks at: with pages of 4 KB some 13 MB of the file. */
const GROUPS_AT_ONCE = 4;

/**
 * Overwrites deleted bytes in an SQLite file that is too large for a VACUUM, a slice at a time: the unused
 * space of every page of a tree.
 *
 * Call `wipe` only while the write-ahead log is empty and nothing else writes the file. Afterwards every
 * connection that writes must forget its pages (`pragma shrink_memory`): they would bring the old bytes back.
 * A crash between two writes does no harm, because nobody reads unused space. The file stays open for the
 * life of the process: closing it would drop SQLite's locks on it.
 */
export class SlackWiper {
  readonly #handle: number;
  readonly #head = Buffer.alloc(FILE_HEADER);
  #at = 0;

  constructor(path: string) {
    this.#handle = openSync(path, 'r+');
  }

  /** Whether the path still leads to the file that was opened. */
  isOf(path: string): boolean {
    const [open, now] = [fstatSync(this.#handle), statSync(path, { throwIfNoEntry: false })];
    return open.ino === now?.ino && open.dev === now.dev;
  }

  /** Begins again with the first page. */
  restart(): void {
    this.#at = 0;
  }

  /**
   * Looks at the next pages. `isDone`: these were the last ones; `wiped`: number of pages that were written.
   */
  wipe(): { readonly isDone: boolean; readonly wiped: number } {
    readSync(this.#handle, this.#head, 0, FILE_HEADER, 0);
    const size = this.#head.readUInt16BE(16) === 1 ? 65_536 : this.#head.readUInt16BE(16);
    const usable = size - this.#head[20]!;
    const described = Math.floor(usable / ENTRY);
    const { size: end } = fstatSync(this.#handle);
    if (this.#at === 0) this.#at = size;
    let wiped = 0;
    for (let groups = 0; groups < GROUPS_AT_ONCE && this.#at < end; groups++) {
      wiped += this.#wipeGroup({ size, usable, described, end });
      this.#at += (described + 1) * size;
    }
    if (wiped > 0) fsyncSync(this.#handle);
    return { isDone: this.#at >= end, wiped };
  }

  /** The pages behind one page of pointers. */
  #wipeGroup({ size, usable, described, end }: FileShape): number {
    const from = this.#at === LOCK_PAGE ? this.#at + size : this.#at;
    const pointers = Buffer.alloc(size);
    if (readSync(this.#handle, pointers, 0, size, from) < size) return 0;
    const page = Buffer.alloc(size);
    let wiped = 0;
    for (let nth = 0; nth < described; nth++) {
      const type = pointers[nth * ENTRY]!;
      const place = from + (nth + 1) * size;
      if (place >= end) break;
      if ((type !== ROOT && type !== TREE) || readSync(this.#handle, page, 0, size, place) < size) continue;
      const unused = unusedIn(page.subarray(0, usable));
      const dirty = unused.filter(([start, stop]) => page.subarray(start, stop).some((byte) => byte !== 0));
      for (const [start, stop] of dirty) {
        page.fill(0, start, stop);
        writeSync(this.#handle, page, start, stop - start, place + start);
      }
      if (dirty.length > 0) wiped++;
    }
    return wiped;
  }
}

interface FileShape {
  readonly size: number;
  readonly usable: number;
  /** Pages that one page of pointers describes. */
  readonly described: number;
  readonly end: number;
}

/** Types of pages of a tree: inner and leaf pages of indexes and of tables. */
const INNER = [2, 5];
const LEAF = [10, 13];

/** The ranges of a page that hold nothing. None of a page that is not as it should be: it may be damaged. */
function unusedIn(page: Buffer): [from: number, to: number][] {
  const type = page[0]!;
  if (!INNER.includes(type) && !LEAF.includes(type)) return [];
  const cells = page.readUInt16BE(3);
  const content = page.readUInt16BE(5) || 65_536;
  const first = INNER.includes(type) ? 12 : 8;
  const gap = first + 2 * cells;
  if (gap > content || content > page.length) return [];
  for (let at = first; at < gap; at += 2) {
    const cell = page.readUInt16BE(at);
    if (cell < content || cell >= page.length) return [];
  }
  const ranges: [number, number][] = [[gap, content]];
  for (let block = page.readUInt16BE(1); block !== 0; ) {
    if (block < content || block + 4 > page.length) return [];
    const [next, length] = [page.readUInt16BE(block), page.readUInt16BE(block + 2)];
    if (length < 4 || block + length > page.length || (next !== 0 && next < block + length)) return [];
    ranges.push([block + 4, block + length]);
    block = next;
  }
  return ranges;
}
