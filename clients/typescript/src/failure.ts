/**
 * Codes whose name says it all: their sentences are made from them, because pages load every byte of this.
 */
type PlainCode =
  // Found out at the call: nothing was queued, and the call itself returns the failure.
  | 'unknown_type'
  | 'not_an_object'
  | 'unknown_field'
  | 'id_not_string'
  | 'id_too_long'
  | 'id_not_unicode'
  | 'user_id_missing'
  | 'previous_id_missing'
  | 'group_id_missing'
  | 'event_not_string'
  | 'name_not_string'
  | 'category_not_string'
  | 'properties_not_object'
  | 'traits_not_object'
  | 'context_not_object'
  | 'integrations_not_object'
  | 'invalid_message_id'
  | 'too_deeply_nested'
  | 'spool_failed'
  // Happens to a call that was accepted.
  | 'spool_damaged';

const SENTENCES = {
  // Found out at the call.
  no_user_anon_id: 'userId or anonymousId is required',
  event_not_defined: 'event is required',
  invalid_timestamp: 'timestamp is neither a Date nor ISO 8601',
  unencodable: 'a value has no JSON',
  message_too_large: 'the call is larger than 32,768 bytes of JSON',
  full: 'no room for another call',
  // Before the call was accepted, or to an accepted one.
  closed: 'the client is closed',
  // Happen to a call that was accepted.
  unreachable: 'the server cannot be reached',
  refused: 'the server refused it',
  gave_up: 'every try failed',
  dropped: 'newer calls needed its room',
  expired: 'it is too old to be sent again',
} as const;

/**
 * Why a call was not delivered: the names and their meaning are shared by all client libraries
 * (`spec/fixtures/client/README.md`), and by the server where it has the same rule (`spec/errors.json`).
 * Programs may rely on them.
 */
export type FailureCode = keyof typeof SENTENCES | PlainCode;

/** The failure of a call that this client will not deliver. A value, never thrown. */
export interface Failure {
  readonly code: FailureCode;
  /** One sentence for a log line. Contains neither the write key nor anything of the call. */
  readonly message: string;
  /** `false`: found out at the call, nothing was queued. `true`: the call had been accepted. */
  readonly accepted: boolean;
  /**
   * Whether the server may have stored it all the same, because an answer was lost on the way. The same
   * messageId sent again within 24 hours is recognised there and not delivered twice.
   */
  readonly uncertain: boolean;
  readonly messageId?: string;
  /** The call as it was (or would have been) sent: a program can keep it. Absent if it never became JSON. */
  readonly json?: string;
  /** HTTP status of the last answer, if there was one. */
  readonly status?: number;
  /** Requests made with it. */
  readonly tries?: number;
  /** The field an `unknown_field` is about. */
  readonly field?: string;
  /** The error thrown by `JSON.stringify`, by `fetch` or by the disk. */
  readonly cause?: unknown;
}

/** Facts beyond the code. */
export type Circumstances = Partial<Omit<Failure, 'code' | 'message'>> & { readonly said?: string };

/**
 * `said` is what the server answered, cut short, or why it did not; the rest stands in the failure as it is.
 */
export function failure(code: FailureCode, { said, ...known }: Circumstances = {}): Failure {
  const why = said ? `: ${said}` : '';
  const status = known.status === undefined ? why : ` (${known.status}${why})`;
  const field = known.field === undefined ? '' : `: ${known.field}`;
  const sentence =
    (SENTENCES as Record<string, string>)[code] ?? code.replace('_not_', ' is not: ').replaceAll('_', ' ');
  return { code, message: sentence + field + status, accepted: false, uncertain: false, ...known };
}
