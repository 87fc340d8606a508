import {
  appendFileSync,
  close,
  closeSync,
  fdatasync,
  ftruncateSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  writeSync,
} from 'node:fs';
import type { Callback, Entry } from '../backlog.ts';

/** Read at once, at least two of the largest calls. */
const PIECE = 256 * 1024;
const NEWLINE = 10;

/** Place of a call in the spool. */
export interface Place {
  readonly segment: Segment;
  /** From 0. */
  readonly line: number;
}

/**
 * One file of calls, a JSON text per line, and beside it the numbers of the lines that have been answered
 * for. Lines are only ever appended, and the files are removed when every line has been answered for.
 *
 * One system call writes a line before the call is accepted: it survives the death of the process.
 */
export class Segment {
  readonly #calls: string;
  readonly #answered: string;
  readonly #done = new Set<number>();
  #writing: number | undefined;
  #reading: number | undefined;
  /** Of whole lines. */
  bytes = 0;
  #lines = 0;
  /** The first line, and its place in the file, that is not in memory. */
  #nextLine = 0;
  #nextByte = 0;
  /** In memory: waiting or in a request. */
  readonly inMemory = new Set<Entry>();
  /** Of lines that are not in memory. */
  readonly #callbacks = new Map<number, Callback>();

  constructor(path: string) {
    this.#calls = `${path}.calls`;
    this.#answered = `${path}.answered`;
  }

  /** A segment of an earlier process, read through once to count its lines. */
  static open(path: string): Segment {
    const segment = new Segment(path);
    const calls = readFileSync(segment.#calls);
    for (let at = calls.indexOf(NEWLINE); at >= 0; at = calls.indexOf(NEWLINE, at + 1)) {
      segment.#lines++;
      // Bytes after the last newline are a line cut short: that call had not been accepted.
      segment.bytes = at + 1;
    }
    for (const [, from, to] of textOf(segment.#answered).matchAll(/^(\d+)-(\d+)$/gm)) {
      for (let line = Number(from); line <= Number(to) && line < segment.#lines; line++)
        segment.#done.add(line);
    }
    return segment;
  }

  /** Lines that have not been answered for. */
  get open(): number {
    return this.#lines - this.#done.size;
  }

  get isLoaded(): boolean {
    return this.#nextLine === this.#lines;
  }

  /** For `fdatasync`; absent when nothing was written. */
  get descriptor(): number | undefined {
    return this.#writing;
  }

  /** Throws what the disk says; the file is then as it was. */
  append(entry: Entry): number {
    this.#writing ??= openSync(this.#calls, 'a');
    try {
      const written = writeSync(this.#writing, `${entry.json}\n`);
      if (written !== entry.bytes + 1) throw new Error('the disk is full');
    } catch (cause) {
      ftruncateSync(this.#writing, this.bytes);
      throw cause;
    }
    this.bytes += entry.bytes + 1;
    if (entry.callback !== undefined) this.#callbacks.set(this.#lines, entry.callback);
    return this.#lines++;
  }

  /** The call just appended stays in memory. Only when everything before it is there too. */
  keep(entry: Entry): Entry {
    const line = this.#nextLine;
    this.#nextLine = this.#lines;
    this.#nextByte = this.bytes;
    return this.#remember(entry, line);
  }

  /** The next lines that are not in memory and not answered for; a line without JSON has an empty `json`. */
  load(): Entry[] {
    this.#reading ??= openSync(this.#calls, 'r');
    const piece = Buffer.allocUnsafe(Math.min(PIECE, this.bytes - this.#nextByte));
    const length = readSync(this.#reading, piece, 0, piece.length, this.#nextByte);
    const entries: Entry[] = [];
    let start = 0;
    for (let end = piece.indexOf(NEWLINE); end >= 0 && end < length; end = piece.indexOf(NEWLINE, start)) {
      const line = this.#nextLine++;
      if (!this.#done.has(line)) {
        const json = piece.toString('utf8', start, end);
        entries.push(this.#remember({ json: isJson(json) ? json : '', bytes: end - start }, line));
      }
      start = end + 1;
    }
    // A file that became shorter, or has a line no client writes: the rest cannot be read.
    if (start === 0) this.#giveUp(entries);
    this.#nextByte += start;
    return entries;
  }

  /** Lines are given back as soon as they are answered for. */
  settle(entries: readonly Entry[]): void {
    const lines = entries.map(({ place }) => (place as Place).line).sort((a, b) => a - b);
    let text = '';
    for (let at = 0; at < lines.length; ) {
      const from = at++;
      while (at < lines.length && lines[at] === lines[at - 1]! + 1) at++;
      text += `${lines[from]}-${lines[at - 1]}\n`;
    }
    for (const line of lines) this.#done.add(line);
    for (const entry of entries) this.inMemory.delete(entry);
    // The files are about to go.
    if (this.open === 0) return;
    try {
      appendFileSync(this.#answered, text);
    } catch {
      // The next process sends these once more, and the server knows their message ids.
    }
  }

  /** Closes the segment for appending, and brings it to the disk beside the program. */
  finish(): void {
    const descriptor = this.#writing;
    if (descriptor !== undefined) fdatasync(descriptor, () => close(descriptor, () => {}));
    this.#writing = undefined;
  }

  close(): void {
    for (const descriptor of [this.#writing, this.#reading]) {
      if (descriptor !== undefined) closeSync(descriptor);
    }
    this.#writing = undefined;
    this.#reading = undefined;
  }

  /** The calls go first: numbers of lines without lines are nothing. */
  remove(): void {
    this.close();
    rmSync(this.#calls, { force: true });
    rmSync(this.#answered, { force: true });
  }

  #remember(entry: Entry, line: number): Entry {
    const callback = this.#callbacks.get(line);
    this.#callbacks.delete(line);
    const kept = { ...entry, callback, place: { segment: this, line } satisfies Place };
    this.inMemory.add(kept);
    return kept;
  }

  #giveUp(entries: Entry[]): void {
    for (; this.#nextLine < this.#lines; this.#nextLine++) {
      if (!this.#done.has(this.#nextLine))
        entries.push(this.#remember({ json: '', bytes: 0 }, this.#nextLine));
    }
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
