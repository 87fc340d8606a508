import type { IncomingMessage } from 'node:http';
import { gunzipSync } from 'node:zlib';
import type { CallExchange } from './call-exchange.ts';

/** Why there is no body. */
export type BodyRefusal = 'too_large' | 'unsupported_encoding' | 'invalid_encoding';

/**
 * Bytes of a refused body that are still read and thrown away. Many clients read the answer only after they have sent
 * everything; a connection closed under them would look like a network error and be tried again.
 */
const MOST_DRAINED = 4 * 1024 * 1024;

/**
 * A piece costs time however small it is, and a network cuts none of less than some hundred bytes. After so many pieces
 * with so few bytes each, somebody is at work who wants to cost time.
 */
const MANY_PIECES = 1000;
const DUST_BYTES = 16;

function isDust(pieces: number, bytes: number): boolean {
  return pieces > MANY_PIECES && bytes < pieces * DUST_BYTES;
}

/** What gzip may add to text it cannot compress: a head, a tail, and 5 bytes for each block of 32 KB. */
const GZIP_OVERHEAD = 256;

type Announcement = Pick<CallExchange, 'contentLength' | 'contentEncoding'>;

/** Looks at the head of a request; `limit` is in bytes of the inflated body. */
export function announcedBy(head: Announcement, limit: number): Body | BodyRefusal {
  const encoding = head.contentEncoding?.trim().toLowerCase() ?? '';
  const isGzip = encoding === 'gzip' || encoding === 'x-gzip';
  const length = head.contentLength;
  const most = isGzip ? limit + GZIP_OVERHEAD : limit;
  if (length > most) return 'too_large';
  if (!isGzip && encoding !== '' && encoding !== 'identity') return 'unsupported_encoding';
  return new Body(isGzip, length, most);
}

/**
 * A body as its head announced it, and what has come of it so far. It never takes more than twice its bytes: a client that
 * sends half a megabyte in pieces of one byte would otherwise make half a million buffers.
 */
export class Body {
  /** More bytes than this are too many before they are inflated. */
  readonly most: number;
  readonly #isGzip: boolean;
  /** NaN when no length is announced. */
  readonly #length: number;
  #bytes: Buffer = NOTHING;
  /** Whether `#bytes` is ours to write to; a single piece is kept as it came. */
  #isOwn = false;
  #size = 0;
  #pieces = 0;

  constructor(isGzip: boolean, length: number, most: number) {
    this.#isGzip = isGzip;
    this.#length = length;
    this.most = most;
  }

  get size(): number {
    return this.#size;
  }

  /** False when the body comes as dust. */
  add(piece: Buffer): boolean {
    const size = this.#size + piece.length;
    if (this.#size === 0) this.#bytes = piece;
    else {
      if (!this.#isOwn || size > this.#bytes.length) this.#enlarge(size);
      piece.copy(this.#bytes, this.#size);
    }
    this.#size = size;
    return !isDust(++this.#pieces, size);
  }

  /** As text, when all of it is here. */
  text(): string {
    return this.#bytes.toString('utf8', 0, this.#size);
  }

  /** As it is to be parsed, when all of it is here. `limit` bounds memory whatever arrived. */
  inflated(limit: number): Buffer | BodyRefusal {
    const body = this.#isOwn ? this.#bytes.subarray(0, this.#size) : this.#bytes;
    return this.#isGzip || looksLikeGzip(body) ? inflate(body, limit) : body;
  }

  /** At once to what was announced when a good part of it is here; a promise alone is given no memory. */
  #enlarge(size: number): void {
    const length = this.#length;
    const room = length >= size && length <= size * 4 ? length : Math.min(size * 2, this.most);
    const larger = Buffer.allocUnsafeSlow(Math.max(room, size));
    this.#bytes.copy(larger, 0, 0, this.#size);
    this.#bytes = larger;
    this.#isOwn = true;
  }
}

const NOTHING = Buffer.alloc(0);

/** What a refused request still sends; it is thrown away. */
export class Waste {
  #size = 0;
  #pieces = 0;

  /** True when the connection had better be closed. */
  isTooMuch(piece: Buffer): boolean {
    this.#size += piece.length;
    return this.#size > MOST_DRAINED || isDust(++this.#pieces, this.#size);
  }
}

/** Reads what a refused request still sends, up to a limit; beyond it the connection is closed. */
export function drain(request: IncomingMessage): void {
  let waste: Waste | undefined;
  request.on('data', (piece: Buffer) => {
    waste ??= new Waste();
    if (waste.isTooMuch(piece)) request.destroy();
  });
}

/** JSON never begins with these two bytes, so gzip is recognised even where the header was forgotten. */
function looksLikeGzip(body: Buffer): boolean {
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
