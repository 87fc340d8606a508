import type { IncomingMessage } from 'node:http';
import { gunzipSync } from 'node:zlib';
import type { HttpExchange } from './exchange.ts';

/** Why there is no body. */
export type BodyError = 'too_large' | 'unsupported_encoding' | 'invalid_encoding';

/**
 * Bytes of a refused body that are still read and dropped. Many clients read the answer only after they have sent
 * everything; a connection closed under them would look like a network error and be tried again.
 */
const MAX_DRAINED_BYTES = 4 * 1024 * 1024;

/**
 * The limit on tiny chunks. Each chunk costs time, and networks do not deliver chunks of less than some hundred bytes. After
 * so many chunks with so few bytes each, the client is taken for an attacker.
 */
const TINY_CHUNK_COUNT = 1000;
const TINY_CHUNK_BYTES = 16;

function isTinyChunks(pieces: number, bytes: number): boolean {
  return pieces > TINY_CHUNK_COUNT && bytes < pieces * TINY_CHUNK_BYTES;
}

/** The bytes that gzip may add to incompressible text: a head, a tail, and 5 bytes for each block of 32 KB. */
const GZIP_OVERHEAD = 256;

type BodyHeaders = Pick<HttpExchange, 'contentLength' | 'contentEncoding'>;

/** Looks at the head of a request; `limit` is in bytes of the inflated body. */
export function createRequestBody(head: BodyHeaders, limit: number): RequestBody | BodyError {
  const encoding = head.contentEncoding?.trim().toLowerCase() ?? '';
  const isGzip = encoding === 'gzip' || encoding === 'x-gzip';
  const length = head.contentLength;
  const most = isGzip ? limit + GZIP_OVERHEAD : limit;
  if (length > most) return 'too_large';
  if (!isGzip && encoding !== '' && encoding !== 'identity') return 'unsupported_encoding';
  return new RequestBody(isGzip, length, most);
}

/**
 * A body as announced, and the bytes received so far. It uses at most twice its bytes of memory: a client that sends half
 * a megabyte in chunks of one byte would otherwise make half a million buffers.
 */
export class RequestBody {
  /** The most bytes as received, before they are inflated. */
  readonly maxBytes: number;
  readonly #isGzip: boolean;
  /** NaN when no length is announced. */
  readonly #length: number;
  #bytes: Buffer = EMPTY;
  /** Whether `#bytes` is our own buffer. A body of one chunk keeps the chunk itself, which must not be written to. */
  #ownsBuffer = false;
  #size = 0;
  #chunks = 0;

  constructor(isGzip: boolean, length: number, most: number) {
    this.#isGzip = isGzip;
    this.#length = length;
    this.maxBytes = most;
  }

  get size(): number {
    return this.#size;
  }

  /** Adds a chunk. False when the body arrives in too many tiny chunks. */
  append(piece: Buffer): boolean {
    const size = this.#size + piece.length;
    if (this.#size === 0) this.#bytes = piece;
    else {
      if (!this.#ownsBuffer || size > this.#bytes.length) this.#grow(size);
      piece.copy(this.#bytes, this.#size);
    }
    this.#size = size;
    return !isTinyChunks(++this.#chunks, size);
  }

  /** The complete body as text. */
  text(): string {
    return this.#bytes.toString('utf8', 0, this.#size);
  }

  /** The complete body, inflated, as it is parsed. `limit` bounds the memory of inflating. */
  decode(limit: number): Buffer | BodyError {
    const body = this.#ownsBuffer ? this.#bytes.subarray(0, this.#size) : this.#bytes;
    return this.#isGzip || looksLikeGzip(body) ? inflate(body, limit) : body;
  }

  /** Grows to Content-Length only after a good part of the body has arrived, so that a false header reserves no memory. */
  #grow(size: number): void {
    const length = this.#length;
    const room = length >= size && length <= size * 4 ? length : Math.min(size * 2, this.maxBytes);
    const larger = Buffer.allocUnsafeSlow(Math.max(room, size));
    this.#bytes.copy(larger, 0, 0, this.#size);
    this.#bytes = larger;
    this.#ownsBuffer = true;
  }
}

const EMPTY = Buffer.alloc(0);

/** The rest of a refused request. It is read and dropped. */
export class DrainedBody {
  #size = 0;
  #chunks = 0;

  /** True when the connection should be closed. */
  exceedsLimit(piece: Buffer): boolean {
    this.#size += piece.length;
    return this.#size > MAX_DRAINED_BYTES || isTinyChunks(++this.#chunks, this.#size);
  }
}

/** Reads and drops the rest of a refused request, up to a limit; beyond it the connection is closed. */
export function drainRequest(request: IncomingMessage): void {
  let waste: DrainedBody | undefined;
  request.on('data', (piece: Buffer) => {
    waste ??= new DrainedBody();
    if (waste.exceedsLimit(piece)) request.destroy();
  });
}

/** JSON never begins with these two bytes, so gzip is recognised even where the header was forgotten. */
function looksLikeGzip(body: Buffer): boolean {
  return body[0] === 0x1f && body[1] === 0x8b;
}

/** Inflating at once costs a third less than on zlib's threads, and the limit keeps it below a few milliseconds. */
function inflate(body: Buffer, limit: number): Buffer | BodyError {
  try {
    return gunzipSync(body, { maxOutputLength: limit });
  } catch (error) {
    const tooLarge = error instanceof Error && 'code' in error && error.code === 'ERR_BUFFER_TOO_LARGE';
    return tooLarge ? 'too_large' : 'invalid_encoding';
  }
}
