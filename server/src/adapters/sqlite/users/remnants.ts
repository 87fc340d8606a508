import { closeSync, fstatSync, openSync, readSync } from 'node:fs';

/**
 * Looks for deleted bytes in an SQLite file whose write-ahead log is empty. SQLite overwrites what it deletes, but when it moves
 * the rows of a page together their old bytes stay in the space between them, and no setting removes them; only a VACUUM does.
 * Live rows are not looked at: a short text, such as a user id of two digits, stands in many of them.
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

/** The page at one gigabyte is never used. A page of pointers that would stand there stands on the next one. */
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

/** Whether one of the texts stands in the unused space of a page of a tree. `header`: where its header begins. */
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
