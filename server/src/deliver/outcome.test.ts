import { describe, expect, it } from 'vitest';
import { HOUR, SECOND } from '../model/time.ts';
import type { FailureReason } from '../ports/transport.ts';
import { outcomeOf, retryAfter } from './outcome.ts';

const NOW = Date.parse('2026-03-04T05:06:07.000Z');
const CLOCK = { now: () => NOW, monotonic: () => 1000 };
const answered = (status: number, header?: string) =>
  outcomeOf(
    {
      kind: 'answered',
      status,
      body: '',
      latencyMs: 1,
      ...(header === undefined ? {} : { retryAfter: header }),
    },
    CLOCK,
  );

describe('outcomeOf', () => {
  it.each([200, 201, 202, 204, 299])('takes status %i as success', (status) => {
    expect(answered(status)).toEqual({ kind: 'accepted', reason: `status_${status}`, status });
  });

  it.each([408, 429, 500, 501, 502, 503, 504, 505, 599])('takes status %i as worth another try', (status) => {
    expect(answered(status)).toEqual({ kind: 'retryable', reason: `status_${status}`, status });
  });

  it.each([300, 301, 302, 304, 307, 308, 400, 401, 403, 404, 405, 410, 413, 422, 451, 600, 999])(
    'takes status %i as a refusal',
    (status) => {
      expect(answered(status).kind).toBe('refused');
    },
  );

  it.each<[FailureReason, string]>([
    ['timeout', 'retryable'],
    ['name_not_resolved', 'retryable'],
    ['connection_refused', 'retryable'],
    ['connection_closed', 'retryable'],
    ['connection_failed', 'retryable'],
    ['certificate_untrusted', 'retryable'],
    ['protocol_error', 'retryable'],
    ['egress_refused', 'refused'],
    ['invalid_request', 'refused'],
  ])('takes the failure %s as %s', (reason, kind) => {
    expect(outcomeOf({ kind: 'failed', reason, detail: '', latencyMs: 1 }, CLOCK)).toEqual({ kind, reason });
  });

  it('reads Retry-After only where another try is made', () => {
    expect(answered(503, '7')).toMatchObject({ notBefore: 1000 + 7 * SECOND });
    expect(answered(400, '7')).not.toHaveProperty('notBefore');
  });
});

describe('retryAfter', () => {
  it.each([
    ['120', 120 * SECOND],
    [' 3 ', 3 * SECOND],
    ['Wed, 04 Mar 2026 05:07:07 GMT', 60 * SECOND],
    ['999999999', 4 * HOUR],
    ['0', undefined],
    ['-5', undefined],
    ['1.5', undefined],
    ['soon', undefined],
    ['', undefined],
    ['2026', 2026 * SECOND],
    ['Wed, 04 Mar 2026 05:06:00 GMT', undefined],
    ['March 4', undefined],
  ])('reads %j as %j', (header, wait) => {
    expect(retryAfter(header, NOW)).toBe(wait);
  });
});
