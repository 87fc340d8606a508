/** The read method of a `FileHandle`, or of a stream, which reads in order and ignores the position. */
export interface Readable {
  read(
    buffer: Buffer,
    offset: number,
    length: number,
    position: number,
  ): Promise<{ readonly bytesRead: number; readonly buffer: Buffer }>;
}

/** One line of a file. */
export interface FileLine {
  /** Line number, from 1. */
  readonly number: number;
  /** The line without its line feed. Absent when it is longer than `MOST_BYTES`. */
  readonly bytes: Buffer | undefined;
  /** Offset of the next line in the file. */
  readonly end: number;
}

/**
 * Maximum bytes of a line. A call has at most 32 KB in compact JSON; a longer line must not fill the memory.
 */
export const MOST_BYTES = 1024 * 1024;

const PIECE = 256 * 1024;
const LINE_FEED = 10;

/** A position in a file: the bytes and the lines before it. */
export interface Place {
  readonly offset: number;
  readonly line: number;
}

/**
 * Reads the lines of a file from a position on, chunk by chunk. Memory does not depend on the size of the
 * file or of a line. The last line needs no line feed.
 */
export async function* fileLines(file: Readable, from: Place): AsyncGenerator<readonly FileLine[]> {
  let { offset, line } = from;
  /** Pieces of the unfinished line. Undefined once it is too long. */
  let begun: Buffer[] | undefined = [];
  let begunBytes = 0;
  for (;;) {
    // A new buffer for each read: lines can be views of it instead of copies.
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(PIECE), 0, PIECE, offset);
    if (bytesRead === 0) break;
    const piece = buffer.subarray(0, bytesRead);
    const lines: FileLine[] = [];
    let start = 0;
    for (let at = piece.indexOf(LINE_FEED); at >= 0; at = piece.indexOf(LINE_FEED, start)) {
      const rest = piece.subarray(start, at);
      const isTooLong = begun === undefined || begunBytes + rest.length > MOST_BYTES;
      const bytes = isTooLong ? undefined : begunBytes === 0 ? rest : Buffer.concat([...begun!, rest]);
      start = at + 1;
      line++;
      lines.push({ number: line, bytes, end: offset + start });
      begun = [];
      begunBytes = 0;
    }
    begunBytes += bytesRead - start;
    if (begunBytes > MOST_BYTES) begun = undefined;
    else begun?.push(piece.subarray(start));
    offset += bytesRead;
    yield lines;
  }
  if (begunBytes > 0) {
    yield [{ number: line + 1, bytes: begun && Buffer.concat(begun), end: offset }];
  }
}
