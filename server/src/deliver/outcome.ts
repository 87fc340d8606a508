import type { Outcome } from '../model/delivery.ts';
import { type Duration, HOUR, SECOND, type Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
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
export function outcomeOf(answer: Answer, clock: Pick<Clock, 'now' | 'monotonic'>): Outcome {
  if (answer.kind === 'failed') {
    return { kind: REFUSED.has(answer.reason) ? 'refused' : 'retryable', reason: answer.reason };
  }
  const { status } = answer;
  const reason = `status_${status}`;
  if (status >= 200 && status < 300) return { kind: 'accepted', reason, status };
  if (!isWorthAnotherTry(status)) return { kind: 'refused', reason, status };
  if (answer.retryAfter === undefined) return { kind: 'retryable', reason, status };
  const wait = retryAfter(answer.retryAfter, clock.now());
  const wish = wait === undefined ? {} : { notBefore: clock.monotonic() + wait };
  return { kind: 'retryable', reason, status, ...wish };
}

function isWorthAnotherTry(status: number): boolean {
  return status === 408 || status === 429 || (status >= 500 && status <= 599);
}

/** How long to wait by `Retry-After`, as seconds or as a date (RFC 9110 section 10.2.3); what is neither says nothing. */
export function retryAfter(header: string, now: Time): Duration | undefined {
  const value = header.trim();
  const date = dateOf(value);
  const wait = /^\d+$/.test(value) ? Number(value) * SECOND : date === undefined ? 0 : date - now;
  return wait <= 0 ? undefined : Math.min(wait, LONGEST_WISH);
}

/** Every date form of HTTP begins with the name of a day; without this check `Date.parse` takes almost anything. */
function dateOf(value: string): Time | undefined {
  const time = /^[A-Z][a-z]{2,8},? /.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(time) ? undefined : time;
}
