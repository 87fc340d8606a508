import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type catalogue from '../../../spec/errors.json';
import type { FailureReason } from '../ports/transport.ts';
import { ERRORS, entryOf, isErrorCode } from './errors.ts';

const groups: Record<string, Record<string, { status?: number; message: string; hint: string }>> = JSON.parse(
  readFileSync(new URL('../../../spec/errors.json', import.meta.url), 'utf8'),
);

test('every code stands in one group only, in snake case, with a message and a hint that are sentences', () => {
  const seen = new Set<string>();
  for (const group of Object.values(groups)) {
    for (const [code, { message, hint }] of Object.entries(group)) {
      expect(seen.has(code), code).toBe(false);
      seen.add(code);
      expect(code).toMatch(/^[a-z]+(_[a-z]+)*$/);
      expect(message, code).toMatch(/^[A-Z].*\.$/);
      expect(hint, code).toMatch(/^[A-Z0-9].*\.$/);
    }
  }
});

test('every answer to a request has a status that clients take as it is meant', () => {
  const passing = ['overloaded', 'rate_limited', 'storage_unavailable', 'request_timeout', 'internal_error'];
  for (const [code, { status }] of Object.entries(groups['request'] ?? {})) {
    expect(status, code).toBeDefined();
    const retried = status === 408 || status === 429 || (status ?? 0) >= 500;
    expect(retried, code).toBe(passing.includes(code));
    // Several clients retry 413. decisions.md section 1, "malformed JSON, body over the limit".
    expect(status).not.toBe(413);
  }
  for (const [code, { status }] of Object.entries(groups['discard'] ?? {})) {
    expect([400, undefined], code).toContain(status);
  }
});

test('every reason of the transport is an outcome of the catalogue', () => {
  // A reason that is missing in the catalogue does not compile.
  const reasons: Record<FailureReason, keyof typeof catalogue.outcome> = {
    timeout: 'timeout',
    name_not_resolved: 'name_not_resolved',
    connection_refused: 'connection_refused',
    connection_closed: 'connection_closed',
    connection_failed: 'connection_failed',
    certificate_untrusted: 'certificate_untrusted',
    protocol_error: 'protocol_error',
    egress_refused: 'egress_refused',
    invalid_request: 'invalid_request',
  };
  for (const [reason, code] of Object.entries(reasons)) {
    expect(code).toBe(reason);
    expect(groups['outcome']).toHaveProperty(code);
  }
});

test('codes of requests and discards are known, others are not', () => {
  expect(entryOf('invalid_write_key').status).toBe(401);
  expect(entryOf('no_user_anon_id').status).toBe(400);
  expect(isErrorCode('retry_window_over')).toBe(false);
  expect(isErrorCode('constructor')).toBe(false);
  expect(ERRORS.size).toBe(Object.keys(groups['request']!).length + Object.keys(groups['discard']!).length);
});
