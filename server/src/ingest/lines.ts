import type { Time } from '../model/time.ts';
import { writeTime } from './timestamps.ts';

/** Shorter pieces are copied byte by byte: the call of a copying function would cost more. */
const SHORT = 64;

/** The lines of the events of one request, written one behind the other. Whoever makes it knows how much that will be. */
export class Lines {
  readonly bytes: Buffer;
  length = 0;

  constructor(most: number) {
    this.bytes = Buffer.allocUnsafe(most);
  }

  /** What is in `bytes` from `from` to `to`. */
  put(bytes: Buffer, from: number, to: number): void {
    const out = this.bytes;
    let length = this.length;
    if (to - from < SHORT) for (let at = from; at < to; at++) out[length++] = bytes[at]!;
    else {
      length += bytes.copy(out, length, from, to);
    }
    this.length = length;
  }

  putAll(bytes: Buffer): void {
    this.put(bytes, 0, bytes.length);
  }

  putByte(byte: number): void {
    this.bytes[this.length++] = byte;
  }

  /** `YYYY-MM-DDTHH:mm:ss.sssZ`. */
  putTime(time: Time): void {
    this.length = writeTime(time, this.bytes, this.length);
  }
}
