import { createHash } from 'node:crypto';
import { closeSync, existsSync, openSync, readFileSync, readSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { isObject } from '../../../model/json.ts';
import type { SecretSeal } from '../../encoding/secret-seal.ts';
import { DATABASE_FILE, USERS_FILE, writeAnew } from '../data-folder/files.ts';

/** Name of the manifest in a backup. */
export const MANIFEST_FILE = 'manifest.json';

/**
 * Describes a backup as it was when it was made. The journal of regulations beside it grows later, and is not
 * in it.
 */
export interface BackupManifest {
  readonly format: 1;
  readonly at: string;
  readonly files: readonly ManifestFile[];
  /**
   * A hash of all of the above with `secrets.key`, behind the name of the key; absent without one. A manifest
   * without it tells damage, and not whoever wrote it anew.
   */
  readonly mac?: string;
}

export interface ManifestFile {
  readonly name: string;
  readonly size: number;
  /** Of the bytes, in hexadecimal. */
  readonly sha256: string;
}

const PIECE = 1024 * 1024;

/**
 * Reads a file and tells its size and hash. `onPiece` is called between two pieces of a megabyte, and may
 * throw.
 */
export function describeFile(path: string, name: string, onPiece: () => void = () => {}): ManifestFile {
  const hash = createHash('sha256');
  const piece = Buffer.allocUnsafe(PIECE);
  const handle = openSync(path, 'r');
  try {
    let size = 0;
    for (let read = -1; read !== 0; size += read) {
      onPiece();
      read = readSync(handle, piece, 0, PIECE, size);
      hash.update(piece.subarray(0, read));
    }
    return { name, size, sha256: hash.digest('hex') };
  } finally {
    closeSync(handle);
  }
}

/** Writes the manifest of a backup whose files are whole. */
export function writeManifest(
  folder: string,
  written: Pick<BackupManifest, 'at' | 'files'>,
  seal: SecretSeal,
): void {
  const unsigned: BackupManifest = { format: 1, ...written };
  const mac = seal.mac(hashedText(unsigned));
  const manifest = mac === undefined ? unsigned : { ...unsigned, mac };
  writeAnew(join(folder, MANIFEST_FILE), `${JSON.stringify(manifest, null, 2)}\n`);
}

/** The text that `mac` is the hash of. It does not depend on how the file is laid out. */
function hashedText({ format, at, files }: BackupManifest): string {
  return JSON.stringify([format, at, files.map(({ name, size, sha256 }) => [name, size, sha256])]);
}

/** The verdict of the keyed hash about its manifest. */
export type ManifestProof =
  | { readonly kind: 'genuine' }
  /** Not written by whoever has the key. */
  | { readonly kind: 'forged'; readonly why: string }
  | { readonly kind: 'unknown'; readonly why: string };

export function proofOf(manifest: BackupManifest, seal: SecretSeal): ManifestProof {
  const { mac } = manifest;
  if (typeof mac !== 'string') {
    const why = `${MANIFEST_FILE} was made without secrets.key: it tells damage, but that nobody has written it anew could not be checked`;
    return { kind: 'unknown', why };
  }
  const verified = seal.verifyMac(hashedText(manifest), mac);
  if (verified === true) return { kind: 'genuine' };
  if (verified.fault === 'changed')
    return { kind: 'forged', why: `${MANIFEST_FILE} is not what was written with secrets.key` };
  const why = `${MANIFEST_FILE} is proved by the key ${verified.key}, which was not given: that nobody has written it anew could not be checked`;
  return { kind: 'unknown', why };
}

/**
 * The manifest of a backup; undefined where there is none, and why where there is one that cannot be read.
 */
export function readManifest(folder: string): BackupManifest | string | undefined {
  const path = join(folder, MANIFEST_FILE);
  if (!existsSync(path)) return undefined;
  try {
    const read: unknown = JSON.parse(readFileSync(path, 'utf8'));
    if (!isObject(read) || read['format'] !== 1) return `${path} is of another version`;
    const { files } = read;
    if (typeof read['at'] === 'string' && Array.isArray(files) && files.every(isManifestFile))
      return read as unknown as BackupManifest;
    return `${path} does not name the files of a backup`;
  } catch (error) {
    return `${path} cannot be read (${(error as Error).message})`;
  }
}

function isManifestFile(value: unknown): boolean {
  if (!isObject(value)) return false;
  return (
    typeof value['name'] === 'string' &&
    Number.isInteger(value['size']) &&
    typeof value['sha256'] === 'string'
  );
}

/** The files that a manifest covers. */
const COVERED = [DATABASE_FILE, USERS_FILE];

/**
 * Lists how a backup differs from its manifest, each as a sentence. `pathOf`: where each file is read, such
 * as its copy; undefined where there is none.
 */
export function differencesFrom(
  { files }: BackupManifest,
  pathOf: (name: string) => string | undefined,
): readonly string[] {
  return COVERED.flatMap((name) => {
    const path = pathOf(name);
    const listed = files.find((one) => one.name === name);
    if (path === undefined) return listed === undefined ? [] : [`${name} is missing`];
    if (listed === undefined) return [`${name} was not in it when it was made`];
    const { size } = statSync(path);
    if (size !== listed.size) return [`${name} has ${size} bytes, and had ${listed.size} when it was made`];
    return describeFile(path, name).sha256 === listed.sha256
      ? []
      : [`${name} holds other bytes than when it was made`];
  });
}
