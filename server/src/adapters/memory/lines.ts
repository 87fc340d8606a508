import { lineStarts, runsOf, writtenLine } from '../../model/lines.ts';
import type { Line } from '../../model/written-event.ts';
import type { NewEvent } from '../../ports/event-log.ts';

interface Piece {
  /** Its own lines from the first to the last. */
  bytes: Buffer;
  /** The index of its first line. */
  readonly first: number;
  readonly lines: number;
  /** See `lineStarts`; looked for when a line is asked for. */
  starts: Uint32Array | undefined;
  /** Whether nobody else looks at these bytes. */
  isOwn: boolean;
}

/** In place of every byte of what was erased. */
const BLANK = 0x20;

/**
 * The lines of an append, left where they stand: to touch memory that nothing was in before is what storing them would cost most.
 * Whoever appended them must not change them.
 */
export class KeptLines {
  readonly #pieces: readonly Piece[];

  constructor(events: readonly NewEvent[]) {
    const lines = events.map((event) => event.line ?? writtenLine(event.json));
    let first = 0;
    this.#pieces = runsOf(lines).map(({ bytes, from, to, lines }) => {
      const piece = { bytes: bytes.subarray(from, to), first, lines, starts: undefined, isOwn: false };
      first += lines;
      return piece;
    });
  }

  at(index: number): Line {
    return lineIn(this.#pieceOf(index), index);
  }

  /** Nothing of its bytes is left here. Others may still be delivering the lines, so theirs stay as they are. */
  blank(index: number): void {
    const piece = this.#pieceOf(index);
    if (!piece.isOwn) {
      piece.bytes = Buffer.from(piece.bytes);
      piece.isOwn = true;
    }
    const { from, to } = lineIn(piece, index);
    piece.bytes.fill(BLANK, from, to);
  }

  #pieceOf(index: number): Piece {
    let low = 0;
    let high = this.#pieces.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (this.#pieces[middle]!.first <= index) low = middle;
      else high = middle - 1;
    }
    return this.#pieces[low]!;
  }
}

function lineIn(piece: Piece, index: number): Line {
  piece.starts ??= lineStarts(piece.bytes, piece.lines);
  const nth = index - piece.first;
  return { bytes: piece.bytes, from: piece.starts[nth]!, to: piece.starts[nth + 1]! - 1 };
}
