/** Bytes of an answer at most, inflated. The longest answers, pages of 500 events, have some 17 MB. */
const MOST_BYTES = 32 * 1024 ** 2;

/** A server that sends more would fill the memory of whoever asks it. */
export class LongAnswerError extends Error {
  constructor() {
    super(`an answer of more than ${MOST_BYTES / 1024 ** 2} MB`);
  }
}

/** Reads an answer to its end. Rejects with a `LongAnswerError` for one that is too long, and reads no more of it. */
export async function answerText({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ?? []) {
    bytes += chunk.length;
    if (bytes > MOST_BYTES) throw new LongAnswerError();
    chunks.push(chunk);
  }
  return new TextDecoder().decode(Buffer.concat(chunks));
}
