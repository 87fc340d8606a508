import { createHash } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { basename } from 'node:path';
import type { Passed } from './import-window.ts';

/** Where an import of a file stands. */
export interface Progress extends Passed {
  /** Bytes of the file of rejects that belong to it; what is behind them was written after this and comes again. */
  readonly rejects: number;
}

/** What an import is: the same file, to the same source of the same server. */
export interface ImportIdentity {
  /** Path of the file. */
  readonly path: string;
  readonly endpoint: string;
  readonly writeKey: string;
}

export const NOTHING_DONE: Progress = { offset: 0, line: 0, accepted: 0, refused: 0, rejects: 0 };

/** Bytes before the offset that a file is known by again. */
const KNOWN_BY = 4096;

/**
 * Reads a file of progress; where there is none, nothing is done. What cannot be gone on with comes back as a message: it was
 * written for something else, or the file is no longer the one that was read.
 */
export async function readProgress(
  progressPath: string,
  identity: ImportIdentity,
  file: FileHandle,
): Promise<Progress | string> {
  let text: string;
  try {
    text = readFileSync(progressPath, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return NOTHING_DONE;
    return `the progress in ${progressPath} cannot be read: ${error instanceof Error ? error.message : String(error)}`;
  }
  const again = 'name another file with --progress, or remove that one to begin at the first line';
  const saved = progressIn(text);
  if (saved === undefined) return `${progressPath} is no progress of an import: ${again}`;
  if (saved.target !== targetOf(identity)) {
    return `${progressPath} is about an import to another server or with another write key: ${again}`;
  }
  if (saved.before !== (await digestBefore(file, saved.offset))) {
    return `${identity.path} is not the file that ${progressPath} is about, or was changed: ${again}`;
  }
  const { offset, line, accepted, refused, rejects } = saved;
  return { offset, line, accepted, refused, rejects };
}

/** Rejects when it cannot be written. The old progress or the new one is there at every moment, also after a power cut. */
export async function writeProgress(
  progressPath: string,
  progress: Progress,
  { identity, file }: { readonly identity: ImportIdentity; readonly file: FileHandle },
): Promise<void> {
  const before = await digestBefore(file, progress.offset);
  const saved = { file: basename(identity.path), ...progress, target: targetOf(identity), before };
  const draft = `${progressPath}.new`;
  const handle = openSync(draft, 'w');
  try {
    writeSync(handle, `${JSON.stringify(saved)}\n`);
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
  renameSync(draft, progressPath);
}

function progressIn(text: string): (Progress & { target: string; before: string }) | undefined {
  try {
    const saved = JSON.parse(text) as Record<string, unknown>;
    const numbers = ['offset', 'line', 'accepted', 'refused', 'rejects'].map((field) => Number(saved[field]));
    if (!numbers.every((number) => Number.isSafeInteger(number) && number >= 0)) return undefined;
    const [offset, line, accepted, refused, rejects] = numbers as [number, number, number, number, number];
    const { target, before } = saved;
    return { offset, line, accepted, refused, rejects, target: String(target), before: String(before) };
  } catch {
    return undefined;
  }
}

/** Too short to be turned back into a write key, long enough to notice a mistake. */
function targetOf({ endpoint, writeKey }: ImportIdentity): string {
  return createHash('sha256').update(`${endpoint}\n${writeKey}`).digest('hex').slice(0, 8);
}

/** A file that has grown since is still the same; one that was replaced is not. */
async function digestBefore(file: FileHandle, offset: number): Promise<string> {
  const from = Math.max(0, offset - KNOWN_BY);
  const bytes = Buffer.alloc(offset - from);
  const { bytesRead } = await file.read(bytes, 0, bytes.length, from);
  return createHash('sha256').update(bytes.subarray(0, bytesRead)).digest('hex');
}
