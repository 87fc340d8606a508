import type { Outcome } from '../model/delivery.ts';
import { type Duration, HOUR, SECOND, type Time } from '../model/time.ts';
import type { Answer, FailureReason } from '../ports/transport.ts';

/** A wish to wait longer than this cannot be met inside the retry window anyway; it also keeps absurd dates small. */
const LONGEST_WISH: Duration = 4 * HOUR;

/** Network failures that no later try can mend: what the operator wrote is wrong or forbidden. */
const REFUSED: ReadonlySet<FailureReason> = new Set(['egress_refused', 'invalid_request']);

/**
 * What an answer means. Any 2xx is success; a redirect is not followed and counts as a refusal, like every other status
 * that is neither 408, 429 nor 5xx. No answer, broken connections, unresolved names and untrusted certificates may all
 * be better later. decisions.md section 2, "success", "retried", "not retried".
 */
export function outcomeOf(answer: Answer, now: Time): Outcome {
  if (answer.kind === 'failed') {
    return { kind: REFUSED.has(answer.reason) ? 'refused' : 'retryable', reason: answer.reason };
  }
  const { status } = answer;
  const reason = `status_${status}`;
  if (status >= 200 && status < 300) return { kind: 'accepted', reason, status };
  if (!isWorthAnotherTry(status)) return { kind: 'refused', reason, status };
  const notBefore = retryAfter(answer.retryAfter, now);
  return { kind: 'retryable', reason, status, ...(notBefore === undefined ? {} : { notBefore }) };
}

function isWorthAnotherTry(status: number): boolean {
  return status === 408 || status === 429 || (status >= 500 && status <= 599);
}

/** `Retry-After` as seconds or as a date (RFC 9110 section 10.2.3); what is neither says nothing. */
export function retryAfter(header: string | undefined, now: Time): Time | undefined {
  if (header === undefined) return undefined;
  const value = header.trim();
  const at = /^\d+$/.test(value) ? now + Number(value) * SECOND : dateOf(value);
  if (at === undefined || at <= now) return undefined;
  return Math.min(at, now + LONGEST_WISH);
}

/** Every date form of HTTP begins with the name of a day; without this check `Date.parse` takes almost anything. */
function dateOf(value: string): Time | undefined {
  const time = /^[A-Z][a-z]{2,8},? /.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(time) ? undefined : time;
}
