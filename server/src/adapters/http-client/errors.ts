import type { FailureReason } from '../../ports/http-client.ts';

/** Why there is no answer: a reason for the retry policy, and a sentence for the operator. */
export interface RequestFailure {
  readonly reason: FailureReason;
  readonly detail: string;
}

/** A failure whose reason is known, for interfaces that pass on an `Error`. */
export class HttpClientError extends Error {
  readonly reason: FailureReason;

  constructor(reason: FailureReason, detail: string, options?: ErrorOptions) {
    super(detail, options);
    this.name = 'TransportError';
    this.reason = reason;
  }
}

/** The failure of a request that must not be sent as it is. */
export function invalidRequest(detail: string): RequestFailure {
  return { reason: 'invalid_request', detail };
}

const REASONS: ReadonlyMap<string, FailureReason> = new Map([
  ['ECONNREFUSED', 'connection_refused'],
  ['ECONNRESET', 'connection_closed'],
  ['ECONNABORTED', 'connection_closed'],
  ['EPIPE', 'connection_closed'],
  // The system stopped waiting for the connection, or for an acknowledgement, before our own time limit.
  ['ETIMEDOUT', 'timeout'],
]);

/** Certificate errors in plain words. Others keep the message of the TLS library. */
const CERTIFICATE_ERRORS: ReadonlyMap<string, string> = new Map([
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'self-signed certificate'],
  ['SELF_SIGNED_CERT_IN_CHAIN', 'certificate from an authority that is not trusted'],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'certificate from an unknown authority, or an incomplete chain'],
  ['UNABLE_TO_GET_ISSUER_CERT', 'certificate from an unknown authority, or an incomplete chain'],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'certificate from an unknown authority, or an incomplete chain'],
  ['CERT_HAS_EXPIRED', 'certificate has expired'],
  ['CERT_NOT_YET_VALID', 'certificate is not valid yet'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'certificate is for another host'],
]);

/** Classifies an error of `net` or `tls`. An unknown one counts as `connection_failed`, which is retried. */
export function failureOf(error: Error): RequestFailure {
  if (error instanceof HttpClientError) return { reason: error.reason, detail: error.message };
  // Several addresses were tried. The last one had the most time.
  const last: unknown = error instanceof AggregateError ? error.errors.at(-1) : undefined;
  if (last instanceof Error) return failureOf(last);
  const code = codeOf(error);
  const detail = withCode(error.message || error.name, code);
  return { reason: REASONS.get(code) ?? 'connection_failed', detail };
}

/** The failure of a handshake that ended because the certificate was not trusted. */
export function certificateFailure(error: Error): HttpClientError {
  const code = codeOf(error);
  const detail = withCode(CERTIFICATE_ERRORS.get(code) ?? error.message, code);
  return new HttpClientError('certificate_untrusted', detail, { cause: error });
}

function codeOf(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : '';
}

function withCode(text: string, code: string): string {
  return code === '' || text.includes(code) ? text : `${text} (${code})`;
}
