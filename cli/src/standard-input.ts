/** The file name that means standard input. */
export const STANDARD_INPUT = '-';

/** Reads the whole input. */
export async function bytesOf(input: AsyncIterable<Buffer | string>): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of input) parts.push(Buffer.from(part));
  return Buffer.concat(parts);
}

/** Reads a stream with the interface of a file. It can only be read from beginning to end. */
export class StreamReader {
  readonly #pieces: AsyncIterator<Buffer | string>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(input: AsyncIterable<Buffer | string>) {
    this.#pieces = input[Symbol.asyncIterator]();
  }

  /** Reads the next bytes, as `FileHandle.read` does. Returns 0 bytes at the end. */
  async read(
    buffer: Buffer,
    offset: number,
    length: number,
  ): Promise<{ readonly bytesRead: number; readonly buffer: Buffer }> {
    while (this.#rest.length === 0) {
      const next = await this.#pieces.next();
      if (next.done === true) return { bytesRead: 0, buffer };
      this.#rest = Buffer.from(next.value);
    }
    const bytesRead = this.#rest.copy(buffer, offset, 0, length);
    this.#rest = this.#rest.subarray(bytesRead);
    return { bytesRead, buffer };
  }
}
