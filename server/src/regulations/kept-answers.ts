import type { NotificationStatus } from '../model/regulation.ts';
import type { DeliveryHistories } from '../ports/delivery-queue.ts';
import type { Regulations, StoredRegulation } from '../ports/regulations.ts';
import type { IdRedactor } from './id-redactor.ts';

/** Receipts read at once. */
const RECEIPTS = 50;

export interface KeptAnswersDependencies {
  readonly history: Pick<DeliveryHistories, 'redactAnswers'>;
  readonly regulations: Pick<Regulations, 'list' | 'advance'>;
  readonly checkStop: () => void;
}

/**
 * Removes the ids of deleted users from answers of endpoints in the store, to whatever event they belong:
 * answers kept with failed requests, and answers in receipts of other regulations. The old texts are in no
 * file after the next `Regulations.scrub`.
 */
export async function redactKeptAnswers(
  { redact }: Pick<IdRedactor, 'redact'>,
  { history, regulations, checkStop }: KeptAnswersDependencies,
): Promise<void> {
  await history.redactAnswers(redact, checkStop);
  for (let below: number | undefined; ; ) {
    checkStop();
    const page: readonly StoredRegulation[] = await regulations.list(RECEIPTS, below);
    for (const { id, streamStatus } of page) {
      const without = streamStatus.map((stream) => withoutIds(stream, redact));
      if (without.some((stream, nth) => stream !== streamStatus[nth]))
        await regulations.advance(id, { streamStatus: without });
    }
    if (page.length === 0) return;
    below = page.at(-1)!.number;
  }
}

function withoutIds(stream: NotificationStatus, redact: (text: string) => string): NotificationStatus {
  const { answer } = stream;
  if (answer?.body === undefined) return stream;
  const body = redact(answer.body);
  return body === answer.body ? stream : { ...stream, answer: { ...answer, body } };
}
