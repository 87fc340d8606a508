import { count, size, span } from './column.ts';

/** As `GET /api/v1/replays/{id}` answers. */
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

/** As a dry run answers. */
export interface Preview {
  readonly count: number;
  readonly bytes: number;
  readonly exact: boolean;
  readonly expectedSeconds: number;
}

/** Why a replay that runs owes nothing just now, for a person. */
const WAITS: Readonly<Record<string, string>> = {
  destination_paused: 'its destination is paused',
  destination_disabled: 'its destination is disabled',
  destination_behind: 'its destination does not keep up',
  storage_unavailable: 'the store of the server does not answer',
};

const BAR = 24;

/** `about 12,000 events, 8.1 MB, 12 s` */
export function previewText({ count: events, bytes, exact, expectedSeconds }: Preview): string {
  return `${exact ? '' : 'about '}${count(events)} events, ${size(bytes)}, ${span(expectedSeconds * 1000)}`;
}

/** `[######------------------]  25 %  125 of 500 events  2 s left`, and what it waits for. */
export function progressText(replay: ShownReplay, now: number): string {
  const { replayed, waiting, expectedEndAt } = replay;
  // What was estimated may turn out to be more.
  const share = replay.count === 0 ? 0 : Math.min(1, replayed / replay.count);
  const filled = Math.floor(share * BAR);
  const bar = `[${'#'.repeat(filled)}${'-'.repeat(BAR - filled)}]`;
  const sums = `${String(Math.floor(share * 100)).padStart(3)} %  ${count(replayed)} of ${count(replay.count)} events`;
  const left = expectedEndAt === undefined ? '' : `  ${span(Date.parse(expectedEndAt) - now)} left`;
  return `${bar} ${sums}${waiting === undefined ? left : `  waits: ${WAITS[waiting] ?? waiting}`}`;
}

/** A replay in one line, as far as it is now. */
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
