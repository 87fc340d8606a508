/** Rows of failed requests that one slice reads, and the characters of answers at which it ends. */
export const ANSWER_ROWS = 512;
const ANSWER_CHARACTERS = 128 * 1024;

/**
 * Texts that others wrote about deliveries: answers of endpoints beside failed requests, and notes about
 * dropped deliveries.
 */
export const KEPT_TEXTS = ['answer', 'note'] as const;
export type KeptText = (typeof KEPT_TEXTS)[number];

/** A kept text. `id` is the row's. */
export interface KeptAnswer {
  readonly id: number;
  readonly answer: string;
}

export interface ChangedAnswer extends KeptAnswer {
  /** The answer that it replaces. */
  readonly was: string;
}

export interface AnswerPage {
  readonly answers: readonly KeptAnswer[];
  /** Go on behind this row; absent at the end. */
  readonly next?: number;
}

/** A page of rows in the order of their ids, at most `ANSWER_ROWS`. An answer may be absent. */
export function answerPage(
  rows: Iterable<{ readonly id: number; readonly answer: string | null }>,
): AnswerPage {
  const answers: KeptAnswer[] = [];
  let [characters, seen] = [0, 0];
  for (const { id, answer } of rows) {
    if (answer !== null) answers.push({ id, answer });
    characters += answer?.length ?? 0;
    if (++seen >= ANSWER_ROWS || characters >= ANSWER_CHARACTERS) return { answers, next: id };
  }
  return { answers };
}

interface AnswerSlices {
  readonly redact: (answer: string) => string;
  readonly onSlice?: (() => void) | undefined;
  readonly page: (text: KeptText, after: number) => Promise<AnswerPage>;
  readonly put: (text: KeptText, changed: readonly ChangedAnswer[]) => Promise<unknown>;
}

/**
 * See `DeliveryHistories.redactAnswers`. It runs on the main thread: the writer does other work between
 * slices.
 */
export async function redactInSlices(slices: AnswerSlices): Promise<number> {
  let redacted = 0;
  for (const text of KEPT_TEXTS) redacted += await redactAll(text, slices);
  return redacted;
}

async function redactAll(text: KeptText, { redact, onSlice, page, put }: AnswerSlices): Promise<number> {
  let redacted = 0;
  for (let after: number | undefined = 0; after !== undefined; ) {
    onSlice?.();
    const { answers, next }: AnswerPage = await page(text, after);
    const changed: ChangedAnswer[] = [];
    for (const { id, answer } of answers) {
      const without = redact(answer);
      if (without !== answer) changed.push({ id, answer: without, was: answer });
    }
    if (changed.length > 0) await put(text, changed);
    redacted += changed.length;
    after = next;
  }
  return redacted;
}
