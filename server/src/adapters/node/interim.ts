import type { Socket } from 'node:net';

const LINE = Buffer.from('HTTP/1.1 100');
const HEAD_END = '\r\n\r\n';

/** Longer than any sane interim head; what is longer is left to undici, which then says that it is not HTTP. */
const LONGEST_HEAD = 4096;

const NOTHING = Buffer.alloc(0);

/**
 * Takes `100 Continue` out of what a socket reads. undici destroys a connection on which one arrives that it did not ask for,
 * and the request would fail as `protocol_error`; but a client must be ready for interim answers it did not ask for (RFC 9110
 * section 15.2), and some servers send this one for every POST. Other interim answers undici passes over by itself.
 *
 * Only the beginning of an answer is looked at: the same bytes in the middle of a body are the body's.
 *
 * @param awaitsAnswer whether a request was sent on the socket and not one byte of its answer was seen by undici
 */
export function withoutContinue(socket: Socket, awaitsAnswer: () => boolean): void {
  const read = socket.read.bind(socket);
  /** The beginning of what may become an interim head. */
  let held: Buffer = NOTHING;
  socket.read = (size?: number): unknown => {
    for (;;) {
      const chunk: unknown = read(size);
      if (!(chunk instanceof Buffer)) return chunk;
      // Nearly always: a final answer has a 2 or more here, and what follows it is none of our business.
      if (held.length === 0 && ((chunk[9] ?? 0x31) !== 0x31 || !awaitsAnswer())) return chunk;
      const rest = afterInterim(held.length === 0 ? chunk : Buffer.concat([held, chunk]));
      held = rest.isComplete ? NOTHING : rest.bytes;
      if (rest.isComplete && rest.bytes.length > 0) return rest.bytes;
    }
  };
}

/** What is left behind interim heads; incomplete when it could still be the beginning of another one. */
function afterInterim(bytes: Buffer): { readonly bytes: Buffer; readonly isComplete: boolean } {
  let rest = bytes;
  for (;;) {
    const known = Math.min(rest.length, LINE.length);
    if (rest.compare(LINE, 0, known, 0, known) !== 0) return { bytes: rest, isComplete: true };
    const end = known < LINE.length ? -1 : rest.indexOf(HEAD_END);
    if (end === -1) return { bytes: rest, isComplete: rest.length === 0 || rest.length > LONGEST_HEAD };
    rest = rest.subarray(end + HEAD_END.length);
  }
}
