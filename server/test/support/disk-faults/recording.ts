import { readFileSync } from 'node:fs';

/** One operation on the files of a folder. Files have numbers, because names change and come back. */
export type Change =
  /** Opened under this name; `made` when it did not exist. */
  | { readonly what: 'named'; readonly file: number; readonly name: string; readonly made: boolean }
  | { readonly what: 'written'; readonly file: number; readonly at: number; readonly bytes: Buffer }
  | { readonly what: 'cut'; readonly file: number; readonly size: number }
  /** The data written up to here is durable when the sync of the same number is done. */
  | { readonly what: 'sync-began' | 'sync-done' | 'sync-failed'; readonly file: number; readonly nth: number }
  | { readonly what: 'unlinked'; readonly name: string }
  | { readonly what: 'renamed'; readonly name: string; readonly to: string };

/** A change and the length of the recording with it: the moment right after. */
export interface Recorded {
  readonly change: Change;
  readonly moment: number;
}

/** The folder itself: a sync of it covers the names in it. */
export const FOLDER = 1;

/** Bytes of a record before its name or data: two 32-bit and two 64-bit words, as in shim.c. */
const HEADER = 24;

/** The shim's records, in order. The last one may be incomplete: the program was killed while it wrote. */
export function readRecording(path: string): Recorded[] {
  const bytes = readFileSync(path);
  const recorded: Recorded[] = [];
  for (let at = 0; at + HEADER <= bytes.length; ) {
    const length = bytes.readUInt32LE(at + 4);
    const end = at + HEADER + length;
    if (end > bytes.length) break;
    recorded.push({ change: changeIn(bytes.subarray(at, end)), moment: end });
    at = end;
  }
  return recorded;
}

function changeIn(record: Buffer): Change {
  const file = Number(record.readBigUInt64LE(8));
  const number = Number(record.readBigUInt64LE(16));
  const rest = record.subarray(HEADER);
  const what = record.readUInt32LE(0);
  switch (what) {
    case 1:
      return { what: 'named', file, name: rest.toString(), made: number === 1 };
    case 2:
      return { what: 'written', file, at: number, bytes: rest };
    case 3:
      return { what: 'cut', file, size: number };
    case 4:
      return { what: 'sync-began', file, nth: number };
    case 5:
      return { what: 'sync-done', file, nth: number };
    case 6:
      return { what: 'sync-failed', file, nth: number };
    case 7:
      return { what: 'unlinked', name: rest.toString() };
    case 8: {
      const [name, to] = rest.toString().split('\0') as [string, string];
      return { what: 'renamed', name, to };
    }
    default:
      throw new Error(`the recording has a record of an unknown kind: ${what}`);
  }
}
