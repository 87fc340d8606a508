import { createHash } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { basename } from 'node:path';
import type { Passed } from './import-window.ts';

/** The progress of an import. */
export interface Progress extends Passed {
  /** Bytes of the rejects file that belong to this progress. Later bytes are cut off and written again. */
  readonly rejects: number;
}

/** Identity of an import: the same file, to the same source of the same server. */
export interface ImportIdentity {
  /** Path of the file. */
  readonly path: string;
  readonly endpoint: string;
  readonly writeKey: string;
}

export const NOTHING_DONE: Progress = { offset: 0, line: 0, accepted: 0, refused: 0, rejects: 0 };

/** Bytes before the offset that identify a file. */
const KNOWN_BY = 4096;

/**
 * Reads a progress file. A missing file means a new import. Returns a message when the import cannot
 * continue: the progress belongs to another import, or the file was replaced.
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

/**
 * Writes the progress atomically: a power cut leaves the old or the new one. Rejects when it cannot be
 * written.
 */
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

/** A digest too short to recover the write key, and long enough to notice a mistake. */
function targetOf({ endpoint, writeKey }: ImportIdentity): string {
  return createHash('sha256').update(`${endpoint}\n${writeKey}`).digest('hex').slice(0, 8);
}

/** Digest of the bytes before the offset: a file that has grown is the same one, a replaced file is not. */
async function digestBefore(file: FileHandle, offset: number): Promise<string> {
  const from = Math.max(0, offset - KNOWN_BY);
  const bytes = Buffer.alloc(offset - from);
  const { bytesRead } = await file.read(bytes, 0, bytes.length, from);
  return createHash('sha256').update(bytes.subarray(0, bytesRead)).digest('hex');
}
