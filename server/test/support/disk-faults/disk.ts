import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Chance } from './random.ts';
import { type Change, FOLDER, type Recorded } from './recording.ts';

/** How the unsynced part of a power cut is treated. */
export interface PowerCut {
  readonly chance: Chance;
  /** The share of unsynced sectors that still reached the disk. 0: only synced data survives. */
  readonly reached: number;
  /** Bytes that are written whole or not at all, each for itself; `1`: bytes in order, up to any of them. */
  readonly sector: 512 | 4096 | 1;
}

type Pending = Extract<Change, { what: 'written' | 'cut' }>;
type Naming = Extract<Change, { what: 'named' | 'unlinked' | 'renamed' }>;

/** A file as a power cut would find it: the durable state, and the changes since, in order. */
interface DiskFile {
  readonly certain: Content;
  pending: Pending[];
  /** For each sync under way, how many of the pending changes it covers. */
  readonly syncs: Map<number, number>;
}

/**
 * The content of a disk while a program works on it, rebuilt from a recording.
 *
 * It promises as little as POSIX lets it: a write is certain after a sync of its file and not before, a name
 * after a sync of the folder. Any part of the other changes may be there, in any order, as whole sectors. A
 * failed sync leaves the changes it covered to chance for good, because the kernel then drops them from its
 * list of pending writes.
 */
export class Disk {
  readonly #chance: Chance;
  readonly #files = new Map<number, DiskFile>();
  readonly #names = new Map<string, number>();
  #naming: Naming[] = [];
  readonly #namingSyncs = new Map<number, number>();

  /**
   * `folder` holds the durable state when the recording began; `chance` decides the effect of failed syncs.
   */
  constructor(folder: string, chance: Chance) {
    this.#chance = chance;
    readdirSync(folder).forEach((name, nth) => {
      // Numbers of its own, until the recording says which number the file goes by.
      this.#names.set(name, -1 - nth);
      this.#files.set(-1 - nth, fileOf(readFileSync(join(folder, name))));
    });
  }

  /** Replays up to a moment of the recording, or to its end. Returns the rest. */
  live(recorded: readonly Recorded[], until = Number.POSITIVE_INFINITY): readonly Recorded[] {
    let nth = 0;
    while (nth < recorded.length && recorded[nth]!.moment <= until) this.#happen(recorded[nth++]!.change);
    return recorded.slice(nth);
  }

  #happen(change: Change): void {
    if ('file' in change && change.file === FOLDER) this.#syncNames(change);
    else if (change.what === 'named') this.#name(change);
    else if (change.what === 'unlinked' || change.what === 'renamed') this.#naming.push(change);
    else {
      const file = this.#file(change.file);
      if (!('nth' in change)) file.pending.push(change);
      else if (change.what === 'sync-began') file.syncs.set(change.nth, file.pending.length);
      else this.#endSync(file, change);
    }
  }

  #name({ file, name, made }: Extract<Change, { what: 'named' }>): void {
    if (this.#files.has(file)) return;
    if (made) {
      this.#files.set(file, fileOf(Buffer.alloc(0)));
      this.#naming.push({ what: 'named', file, name, made });
    } else {
      this.#files.set(file, this.#file(this.#names.get(name)!));
      this.#names.set(name, file);
    }
  }

  #file(number: number): DiskFile {
    const file = this.#files.get(number);
    if (file === undefined) throw new Error(`file ${number} was never named`);
    return file;
  }

  #endSync(file: DiskFile, { what, nth }: { what: string; nth: number }): void {
    const covered = file.pending.splice(0, file.syncs.get(nth));
    // Another sync of the same file may be under way and covers fewer of what is left.
    for (const [other, count] of file.syncs) file.syncs.set(other, Math.max(0, count - covered.length));
    file.syncs.delete(nth);
    if (what === 'sync-done') for (const change of covered) apply(file.certain, change);
    else applySome(file.certain, covered, { chance: this.#chance, reached: 0.5, sector: 4096 });
  }

  #syncNames(change: Change): void {
    if (change.what === 'sync-began') this.#namingSyncs.set(change.nth, this.#naming.length);
    if (change.what !== 'sync-done') return;
    const covered = this.#naming.splice(0, this.#namingSyncs.get(change.nth));
    for (const [other, count] of this.#namingSyncs)
      this.#namingSyncs.set(other, Math.max(0, count - covered.length));
    rename(this.#names, covered);
  }

  /** Writes the state after a power cut at this moment into a fresh `target`. */
  cutPower(target: string, cut: PowerCut): void {
    const { chance } = cut;
    const names = new Map(this.#names);
    // Journalling file systems keep the order of names.
    rename(names, this.#naming.slice(0, this.#namesThatReached(cut)));
    rmSync(target, { recursive: true, force: true });
    mkdirSync(target);
    for (const [name, number] of names) {
      const { certain, pending } = this.#file(number);
      // The file is mapped and its writes are unseen: it may be gone, or filled with anything.
      if (name.endsWith('-shm')) {
        if (chance.happens(0.5)) writeFileSync(join(target, name), chance.bytes(4096));
      } else {
        const found = new Content(certain.bytes);
        applySome(found, pending, cut);
        writeFileSync(join(target, name), found.bytes);
      }
    }
  }

  #namesThatReached({ chance, reached }: PowerCut): number {
    return reached === 0 ? 0 : chance.between(0, this.#naming.length);
  }
}

function fileOf(bytes: Buffer): DiskFile {
  return { certain: new Content(bytes), pending: [], syncs: new Map() };
}

function rename(names: Map<string, number>, changes: readonly Naming[]): void {
  for (const change of changes) {
    if (change.what === 'named') names.set(change.name, change.file);
    else {
      const file = names.get(change.name);
      names.delete(change.name);
      if (change.what === 'renamed' && file !== undefined) names.set(change.to, file);
    }
  }
}

function apply(content: Content, change: Pending): void {
  if (change.what === 'cut') content.resize(change.size);
  else content.write(change.bytes, change.at);
}

/** Applies a chosen part of the changes: each sector of each write for itself. */
function applySome(content: Content, changes: readonly Pending[], cut: PowerCut): void {
  const { chance, reached, sector } = cut;
  if (sector === 1) {
    applyUpTo(content, changes, Math.floor(bytesOf(changes) * reached * chance.next()));
    return;
  }
  for (const change of changes) {
    if (change.what === 'cut') {
      // Without the new length, blocks given to the file after it are not the file's.
      if (!chance.happens(reached)) return;
      content.resize(change.size);
      continue;
    }
    const end = change.at + change.bytes.length;
    for (let from = change.at; from < end; ) {
      const to = Math.min(end, (Math.floor(from / sector) + 1) * sector);
      if (chance.happens(reached))
        content.write(change.bytes.subarray(from - change.at, to - change.at), from);
      from = to;
    }
  }
}

/** Applies changes in order until so many bytes are written, the last of them torn. */
function applyUpTo(content: Content, changes: readonly Pending[], bytes: number): void {
  for (const change of changes) {
    if (change.what === 'cut') content.resize(change.size);
    else {
      content.write(change.bytes.subarray(0, bytes), change.at);
      bytes -= Math.min(bytes, change.bytes.length);
      if (bytes === 0) return;
    }
  }
}

function bytesOf(changes: readonly Pending[]): number {
  return changes.reduce((sum, change) => sum + (change.what === 'written' ? change.bytes.length : 0), 0);
}

/** The bytes of a file; it grows in place, because a file is written thousands of times. */
class Content {
  #bytes: Buffer;
  #size: number;

  constructor(bytes: Buffer) {
    this.#bytes = Buffer.from(bytes);
    this.#size = bytes.length;
  }

  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#size);
  }

  /** Bytes below the new end that were never written are zero. */
  resize(size: number): void {
    if (size > this.#bytes.length) {
      const larger = Buffer.alloc(Math.max(size, this.#bytes.length * 2));
      this.bytes.copy(larger);
      this.#bytes = larger;
    }
    if (size < this.#size) this.#bytes.fill(0, size, this.#size);
    this.#size = size;
  }

  write(bytes: Buffer, at: number): void {
    if (bytes.length === 0) return;
    if (at + bytes.length > this.#size) this.resize(at + bytes.length);
    bytes.copy(this.#bytes, at);
  }
}
