/** Longest answer in bytes, inflated. The longest real ones, pages of 500 events, have some 17 MB. */
const MOST_BYTES = 32 * 1024 ** 2;

/** Most objects and lists in an answer: they take ten times as much memory as their text. */
const MOST_OBJECTS = 1_000_000;

const BRACE = '{'.charCodeAt(0);
const BRACKET = '['.charCodeAt(0);
const QUOTE = '"'.charCodeAt(0);
const BACKSLASH = '\\'.charCodeAt(0);

/** Thrown for an answer that would fill the memory of this program. */
export class LongAnswerError extends Error {}

/**
 * Reads an answer to its end. Rejects with a `LongAnswerError` for one that is too long, and reads no more of
 * it.
 */
export async function answerText({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  const objects = new ObjectCount();
  for await (const chunk of body ?? []) {
    bytes += chunk.length;
    objects.add(chunk);
    if (bytes > MOST_BYTES) throw new LongAnswerError(`an answer of more than ${MOST_BYTES / 1024 ** 2} MB`);
    if (objects.n > MOST_OBJECTS) throw new LongAnswerError('an answer of more than a million objects');
    chunks.push(chunk);
  }
  return new TextDecoder().decode(Buffer.concat(chunks));
}

/** Counts the objects and lists of a JSON text that comes in pieces. Braces inside strings do not count. */
class ObjectCount {
  n = 0;
  #isInString = false;
  #isEscaped = false;

  add(chunk: Uint8Array): void {
    for (const byte of chunk) {
      if (this.#isEscaped) this.#isEscaped = false;
      else if (byte === QUOTE) this.#isInString = !this.#isInString;
      else if (this.#isInString) this.#isEscaped = byte === BACKSLASH;
      else if (byte === BRACE || byte === BRACKET) this.n++;
    }
  }
}
