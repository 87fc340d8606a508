import { count, counted, size, span } from './column.ts';

/** The answer of `GET /api/v1/replays/{id}`. */
export interface ShownReplay extends Preview {
  readonly id: string;
  readonly destination: string;
  readonly from: string;
  readonly to: string;
  readonly state: 'running' | 'done' | 'cancelled' | 'failed';
  readonly reason?: string;
  readonly replayed: number;
  readonly pending: number;
  readonly waiting?: string;
  readonly expectedEndAt?: string;
}

/** The answer of a dry run. */
export interface Preview {
  readonly count: number;
  /** Absent for replays that an earlier version made. */
  readonly deliveries?: number;
  readonly bytes: number;
  readonly exact: boolean;
  readonly expectedSeconds: number;
}

/** Reasons, for a person, why a running replay creates no deliveries at the moment. */
const WAITS: Readonly<Record<string, string>> = {
  destination_paused: 'its destination is paused',
  destination_disabled: 'its destination is disabled',
  destination_behind: 'its destination does not keep up',
  storage_unavailable: 'the store of the server does not answer',
};

const BAR = 24;

/** `about 12,000 events, 8.1 MB, 12 s`, and the number of deliveries where it is another. */
export function previewText({ count: events, deliveries, bytes, exact, expectedSeconds }: Preview): string {
  const sent = deliveries === undefined || deliveries === events ? '' : ` (${count(deliveries)} deliveries)`;
  return `${exact ? '' : 'about '}${counted(events, 'event')}${sent}, ${size(bytes)}, ${span(expectedSeconds * 1000)}`;
}

/** `[######------------------]  25 %  125 of 500 events  2 s left`, and the reason for a wait. */
export function progressText(replay: ShownReplay, now: number): string {
  const { replayed, waiting, expectedEndAt } = replay;
  // The count may exceed an estimate.
  const share = replay.count === 0 ? 0 : Math.min(1, replayed / replay.count);
  const filled = Math.floor(share * BAR);
  const bar = `[${'#'.repeat(filled)}${'-'.repeat(BAR - filled)}]`;
  const sums = `${String(Math.floor(share * 100)).padStart(3)} %  ${count(replayed)} of ${count(replay.count)} events`;
  const left = expectedEndAt === undefined ? '' : `  ${span(Date.parse(expectedEndAt) - now)} left`;
  return `${bar} ${sums}${waiting === undefined ? left : `  waits: ${WAITS[waiting] ?? waiting}`}`;
}

/** The current state of a replay in one line. */
export function replayLine(replay: ShownReplay): string {
  const { id, destination, state, reason, replayed, pending, waiting } = replay;
  const why = reason === undefined ? '' : ` (${reason})`;
  const waits = waiting === undefined ? '' : `; it waits: ${WAITS[waiting] ?? waiting}`;
  const left = pending === 0 ? '' : `, ${count(pending)} deliveries still to be made`;
  const of = state === 'done' ? '' : ` of ${count(replay.count)}`;
  return `${id}  ${state}${why}: ${count(replayed)}${of} events to ${destination}${left}${waits}`;
}

export function isReplay(value: unknown): value is ShownReplay {
  return typeof value === 'object' && value !== null && 'replayed' in value && 'state' in value;
}

export function isPreview(value: unknown): value is Preview {
  return typeof value === 'object' && value !== null && 'expectedSeconds' in value && 'count' in value;
}
