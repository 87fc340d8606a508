import type { IncomingMessage } from 'node:http';
import { gunzipSync } from 'node:zlib';

/** Why there is no body. */
export type BodyRefusal = 'too_large' | 'unsupported_encoding' | 'invalid_encoding';

/**
 * Bytes of a refused body that are still read and thrown away. Many clients read the answer only after they have sent
 * everything; a connection closed under them would look like a network error and be tried again.
 */
const MOST_DRAINED = 4 * 1024 * 1024;

/** What gzip may add to text it cannot compress: a head, a tail, and 5 bytes for each block of 32 KB. */
const GZIP_OVERHEAD = 256;

/**
 * Collects the body of a request and inflates it. `done` is called once, at the latest when the body has ended; with a
 * refusal it may be called earlier, and the rest is thrown away. It is never called when the client goes away before the
 * end of the body.
 *
 * `limit` is in bytes of the inflated body, and bounds memory whatever arrives.
 */
export function readBody(
  request: IncomingMessage,
  limit: number,
  done: (body: Buffer | BodyRefusal) => void,
): void {
  const encoding = request.headers['content-encoding']?.trim().toLowerCase() ?? '';
  const gzip = encoding === 'gzip' || encoding === 'x-gzip';
  const plain = encoding === '' || encoding === 'identity';
  // NaN, and so never too large, when no length is announced.
  const contentLength = Number(request.headers['content-length']);
  const most = gzip ? limit + GZIP_OVERHEAD : limit;
  if (contentLength > most || !(gzip || plain)) {
    drain(request);
    done(contentLength > most ? 'too_large' : 'unsupported_encoding');
    return;
  }
  let first: Buffer | undefined;
  let more: Buffer[] | undefined;
  let size = 0;
  let refused = false;
  request.on('data', (chunk: Buffer) => {
    size += chunk.length;
    if (size > most) {
      if (size > MOST_DRAINED) request.destroy();
      if (refused) return;
      refused = true;
      first = undefined;
      more = undefined;
      done('too_large');
    } else if (first === undefined) first = chunk;
    else if (more === undefined) more = [first, chunk];
    else more.push(chunk);
  });
  request.on('end', () => {
    if (refused) return;
    const body = more === undefined ? (first ?? NOTHING) : Buffer.concat(more, size);
    done(gzip || isGzip(body) ? inflate(body, limit) : body);
  });
}

const NOTHING = Buffer.alloc(0);

/** Reads what a refused request still sends, up to a limit; beyond it the connection is closed. */
export function drain(request: IncomingMessage): void {
  let size = 0;
  request.on('data', (chunk: Buffer) => {
    size += chunk.length;
    if (size > MOST_DRAINED) request.destroy();
  });
}

/** JSON never begins with these two bytes, so gzip is recognised even where the header was forgotten. */
function isGzip(body: Buffer): boolean {
  return body[0] === 0x1f && body[1] === 0x8b;
}

/** Inflating at once costs a third less than on zlib's threads, and the limit keeps it below a few milliseconds. */
function inflate(body: Buffer, limit: number): Buffer | BodyRefusal {
  try {
    return gunzipSync(body, { maxOutputLength: limit });
  } catch (error) {
    const tooLarge = error instanceof Error && 'code' in error && error.code === 'ERR_BUFFER_TOO_LARGE';
    return tooLarge ? 'too_large' : 'invalid_encoding';
  }
}
