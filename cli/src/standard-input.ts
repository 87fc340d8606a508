/** What stands for standard input where a file may be named. */
export const STANDARD_INPUT = '-';

/** All of it, as text in UTF-8. */
export async function textOf(input: AsyncIterable<Buffer | string>): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of input) parts.push(Buffer.from(part));
  return Buffer.concat(parts).toString('utf8');
}

/** Reads a stream piece by piece as a file is read; it can only be read from its beginning to its end. */
export class StreamReader {
  readonly #pieces: AsyncIterator<Buffer | string>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(input: AsyncIterable<Buffer | string>) {
    this.#pieces = input[Symbol.asyncIterator]();
  }

  /** As `FileHandle.read` of the next bytes; 0 bytes at the end. */
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
