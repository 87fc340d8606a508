import { closeSync, fsyncSync, ftruncateSync, openSync, writeSync } from 'node:fs';
import { visibleJson } from '@millrace/server/visible-text';
import { printable } from './column.ts';

/** A line of a file that was not taken, and why. */
export interface Reject {
  /** Its number, from 1. */
  readonly line: number;
  /** A code of the client library, or of the reading of files: `not_json`, `not_utf8`, `not_an_object`, `line_too_long`. */
  readonly reason: string;
  readonly message: string;
  /** The line, or the call as it was sent. */
  readonly text: string;
}

export interface Rejects {
  /** Bytes written so far, where they are kept. */
  readonly bytes: number;
  add(reject: Reject): void;
  /** What was added is on stable storage. */
  sync(): void;
  close(): void;
}

/** Somebody at a terminal reads no more. */
const MOST_SHOWN = 20;

/** On stderr: the first of them. */
export function shownRejects(say: (line: string) => void): Rejects {
  let left = MOST_SHOWN;
  return {
    bytes: 0,
    add({ line, reason, message }) {
      if (left > 0) say(`line ${line} was refused: ${reason}: ${printable(message)}.`);
      else if (left === 0) say('more lines were refused; they are counted, and kept with --rejects FILE.');
      left--;
    },
    sync() {},
    close() {},
  };
}

/** In a file, one JSON object a line; what stands behind `bytes` comes again and is cut off. Throws where it cannot be written. */
export function keptRejects(path: string, bytes: number): Rejects {
  const file = openSync(path, bytes === 0 ? 'w' : 'a');
  let written = bytes;
  ftruncateSync(file, bytes);
  return {
    get bytes() {
      return written;
    },
    add(reject) {
      written += writeSync(file, `${visibleJson(JSON.stringify(reject))}\n`);
    },
    sync: () => fsyncSync(file),
    close: () => closeSync(file),
  };
}
