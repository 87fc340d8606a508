import { type Chunks, lineOf, linesOf, REMNANT } from './chunks.ts';
import type { ReadMessage } from './protocol.ts';

const LINE_FEED = Uint8Array.of(10);

/** The events at these positions, a line each; an empty line where there is none that can be read. */
export function linesAt(chunks: Chunks, positions: Float64Array): ReadMessage {
  const pieces: Uint8Array[] = [];
  const sources = new Uint32Array(positions.length);
  const times = new Float64Array(positions.length);
  for (let index = 0; index < positions.length; ) {
    const position = positions[index]!;
    const chunk = chunks.at(position);
    if (index > 0) pieces.push(LINE_FEED);
    if (chunk === undefined) {
      index++;
      continue;
    }
    // What is claimed lies side by side, so that its lines can be taken as one piece.
    const from = index;
    const end = chunk.first + chunk.n;
    do index++;
    while (
      chunk.stage < REMNANT &&
      positions[index]! < end &&
      positions[index] === positions[index - 1]! + 1
    );
    const n = index - from;
    pieces.push(n === 1 ? lineOf(chunk, position) : linesOf(chunk, position, n));
    const place = position - chunk.first;
    sources.set(chunk.sources.subarray(place, place + n), from);
    times.set(chunk.times.subarray(place, place + n), from);
  }
  return { lines: joined(pieces), sources, times };
}

/** In a buffer of its own, because it is given away to the other thread. */
function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.byteLength, 0));
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.byteLength;
  }
  return bytes;
}
