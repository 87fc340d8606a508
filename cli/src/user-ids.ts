import { isUtf8 } from 'node:buffer';
import { createReadStream } from 'node:fs';
import { printable } from './column.ts';
import type { RunContext } from './run-context.ts';
import { bytesOf, STANDARD_INPUT } from './standard-input.ts';

export interface UserIdOptions {
  readonly ids: readonly string[];
  /** A file with more ids, one a line. */
  readonly file?: string;
  /**
   * Each id is written as JSON text, in its quotes: the way for characters that a shell or an editor cannot
   * hold.
   */
  readonly jsonIds?: boolean;
  /** True for anonymous ids of visitors. */
  readonly anonymous?: boolean;
}

/** The userIds that the options name, each once and unchanged; or a message why there are none. */
export async function readUserIds(
  { ids, file, jsonIds = false }: UserIdOptions,
  context: Pick<RunContext, 'in'>,
): Promise<readonly string[] | string> {
  const lines = file === undefined ? [] : await linesOf(file, context);
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

/** Reads a list of ids, one a line. Empty lines are skipped. */
async function linesOf(file: string, context: Pick<RunContext, 'in'>): Promise<string[] | string> {
  let bytes: Buffer;
  try {
    bytes = await bytesOf(file === STANDARD_INPUT ? context.in : createReadStream(file));
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

/**
 * Words for a question about an id that looks as if it had extra characters around it; undefined when there
 * is none.
 */
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
