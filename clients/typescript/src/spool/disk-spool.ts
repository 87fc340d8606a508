import { closeSync, fdatasync, fdatasyncSync, fsyncSync, mkdirSync, openSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Backlog, BacklogEvents, Entry, WhenFull } from '../backlog.ts';
import type { FailureCode } from '../failure.ts';
import { refuseUnknown } from '../invalid-option.ts';
import { lock } from './lock.ts';
import { type Place, Segment } from './segment.ts';

export interface DiskSpoolOptions {
  /** Made when it is missing. One process at a time uses it; give each worker one of its own. */
  readonly dir: string;
  /** Bytes of calls on the disk. Default 512 MB, at least 1 MB. */
  readonly maxBytes?: number | undefined;
  /**
   * Policy when they are reached: the oldest calls are dropped and reported (default), or new ones are
   * refused.
   */
  readonly whenFull?: WhenFull | undefined;
}

const DEFAULT_SIZE = 512 * 1024 * 1024;
const SMALLEST = 1024 * 1024;
/** Size of the piece that is dropped when there is no room; also the most that a start reads at once. */
const LARGEST_SEGMENT = 4 * 1024 * 1024;
/** Waiting calls in memory; the rest is read from the disk when its turn comes. */
const MOST_IN_MEMORY = 2_000;
const MOST_BYTES_IN_MEMORY = 4 * 1024 * 1024;
/** How long a call may be in the memory of the operating system only, where a power cut would take it. */
const SYNC_EVERY = 1_000;

/**
 * A spool on the disk of this machine: calls are written before they are accepted and kept until they are
 * answered for. A process that dies loses none of them, a power cut at most those of the last second. The
 * next client with the same folder sends what is left.
 *
 * Throws if the folder cannot be used, or another process uses it.
 */
export function diskSpool(options: DiskSpoolOptions): Backlog {
  refuseUnknown(options, ['dir', 'maxBytes', 'whenFull']);
  return new DiskSpool(options);
}

class DiskSpool implements Backlog {
  readonly durable = true;
  readonly #dir: string;
  readonly #maxBytes: number;
  readonly #whenFull: WhenFull;
  readonly #unlock: () => void;
  #events: BacklogEvents | undefined;
  /** Oldest first; calls are appended to the last one while it is `#active`. */
  #segments: Segment[];
  #active: Segment | undefined;
  #nextNumber: number;
  /** In memory, in order; calls behind them are on the disk only. */
  #window: Entry[] = [];
  #windowBytes = 0;
  #unsynced: ReturnType<typeof setTimeout> | undefined;

  constructor({ dir, maxBytes = DEFAULT_SIZE, whenFull = 'drop-oldest' }: DiskSpoolOptions) {
    this.#dir = dir;
    this.#maxBytes = Math.max(SMALLEST, maxBytes);
    this.#whenFull = whenFull;
    mkdirSync(dir, { recursive: true });
    this.#unlock = lock(join(dir, 'lock'));
    const numbers = readdirSync(dir).flatMap((name) => /^(\d+)\.calls$/.exec(name)?.[1] ?? []);
    numbers.sort((a, b) => Number(a) - Number(b));
    this.#nextNumber = Number(numbers.at(-1) ?? 0) + 1;
    this.#segments = numbers.map((number) => Segment.open(join(dir, number)));
    this.#clear();
  }

  get roomy(): boolean {
    return this.#whenFull === 'drop-oldest' || this.#bytes < this.#maxBytes / 2;
  }

  start(events: BacklogEvents): void {
    this.#events = events;
    const left = this.#segments.reduce((sum, segment) => sum + segment.open, 0);
    if (left > 0) events.found(left);
  }

  add(entry: Entry): FailureCode | undefined {
    try {
      if (this.#bytes + entry.bytes >= this.#maxBytes && !this.#makeRoom(entry.bytes)) return 'full';
      const isCaughtUp = this.#segments.every((segment) => segment.isLoaded);
      const segment = this.#writable(entry.bytes);
      segment.append(entry);
      if (isCaughtUp && this.#window.length < MOST_IN_MEMORY && this.#windowBytes < MOST_BYTES_IN_MEMORY) {
        this.#window.push(segment.keep(entry));
        this.#windowBytes += entry.bytes;
      }
      this.#unsynced ??= this.#syncLater();
      return undefined;
    } catch {
      return 'spool_failed';
    }
  }

  take(count: number, bytes: number): Entry[] {
    if (this.#window.length === 0) {
      try {
        this.#load();
      } catch {
        // Nothing is lost by a disk that cannot be read now; the sender asks again.
        return [];
      }
    }
    let size = 0;
    let length = 0;
    while (length < count && length < this.#window.length) {
      size += this.#window[length]!.bytes + 1;
      if (size > bytes && length > 0) break;
      length++;
    }
    const taken = this.#window.splice(0, length);
    for (const entry of taken) this.#windowBytes -= entry.bytes;
    return taken;
  }

  settle(entries: readonly Entry[]): void {
    const bySegment = new Map<Segment, Entry[]>();
    for (const entry of entries) {
      const { segment } = entry.place as Place;
      const those = bySegment.get(segment) ?? [];
      if (those.push(entry) === 1) bySegment.set(segment, those);
    }
    for (const [segment, those] of bySegment) {
      // Dropped meanwhile.
      if (this.#segments.includes(segment)) segment.settle(those);
    }
    this.#clear();
  }

  async close(): Promise<void> {
    clearTimeout(this.#unsynced);
    const { descriptor } = this.#active ?? {};
    if (descriptor !== undefined) fdatasyncSync(descriptor);
    for (const segment of this.#segments) segment.close();
    this.#unlock();
  }

  get #bytes(): number {
    return this.#segments.reduce((sum, segment) => sum + segment.bytes, 0);
  }

  #writable(bytes: number): Segment {
    const largest = Math.min(LARGEST_SEGMENT, this.#maxBytes / 8);
    if (this.#active !== undefined && this.#active.bytes + bytes <= largest) return this.#active;
    this.#active?.finish();
    this.#active = new Segment(join(this.#dir, String(this.#nextNumber++).padStart(10, '0')));
    this.#segments.push(this.#active);
    return this.#active;
  }

  /** Fills the window from the disk. */
  #load(): void {
    for (const segment of this.#segments) {
      while (!segment.isLoaded && this.#window.length === 0) {
        const entries = segment.load();
        const damaged = entries.filter(({ json }) => json === '');
        this.#window = entries.filter(({ json }) => json !== '');
        this.#windowBytes = this.#window.reduce((sum, { bytes }) => sum + bytes, 0);
        if (damaged.length === 0) continue;
        segment.settle(damaged);
        this.#events?.lost(damaged, 'spool_damaged');
      }
      if (this.#window.length > 0) break;
    }
    this.#clear();
  }

  /** Drops whole segments, the oldest first, with what of them is in requests. */
  #makeRoom(bytes: number): boolean {
    if (this.#whenFull === 'refuse') return false;
    while (this.#bytes + bytes >= this.#maxBytes && this.#segments.length > 0) {
      const oldest = this.#segments.shift()!;
      while (!oldest.isLoaded) oldest.load();
      const dropped = [...oldest.inMemory];
      this.#window = this.#window.filter(({ place }) => (place as Place).segment !== oldest);
      this.#windowBytes = this.#window.reduce((sum, entry) => sum + entry.bytes, 0);
      if (oldest === this.#active) this.#active = undefined;
      oldest.remove();
      this.#events?.lost(dropped, 'dropped');
    }
    return true;
  }

  /** Removes segments that are answered for. */
  #clear(): void {
    for (const segment of this.#segments.filter(({ open }) => open === 0)) {
      this.#segments.splice(this.#segments.indexOf(segment), 1);
      if (segment === this.#active) this.#active = undefined;
      segment.remove();
    }
  }

  #syncLater(): ReturnType<typeof setTimeout> {
    const timer = setTimeout(() => {
      this.#unsynced = undefined;
      const { descriptor } = this.#active ?? {};
      // An error here is one of the disk, which the next call will meet as well.
      if (descriptor !== undefined) fdatasync(descriptor, () => {});
      syncFolder(this.#dir);
    }, SYNC_EVERY);
    timer.unref();
    return timer;
  }
}

/** The name of a new file is not on the disk before its folder is. Not every system can do this. */
function syncFolder(dir: string): void {
  try {
    const descriptor = openSync(dir, 'r');
    fsyncSync(descriptor);
    closeSync(descriptor);
  } catch {}
}
