import type { IncomingMessage } from 'node:http';
import { gunzipSync } from 'node:zlib';
import type { HttpExchange } from './exchange.ts';

/** Why there is no body. */
export type BodyError = 'too_large' | 'unsupported_encoding' | 'invalid_encoding';

/**
 * Bytes of a refused body that are still read and thrown away. Many clients read the answer only after they have sent
 * everything; a connection closed under them would look like a network error and be tried again.
 */
const MAX_DRAINED_BYTES = 4 * 1024 * 1024;

/**
 * A piece costs time however small it is, and a network cuts none of less than some hundred bytes. After so many pieces
 * with so few bytes each, somebody is at work who wants to cost time.
 */
const TINY_CHUNK_COUNT = 1000;
const TINY_CHUNK_BYTES = 16;

function isTinyChunks(pieces: number, bytes: number): boolean {
  return pieces > TINY_CHUNK_COUNT && bytes < pieces * TINY_CHUNK_BYTES;
}

/** What gzip may add to text it cannot compress: a head, a tail, and 5 bytes for each block of 32 KB. */
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
 * A body as its head announced it, and what has come of it so far. It never takes more than twice its bytes: a client that
 * sends half a megabyte in pieces of one byte would otherwise make half a million buffers.
 */
export class RequestBody {
  /** More bytes than this are too many before they are inflated. */
  readonly maxBytes: number;
  readonly #isGzip: boolean;
  /** NaN when no length is announced. */
  readonly #length: number;
  #bytes: Buffer = EMPTY;
  /** Whether `#bytes` is ours to write to; a single piece is kept as it came. */
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

  /** False when the body comes as dust. */
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

  /** As text, when all of it is here. */
  text(): string {
    return this.#bytes.toString('utf8', 0, this.#size);
  }

  /** As it is to be parsed, when all of it is here. `limit` bounds memory whatever arrived. */
  decode(limit: number): Buffer | BodyError {
    const body = this.#ownsBuffer ? this.#bytes.subarray(0, this.#size) : this.#bytes;
    return this.#isGzip || looksLikeGzip(body) ? inflate(body, limit) : body;
  }

  /** At once to what was announced when a good part of it is here; a promise alone is given no memory. */
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

/** What a refused request still sends; it is thrown away. */
export class DrainedBody {
  #size = 0;
  #chunks = 0;

  /** True when the connection had better be closed. */
  exceedsLimit(piece: Buffer): boolean {
    this.#size += piece.length;
    return this.#size > MAX_DRAINED_BYTES || isTinyChunks(++this.#chunks, this.#size);
  }
}

/** Reads what a refused request still sends, up to a limit; beyond it the connection is closed. */
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
