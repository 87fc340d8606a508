import { isUtf8 } from 'node:buffer';
import { createReadStream } from 'node:fs';
import { printable } from './column.ts';
import { bytesOf, STANDARD_INPUT } from './standard-input.ts';
import type { Surroundings } from './surroundings.ts';

export interface UserIdOptions {
  readonly ids: readonly string[];
  /** A file with more ids, one a line. */
  readonly file?: string;
  /** Each id is written as JSON text, in its quotes: the way for characters that a shell or an editor cannot hold. */
  readonly jsonIds?: boolean;
  /** They are anonymous ids of visitors. */
  readonly anonymous?: boolean;
}

/** The userIds that options name, each once, taken as they are. A text says why there are none to go on with. */
export async function readUserIds(
  { ids, file, jsonIds = false }: UserIdOptions,
  place: Pick<Surroundings, 'in'>,
): Promise<readonly string[] | string> {
  const lines = file === undefined ? [] : await linesOf(file, place);
  if (typeof lines === 'string') return lines;
  const written = [...ids, ...lines];
  if (written.length === 0) return 'name at least one userId, or a file of them with --file';
  if (!jsonIds) return [...new Set(written)];
  const read: string[] = [];
  for (const text of written) {
    const id = idOfJson(text);
    if (id === undefined)
      return `with --json-ids each id is JSON text in its quotes, and ${shown(text)} is not`;
    read.push(id);
  }
  return [...new Set(read)];
}

function idOfJson(text: string): string | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'string' && value !== '' ? value : undefined;
  } catch {
    return undefined;
  }
}

/** A line without its line end is an id; empty lines are none. */
async function linesOf(file: string, place: Pick<Surroundings, 'in'>): Promise<string[] | string> {
  let bytes: Buffer;
  try {
    bytes = await bytesOf(file === STANDARD_INPUT ? place.in : createReadStream(file));
  } catch (error) {
    return `cannot read ${file}: ${(error as Error).message}`;
  }
  if (!isUtf8(bytes)) return `${file} is not UTF-8: convert it first, or other users would be meant`;
  return bytes
    .toString()
    .replace(/^\ufeff/, '')
    .split(/\r?\n/)
    .filter((line) => line !== '');
}

/** An id in which more may stand than the id that is meant, in words for a question; undefined when there is none. */
export function doubtAbout(unknown: readonly string[]): string | undefined {
  const padded = unknown.find((id) => id.trim() !== id);
  if (padded !== undefined) return `${shown(padded)} names nobody, and has blanks around it`;
  const quoted = unknown.find((id) => /^(["']).*\1$/.test(id));
  if (quoted !== undefined) return `${shown(quoted)} names nobody, and stands in quotes`;
  const columns = unknown.find((id) => /[,;\t]/.test(id));
  if (columns !== undefined) return `${shown(columns)} names nobody, and looks like several columns`;
  return undefined;
}

const shown = (id: string) => printable(JSON.stringify(id));
