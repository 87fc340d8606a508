import { isUtf8 } from 'node:buffer';
import { readFileSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { bytesOf, STANDARD_INPUT } from './standard-input.ts';

/** A file that could not be read, with the words that follow its name in a message: `does not exist`. */
export class UnreadableFile {
  readonly reason: string;

  constructor(reason: string) {
    this.reason = reason;
  }
}

/** Reads a whole file as text. */
export function readTextFile(path: string): string | UnreadableFile {
  try {
    return textOf(readFileSync(path));
  } catch (error) {
    return unreadable(error);
  }
}

/** Reads a whole file, or standard input where `-` is its name. */
export async function readTextOf(path: string, input: Readable): Promise<string | UnreadableFile> {
  if (path !== STANDARD_INPUT) return readTextFile(path);
  try {
    return textOf(await bytesOf(input));
  } catch (error) {
    return unreadable(error);
  }
}

/** Decodes UTF-8. Other bytes are refused: as U+FFFD they would change names, ids and secrets. */
function textOf(bytes: Buffer): string | UnreadableFile {
  if (isUtf8(bytes)) return bytes.toString();
  let line = 1;
  for (let from = 0; ; line++) {
    const end = bytes.indexOf('\n', from);
    if (end < 0 || !isUtf8(bytes.subarray(from, end))) break;
    from = end + 1;
  }
  return new UnreadableFile(`is not UTF-8 (line ${line}): save it as UTF-8`);
}

function unreadable(error: unknown): UnreadableFile {
  const code = error instanceof Error && 'code' in error ? String(error.code) : String(error);
  return new UnreadableFile(code === 'ENOENT' ? 'does not exist' : `cannot be read (${code})`);
}
