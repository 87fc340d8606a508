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
  | { readonly kind: 'dead'; readonly reason: string };

/** As much of a happening as a line shows. */
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

/** Widths chosen so that a healthy delivery fits in 100 columns. */
const TYPE = 10;
const NAME = 22;
const USER = 14;
const DESTINATION = 16;
const REASON = 120;

export interface LineOptions {
  readonly now: number;
  readonly paint: Paint;
  /** What the local receiver made of the signature, where it is the one that was sent to. */
  readonly signature?: SignatureVerdict;
}

/**
 * One happening as one line: time, type, name, user, and what became of it.
 *
 * ```
 * 10:23:45.123  track       Order Placed            u1              accepted in 3 ms
 * 10:23:45.131  → track     Order Placed            u1              local-receiver    200 verified ✓ in 6 ms
 * 10:23:45.131  ↻ track     Order Placed            u1              local-receiver    503 in 6 ms, again in 2 s (10:23:47)
 * 10:23:45.131  ✗ track     Order Placed            u1              local-receiver    410 in 6 ms, dead letter: status_410
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

/** Whether a happening is what somebody watching must not miss: a try that failed, or a call that was not taken. */
export function isFailure(happening: Activity): boolean {
  if (happening.kind === 'settled') return happening.decision.kind !== 'delivered';
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
    case 'dead': {
      const reason = printable(decision.reason);
      return `${paint.red(subject('✗', event))}  ${destination}  ${round}, ${paint.red(`dead letter: ${reason}`)}`;
    }
  }
}

function accepted(latencyMs: number, paint: Paint): string {
  return `accepted ${paint.dim(`in ${latency(latencyMs)}`)}`;
}

/** What the endpoints answered and how long the longest of them took; empty of numbers when nothing was sent. */
function roundOf(happening: Settled, options: LineOptions): string {
  if (happening.attempts.length === 0) return 'not sent';
  const answers = happening.attempts.map(answerOf).join(', ');
  const longest = happening.attempts.reduce((most, attempt) => Math.max(most, attempt.latencyMs), 0);
  const signature = options.signature ? ` ${signatureMark(options.signature, options.paint)}` : '';
  return `${answers}${signature} ${options.paint.dim(`in ${latency(longest)}`)}`;
}

/** `503`, `timeout`, and only where the reason adds to the status both. */
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
