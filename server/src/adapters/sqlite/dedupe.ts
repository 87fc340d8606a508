import type { Position } from '../../model/event.ts';
import type { Duration } from '../../model/time.ts';
import { type Chunks, storedLineOf } from './chunks.ts';
import { idsOf } from './id-hashes.ts';
import type { Keys } from './keys.ts';
import type { AppendMessage } from './protocol.ts';

/**
 * Finds events whose (source, messageId) is already in the log. Exact: the hash only proposes, and every proposal is
 * compared with the stored event itself, since believing a bare hash would lose an event now and then. What cannot be read is
 * not the same: an event too many is better than one too few.
 */
export class Dedupe {
  readonly #window: Duration;
  readonly #chunks: Chunks;
  readonly #keys: Keys;

  constructor(chunks: Chunks, keys: Keys, window: Duration) {
    this.#window = window;
    this.#chunks = chunks;
    this.#keys = keys;
  }

  /**
   * The position each event of the batch gets, counted from `next` on; −1 for a duplicate. The keys of the others are
   * remembered, so a transaction that fails afterwards must be followed by new `Keys`.
   */
  place(batch: AppendMessage, next: Position): Float64Array {
    const positions = new Float64Array(batch.events);
    const first = next;
    const maySealed = this.#keys.maySealed(batch.keys);
    for (let index = 0; index < batch.events; index++) {
      const high = batch.keys[index * 2]!;
      const low = batch.keys[index * 2 + 1]!;
      const isSame = (kept: Position): boolean => {
        if (kept < first) return this.#isStored(batch, index, { line: lineIn(batch, index), position: kept });
        const earlier = positions.indexOf(kept);
        return (
          batch.sources[earlier] === batch.sources[index] &&
          messageId(lineIn(batch, earlier)) === messageId(lineIn(batch, index))
        );
      };
      const isKnown =
        this.#keys.someYoung(high, low, isSame) ||
        (maySealed[index] === 1 &&
          this.#keys.someSealed(high, low, batch.receivedAt - this.#windowOf(batch, index), isSame));
      if (isKnown) {
        positions[index] = -1;
        continue;
      }
      positions[index] = next;
      this.#keys.add(high, low, next, batch.receivedAt);
      next++;
    }
    return positions;
  }

  #windowOf(batch: AppendMessage, index: number): Duration {
    return batch.windows?.[index] ?? this.#window;
  }

  #isStored(
    batch: AppendMessage,
    index: number,
    { line, position }: { line: Buffer; position: Position },
  ): boolean {
    const chunk = this.#chunks.at(position);
    if (chunk === undefined) return false;
    const event = position - chunk.first;
    if (batch.receivedAt - chunk.times[event]! >= this.#windowOf(batch, index)) return false;
    if (chunk.sources[event] !== batch.sources[index]) return false;
    const stored = storedLineOf(chunk, position);
    return stored.length > 0 && messageId(stored) === messageId(line);
  }
}

function lineIn({ lines, starts }: AppendMessage, index: number): Buffer {
  const from = starts[index]!;
  return Buffer.from(lines.buffer, lines.byteOffset + from, starts[index + 1]! - 1 - from);
}

export function messageId(line: Buffer): string {
  return idsOf(line).messageId;
}
