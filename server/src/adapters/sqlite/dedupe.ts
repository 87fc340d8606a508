import type { Position } from '../../model/event.ts';
import type { Duration, Time } from '../../model/time.ts';
import { type Chunks, lineOf } from './chunks.ts';
import { lineStarts } from './codec.ts';
import { KeyTable } from './key-table.ts';
import type { AppendMessage } from './protocol.ts';

/**
 * Finds events whose (source, messageId) is already in the log. Exact: the hash only proposes, and every proposal is
 * compared with the stored event itself, since believing a bare hash would lose an event now and then.
 *
 * Two generations of keys are kept. The younger one takes new keys until it has covered a whole window, then becomes the
 * older one; so every key is remembered for at least a window and at most two.
 */
export class Dedupe {
  readonly #window: Duration;
  readonly #chunks: Chunks;
  #younger = new KeyTable();
  #older = new KeyTable(2);
  #youngerSince: Time | undefined;

  /** Loads the keys of the last window from the log. */
  constructor(chunks: Chunks, window: Duration) {
    this.#window = window;
    this.#chunks = chunks;
    let newest: Time | undefined;
    let oldest: Time | undefined;
    chunks.keysBackwards(({ first, at, keys }) => {
      newest ??= at;
      if (at <= newest - window) return false;
      oldest = at;
      for (let index = 0; index * 2 < keys.length; index++) {
        this.#younger.add(keys[index * 2]!, keys[index * 2 + 1]!, first + index);
      }
      return true;
    });
    this.#youngerSince = oldest;
  }

  /**
   * The position each event of the batch gets, counted from `next` on; −1 for a duplicate. The keys of the others are
   * remembered, so a transaction that fails afterwards must be followed by a new `Dedupe`.
   */
  place(batch: AppendMessage, next: Position): Float64Array {
    if (batch.events > 0) this.#turn(batch.receivedAt);
    const positions = new Float64Array(batch.events);
    let starts: Uint32Array | undefined;
    const lineAt = (index: number): Buffer => {
      starts ??= lineStarts(batch.lines, batch.events);
      return Buffer.from(
        batch.lines.buffer,
        batch.lines.byteOffset + starts[index]!,
        starts[index + 1]! - 1 - starts[index]!,
      );
    };
    const first = next;
    for (let index = 0; index < batch.events; index++) {
      const high = batch.keys[index * 2]!;
      const low = batch.keys[index * 2 + 1]!;
      const same = (kept: Position): boolean => {
        if (kept < first) return this.#isSame(batch, index, lineAt(index), kept);
        const earlier = positions.indexOf(kept);
        return (
          batch.sources[earlier] === batch.sources[index] &&
          messageId(lineAt(earlier)) === messageId(lineAt(index))
        );
      };
      if (this.#younger.some(high, low, same) || this.#older.some(high, low, same)) {
        positions[index] = -1;
        continue;
      }
      positions[index] = next;
      this.#younger.add(high, low, next);
      next++;
    }
    return positions;
  }

  #isSame(batch: AppendMessage, index: number, line: Buffer, kept: Position): boolean {
    const chunk = this.#chunks.at(kept);
    if (chunk === undefined || batch.receivedAt - chunk.at >= this.#window) return false;
    const stored = lineOf(chunk, kept);
    if (stored.length === 0) return false;
    return (
      chunk.sources[kept - chunk.first] === batch.sources[index] && messageId(stored) === messageId(line)
    );
  }

  #turn(now: Time): void {
    this.#youngerSince ??= now;
    if (now - this.#youngerSince < this.#window) return;
    this.#older = this.#younger;
    this.#younger = new KeyTable();
    this.#youngerSince = now;
  }
}

function messageId(line: Buffer): string {
  return (JSON.parse(line.toString()) as { messageId: string }).messageId;
}
