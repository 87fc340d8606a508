import type { Socket } from 'node:net';

/** Something that has bytes to write. It may have changed its mind since it was added. */
export interface BatchedWriter {
  write(): void;
}

/** As many are written without waiting for the end of the turn: what was written long before would have left the processor's caches. */
const BATCH = 16;

/**
 * Puts off what is to be written to sockets, until as much is together or all sockets of this turn of the event loop have been read.
 * A write that finds its receiver asleep has to wake it up, which costs as much as half of the write; where receivers share
 * the machine, the next ones of a batch find it awake. docs/decisions/0009
 */
export class WriteBatch {
  #waiting: BatchedWriter[] = [];

  add(writer: BatchedWriter): void {
    if (this.#waiting.length === 0) setImmediate(this.#flush);
    this.#waiting.push(writer);
    if (this.#waiting.length >= BATCH) this.#flush();
  }

  readonly #flush = (): void => {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const writer of waiting) writer.write();
  };
}

/** Longer requests have a buffer of their own. */
const SHARED_BYTES = 16 * 1024;

let shared = Buffer.allocUnsafeSlow(SHARED_BYTES);

/**
 * Writes a head, one character per byte, and a body in one piece: a second write costs as much as all the rest of a request. The
 * system nearly always takes all of it at once, and then the next request can use the same buffer.
 */
export function writeInOnePiece(socket: Socket, head: string, body: Buffer): void {
  const length = head.length + body.length;
  // TLS keeps what it is given for a while.
  const isShared = length <= SHARED_BYTES && !('encrypted' in socket);
  const bytes = isShared ? shared.subarray(0, length) : Buffer.allocUnsafe(length);
  bytes.write(head, 'latin1');
  body.copy(bytes, head.length);
  socket.write(bytes);
  if (isShared && socket.writableLength > 0) shared = Buffer.allocUnsafeSlow(SHARED_BYTES);
}
