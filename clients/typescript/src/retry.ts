/** The meaning of an answer for the calls of its request. */
export type Verdict = 'delivered' | 'refused' | 'retry';

/** Requests made with one batch before it is given up (spec/specification.md, "Retries of a client"). */
export const MOST_TRIES = 10;

const FIRST_DELAY = 500;
const LONGEST_DELAY = 60_000;
/** A server that asks for more patience than this is asked again anyway. */
const LONGEST_RETRY_AFTER = 300_000;

/**
 * The retry contract (spec/specification.md, "Retries of a client"). Redirects are never followed: one answer
 * to a `POST` would otherwise be the start page of another site with status 200.
 */
export function verdictOf(status: number): Verdict {
  if (status >= 200 && status < 300) return 'delivered';
  if (status === 408 || status === 429) return 'retry';
  return status >= 500 && status !== 501 && status !== 505 ? 'retry' : 'refused';
}

/**
 * Milliseconds until the next try after `failures` of them: 0.5 s × 2ⁿ up to 60 s, of which a random half is
 * taken off so that the clients of a server that comes back do not all come at once.
 */
export function backoff(failures: number, random: () => number): number {
  const delay = Math.min(LONGEST_DELAY, FIRST_DELAY * 2 ** (failures - 1));
  return delay * (1 - random() / 2);
}

/**
 * The delay of a `Retry-After` header in milliseconds, up to 300 s: whole seconds, or a date. A date is
 * compared with the server's own clock, which is the `Date` header of the same answer: the client's may be
 * wrong.
 */
export function readRetryAfter(header: string | null, serverDate: string | null, now: number): number {
  if (header === null) return 0;
  const text = header.trim();
  const clock = Date.parse(serverDate ?? '');
  const asked = /^\d+$/.test(text)
    ? Number(text) * 1000
    : Date.parse(text) - (Number.isNaN(clock) ? now : clock);
  return asked > 0 ? Math.min(asked, LONGEST_RETRY_AFTER) : 0;
}

/** Up to a tenth more than asked for, never less: a whole herd was told the same number. */
export function spread(asked: number, random: () => number): number {
  return asked * (1 + random() / 10);
}
