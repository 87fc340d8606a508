import { closeSync, fsyncSync, ftruncateSync, openSync, writeSync } from 'node:fs';
import { visibleJson } from '@millrace/server/visible-text';
import { printable } from './column.ts';

/** A refused line of a file, with the reason. */
export interface Reject {
  /** Line number, from 1. */
  readonly line: number;
  /**
   * A code of the client library or of the file reader: `not_json`, `not_utf8`, `not_an_object`,
   * `line_too_long`.
   */
  readonly reason: string;
  readonly message: string;
  /** The line, or the call as it was sent. */
  readonly text: string;
}

export interface Rejects {
  /** Bytes written to the rejects file so far. */
  readonly bytes: number;
  add(reject: Reject): void;
  /** Flushes all additions to stable storage. */
  sync(): void;
  close(): void;
}

/** Number of rejects shown. A person at a terminal reads no more. */
const MOST_SHOWN = 20;

/** Shows the first rejects on stderr. */
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

/**
 * Appends rejects to a file, one JSON object a line. Content after `bytes` is cut off first. Throws if it
 * cannot write.
 */
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
