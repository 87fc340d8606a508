import { expect, test } from 'vitest';
import { certificateFailure, failureOf, HttpClientError } from './errors.ts';

function coded(code: string, message = 'it broke'): Error {
  return Object.assign(new Error(message), { code });
}

test.each<[Error, string, string]>([
  [coded('ECONNREFUSED'), 'connection_refused', 'it broke (ECONNREFUSED)'],
  [coded('ECONNRESET', 'read ECONNRESET'), 'connection_closed', 'read ECONNRESET'],
  [coded('EPIPE'), 'connection_closed', 'it broke (EPIPE)'],
  [coded('ETIMEDOUT'), 'timeout', 'it broke (ETIMEDOUT)'],
  [coded('EHOSTUNREACH'), 'connection_failed', 'it broke (EHOSTUNREACH)'],
  [coded('ENETUNREACH'), 'connection_failed', 'it broke (ENETUNREACH)'],
  [coded('EMFILE'), 'connection_failed', 'it broke (EMFILE)'],
  [new TypeError(''), 'connection_failed', 'TypeError'],
  [new HttpClientError('egress_refused', 'not there'), 'egress_refused', 'not there'],
  [
    new AggregateError([coded('ETIMEDOUT'), coded('ECONNREFUSED')], 'all failed'),
    'connection_refused',
    'it broke (ECONNREFUSED)',
  ],
])('%s is %s', (error, reason, detail) => {
  expect(failureOf(error)).toEqual({ reason, detail });
});

test.each([
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'self-signed certificate (DEPTH_ZERO_SELF_SIGNED_CERT)'],
  ['CERT_REVOKED', 'it broke (CERT_REVOKED)'],
])('a certificate with %s is untrusted whatever the code', (code, detail) => {
  expect(failureOf(certificateFailure(coded(code)))).toEqual({ reason: 'certificate_untrusted', detail });
});
