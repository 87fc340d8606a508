import { duration, plural } from '../../ui/format.ts';
import type { State } from '../../ui/state-mark.tsx';
import { resultWord } from '../events/reasons.ts';
import { isErasing, type Regulation } from './receipt.ts';

/** A step of a regulation that has happened or will happen. */
export interface RegulationStep {
  /** ISO 8601. Absent while the step has not happened, and when its time was not recorded. */
  readonly at?: string;
  /** Time since the request: "+38 s". */
  readonly after?: string;
  readonly state: State;
  readonly what: string;
  readonly text: string;
}

type Stream = Regulation['streamStatus'][number];

/** The steps of a regulation: asked for, suppressed, erased, confirmed by each endpoint, finished. */
export function stepsOf(regulation: Regulation): RegulationStep[] {
  const { type, createdAt, by } = regulation;
  const timed = (at: string | undefined) =>
    at === undefined ? {} : { at, after: `+${duration(Date.parse(at) - Date.parse(createdAt))}` };
  const steps: RegulationStep[] = [
    { at: createdAt, state: 'done', what: 'asked for', text: `by ${by}, for ${userText(regulation)}` },
  ];
  if (type === 'UNSUPPRESS')
    steps.push({ ...timed(createdAt), state: 'done', what: 'ended', text: 'new calls are stored again' });
  else if (type !== 'DELETE_ONLY')
    steps.push({
      ...timed(createdAt),
      state: 'done',
      what: 'suppressed',
      text: 'new calls are answered 200 and stored nowhere',
    });
  if (isErasing(type)) {
    const { erasedAt, streamStatus } = regulation;
    steps.push({ ...timed(erasedAt), ...erasure(regulation) });
    const inOrder = streamStatus.toSorted(inOrderOfTime);
    for (const stream of inOrder) steps.push({ ...timed(stream.confirmedAt), ...confirmation(stream) });
  }
  if (type !== 'UNSUPPRESS') steps.push({ ...timed(regulation.finishedAt), ...ending(regulation) });
  return steps;
}

function userText({ subjects }: Regulation): string {
  return plural(subjects, 'user');
}

function erasure(regulation: Regulation): Omit<RegulationStep, 'at'> {
  const { erasedAt, erasedFrom, finishedAt, erased, profiles } = regulation;
  const counts = [
    plural(erased.events, 'event'),
    plural(erased.deliveries, 'pending delivery', 'pending deliveries'),
    plural(erased.deadLetters, 'dead letter'),
    ...(profiles === undefined ? [] : [plural(profiles, 'profile')]),
  ].join(', ');
  if (erasedAt !== undefined)
    return {
      state: 'done',
      what: 'erased',
      text: `${counts}; no ${erasedFrom === 'tables' ? 'table' : 'file'} holds their bytes`,
    };
  // Servers of earlier versions did not note the time.
  if (finishedAt !== undefined && regulation.overallStatus !== 'FAILED')
    return { state: 'done', what: 'erased', text: `${counts}; the time was not noted` };
  if (finishedAt !== undefined) return { state: 'failed', what: 'erased', text: counts };
  return { state: 'running', what: 'erasing', text: `${counts} so far` };
}

/** Orders endpoints: confirmed ones first, by time. */
function inOrderOfTime(one: Stream, other: Stream): number {
  const timeOf = ({ status, confirmedAt }: Stream) =>
    status === 'FINISHED' && confirmedAt !== undefined ? Date.parse(confirmedAt) : Number.MAX_VALUE;
  const nameOf = ({ destination, source }: Stream) => `${destination} ${source}`;
  return timeOf(one) - timeOf(other) || nameOf(one).localeCompare(nameOf(other));
}

function confirmation({ status, destination, source, sent, confirmed, answer }: Stream) {
  const whose = `${destination}, for ${source}`;
  if (status === 'FINISHED') return { state: 'done', what: 'confirmed', text: `by ${whose}` } as const;
  const count = sent > 1 ? `${confirmed} of ${sent} by ${whose}` : whose;
  const why = answer?.reason === undefined ? '' : `: ${resultWord(answer.reason, answer.status)}`;
  if (status === 'INITIALIZED') return { state: 'pending', what: 'waiting', text: count } as const;
  if (status === 'RUNNING') return { state: 'retrying', what: 'retrying', text: count + why } as const;
  return { state: 'failed', what: 'not confirmed', text: count + why } as const;
}

function ending({ type, finishedAt, overallStatus, streamStatus }: Regulation): Omit<RegulationStep, 'at'> {
  const isWaiting = ({ status }: Stream) => status === 'INITIALIZED' || status === 'RUNNING';
  const waiting = streamStatus.filter(isWaiting).length;
  const open = streamStatus.filter(({ status }) => status !== 'FINISHED').length;
  if (finishedAt === undefined) {
    const text = waiting === 0 ? 'a few steps are left' : `waits for ${plural(waiting, 'confirmation')}`;
    return { state: 'pending', what: 'not yet done', text };
  }
  if (overallStatus === 'FAILED')
    return { state: 'failed', what: 'given up', text: 'what to do stands above' };
  if (open > 0)
    return { state: 'failed', what: 'ended', text: `${plural(open, 'confirmation')} did not come` };
  const text = isErasing(type)
    ? 'the notifications, which named the users, are erased too'
    : 'nothing is left to do';
  return { state: 'done', what: 'finished', text };
}
