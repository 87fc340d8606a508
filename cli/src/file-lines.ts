/** Of a `FileHandle`, or of a stream, which is read in order and needs no place. */
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
  /** From 1. */
  readonly number: number;
  /** Without the line feed; absent where the line is longer than `MOST_BYTES`. */
  readonly bytes: Buffer | undefined;
  /** Where in the file the next line begins. */
  readonly end: number;
}

/** A call has 32 KB at most, written compactly; more is no call, and must not have to fit into memory. */
export const MOST_BYTES = 1024 * 1024;

const PIECE = 256 * 1024;
const LINE_FEED = 10;

/** The place in a file from which lines are read: that many bytes, and lines, are before it. */
export interface Place {
  readonly offset: number;
  readonly line: number;
}

/**
 * The lines of a file from a place on, a piece of the file at a time, in memory that does not depend on the size of the file
 * or of a line. The last one needs no line feed.
 */
export async function* fileLines(file: Readable, from: Place): AsyncGenerator<readonly FileLine[]> {
  let { offset, line } = from;
  /** Pieces of the line that has not ended yet; undefined once it is too long. */
  let begun: Buffer[] | undefined = [];
  let begunBytes = 0;
  for (;;) {
    // A new one each time, so that lines can be parts of it instead of copies.
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
