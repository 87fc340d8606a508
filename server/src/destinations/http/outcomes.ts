import { isFinal, isRetryableStatus, type Outcome } from '../../model/delivery.ts';
import { SecretRedactor, signaturesIn } from '../../model/secret-redactor.ts';
import { type Duration, HOUR, SECOND, type Time } from '../../model/time.ts';
import type { Clock } from '../../ports/clock.ts';
import type { AnsweredOutcome } from '../../ports/destination-type.ts';
import type { HttpResult, OutboundRequest } from '../../ports/http-client.ts';

/**
 * The outcome of an event that a request carried. An answer that may be shown loses the secrets that its
 * receiver knows: an endpoint that answers with its request would show them to whoever reads.
 */
export function deliveryOutcomeOf(
  received: HttpResult,
  { headers }: Pick<OutboundRequest, 'headers'>,
  known: () => SecretRedactor,
  clock: Pick<Clock, 'now' | 'monotonic'>,
): AnsweredOutcome {
  const { latencyMs } = received;
  const outcome = outcomeOf(received, clock);
  const said = received.kind === 'answered' ? received.body : received.detail;
  if (outcome.kind === 'accepted' || said === '') return { outcome, answer: said, latencyMs };
  const signatures = new SecretRedactor(signaturesIn(headers));
  return { outcome, answer: signatures.redact(known().redact(said)), latencyMs };
}

/** Longer wishes cannot be met within the retry window anyway. The limit also keeps absurd dates small. */
const MAX_RETRY_AFTER: Duration = 4 * HOUR;

/**
 * Classifies an answer. Every 2xx is accepted. 408, 429, 5xx, a missing answer, a broken connection, an
 * unresolved name and an untrusted certificate are retryable. Every other status is refused, also a redirect,
 * which is not followed. spec/specification.md, "Outcomes".
 */
export function outcomeOf(answer: HttpResult, clock: Pick<Clock, 'now' | 'monotonic'>): Outcome {
  if (answer.kind === 'failed')
    return { kind: isFinal(answer) ? 'refused' : 'retryable', reason: answer.reason };
  const { status } = answer;
  const reason = `status_${status}`;
  if (status >= 200 && status < 300) return { kind: 'accepted', reason, status };
  if (!isRetryableStatus(status)) return { kind: 'refused', reason, status };
  if (answer.retryAfter === undefined) return { kind: 'retryable', reason, status };
  const wait = parseRetryAfter(answer.retryAfter, clock.now());
  const wish = wait === undefined ? {} : { notBefore: clock.monotonic() + wait };
  return { kind: 'retryable', reason, status, ...wish };
}

/**
 * The delay that `Retry-After` asks for, as seconds or a date (RFC 9110 section 10.2.3); absent for anything
 * else.
 */
export function parseRetryAfter(header: string, now: Time): Duration | undefined {
  const value = header.trim();
  const date = parseHttpDate(value);
  const wait = /^\d+$/.test(value) ? Number(value) * SECOND : date === undefined ? 0 : date - now;
  return wait <= 0 ? undefined : Math.min(wait, MAX_RETRY_AFTER);
}

/** HTTP dates begin with the name of a day. Without this check `Date.parse` takes almost anything. */
function parseHttpDate(value: string): Time | undefined {
  const time = /^[A-Z][a-z]{2,8},? /.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(time) ? undefined : time;
}
