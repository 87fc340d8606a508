import type { Activity } from '@millrace/server';
import { atMost, column, latency, printable, remaining, secondOfDay, timeOfDay } from './column.ts';
import type { Paint } from './paint.ts';
import type { SignatureVerdict } from './signature.ts';

type Whole = Extract<Activity, { kind: 'settled' }>;
type Event = Pick<
  Whole['event'],
  'type' | 'event' | 'name' | 'groupId' | 'previousId' | 'userId' | 'anonymousId'
>;
type Attempt = Pick<Whole['attempts'][number], 'latencyMs' | 'outcome'>;
type Decision =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'retry'; readonly at: number }
  | { readonly kind: 'dropped'; readonly reason: string; readonly note?: string | undefined }
  | { readonly kind: 'dead'; readonly reason: string };

/** The fields of an activity that a line shows. */
export type Shown =
  | { readonly kind: 'accepted' | 'duplicate'; readonly event: Event; readonly latencyMs: number }
  | { readonly kind: 'discarded'; readonly source?: string | undefined; readonly reason: string }
  | Settled;

interface Settled {
  readonly kind: 'settled';
  readonly destination: string;
  readonly event: Event;
  readonly attempts: readonly Attempt[];
  readonly decision: Decision;
}

/** Column widths: a healthy delivery fits in 100 columns. */
const TYPE = 10;
const NAME = 22;
const USER = 14;
const DESTINATION = 16;
const REASON = 120;

export interface LineOptions {
  readonly now: number;
  readonly paint: Paint;
  /** The local receiver's verdict on the signature. Absent for other endpoints. */
  readonly signature?: SignatureVerdict | undefined;
}

/**
 * One activity as one line: time, type, name, user, and the result.
 *
 * ```
 * 10:23:45.123  track       Order Placed            u1              accepted in 3 ms
 * 10:23:45.131  → track     Order Placed            u1              local-receiver    200 verified ✓ in 6 ms
 * 10:23:45.131  ↻ track     Order Placed            u1              local-receiver    503 in 6 ms, again in 2 s (10:23:47)
 * 10:23:45.131  ✗ track     Order Placed            u1              local-receiver    410 in 6 ms, dead letter: status_410
 * 10:23:45.131  ∅ track     Order Placed            u1              local-receiver    not sent, dropped: not_applicable
 * 10:23:45.131  –           discarded               dev             invalid_user_id
 * ```
 */
export function happeningLine(happening: Shown, options: LineOptions): string {
  const { now, paint } = options;
  const time = paint.dim(timeOfDay(now));
  switch (happening.kind) {
    case 'accepted':
      return `${time}  ${subject('', happening.event)}  ${accepted(happening.latencyMs, paint)}`;
    case 'duplicate':
      return `${time}  ${subject('', happening.event)}  ${paint.yellow('duplicate, not delivered again')}`;
    case 'discarded': {
      const what = `${column('–', TYPE)}  ${column('discarded', NAME)}  ${column(happening.source ?? '–', USER)}`;
      return `${time}  ${what}  ${paint.red(atMost(happening.reason, REASON))}`;
    }
    case 'settled':
      return `${time}  ${settled(happening, options)}`;
  }
}

/** True for activities that a person must not miss: a failed attempt, or a call that was not accepted. */
export function isFailure(happening: Activity): boolean {
  if (happening.kind === 'settled') return ['retry', 'dead'].includes(happening.decision.kind);
  return happening.kind === 'discarded';
}

function settled(happening: Settled, options: LineOptions): string {
  const { decision, event } = happening;
  const { paint } = options;
  const destination = column(happening.destination, DESTINATION);
  const round = roundOf(happening, options);
  switch (decision.kind) {
    case 'delivered':
      return `${paint.green(subject('→', event))}  ${destination}  ${round}`;
    case 'retry': {
      const next = `again ${remaining(decision.at - options.now)} (${secondOfDay(decision.at)})`;
      return `${paint.yellow(subject('↻', event))}  ${destination}  ${round}, ${next}`;
    }
    case 'dropped': {
      const why = [decision.reason, decision.note].filter((one) => one !== undefined).join(': ');
      return `${paint.dim(subject('∅', event))}  ${destination}  ${round}, dropped: ${printable(why)}`;
    }
    case 'dead': {
      const reason = printable(decision.reason);
      return `${paint.red(subject('✗', event))}  ${destination}  ${round}, ${paint.red(`dead letter: ${reason}`)}`;
    }
  }
}

function accepted(latencyMs: number, paint: Paint): string {
  return `accepted ${paint.dim(`in ${latency(latencyMs)}`)}`;
}

/** The answers of the endpoints and the longest latency. Without numbers when no request was sent. */
function roundOf(happening: Settled, options: LineOptions): string {
  if (happening.attempts.length === 0) return 'not sent';
  const answers = happening.attempts.map(answerOf).join(', ');
  const longest = happening.attempts.reduce((most, attempt) => Math.max(most, attempt.latencyMs), 0);
  const signature = options.signature ? ` ${signatureMark(options.signature, options.paint)}` : '';
  return `${answers}${signature} ${options.paint.dim(`in ${latency(longest)}`)}`;
}

/** The status or the reason, such as `503` or `timeout`. Both only where the reason adds to the status. */
function answerOf(attempt: Attempt): string {
  const { kind, status, reason } = attempt.outcome;
  if (status === undefined) return printable(reason);
  return kind === 'accepted' || reason === `status_${status}`
    ? String(status)
    : `${status} ${printable(reason)}`;
}

export function signatureMark(verdict: SignatureVerdict, paint: Paint): string {
  switch (verdict) {
    case 'verified':
      return paint.green('verified ✓');
    case 'wrong':
      return paint.red('wrong signature ✗');
    case 'unsigned':
      return paint.yellow('not signed –');
    case 'unchecked':
      return paint.dim('signed, not checked –');
  }
}

function subject(mark: string, event: Event): string {
  const type = mark === '' ? event.type : `${mark} ${event.type}`;
  return `${column(type, TYPE)}  ${column(nameOf(event), NAME)}  ${column(userOf(event), USER)}`;
}

function nameOf(event: Event): string {
  const name = event.event ?? event.name ?? event.groupId;
  return name ?? (event.previousId === undefined ? '–' : `was ${event.previousId}`);
}

function userOf(event: Event): string {
  return event.userId ?? event.anonymousId ?? '–';
}
