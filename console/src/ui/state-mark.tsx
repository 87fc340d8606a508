import { Icon, type IconName } from './icons.tsx';
import { Num } from './time.tsx';
import './state-mark.css';

export type Tone = 'ok' | 'warn' | 'bad' | 'mute' | 'water';

/**
 * Each state has the same mark, word and colour everywhere. The words are those of the API. Green: done.
 * Amber: retried automatically, or worth a look. Red: failing or lost. Grey: left out on purpose. Water: in
 * progress.
 */
const STATES = {
  delivered: ['ok', 'ok'],
  accepted: ['ok', 'ok'],
  healthy: ['ok', 'ok'],
  done: ['ok', 'ok'],
  retrying: ['retry', 'warn'],
  retryable: ['retry', 'warn'],
  discarded: ['discard', 'warn'],
  unusual: ['look', 'warn'],
  failing: ['failing', 'bad'],
  refusing: ['bad', 'bad'],
  dead: ['bad', 'bad'],
  refused: ['bad', 'bad'],
  failed: ['bad', 'bad'],
  damaged: ['bad', 'bad'],
  pending: ['pending', 'water'],
  running: ['pending', 'water'],
  skipped: ['skip', 'mute'],
  dropped: ['skip', 'mute'],
  disabled: ['skip', 'mute'],
  cancelled: ['skip', 'mute'],
  paused: ['pause', 'mute'],
  duplicate: ['duplicate', 'mute'],
  never_asked: ['pending', 'mute'],
  no_source: ['look', 'warn'],
} as const satisfies Record<string, readonly [IconName, Tone]>;

export type State = keyof typeof STATES;

/** The word of a state for people. */
export function wordOf(state: State): string {
  return state.replace('_', ' ');
}

interface StateMarkProps {
  readonly state: State;
  /**
   * In place of the state's own word: "failing for 14 min". `null` shows the mark alone, with the word for
   * screen readers.
   */
  readonly label?: string | null;
  /** True when the count is zero: the mark has no colour. */
  readonly isNone?: boolean;
}

/** The colour of a state's number, written without its mark: none while there is nothing of it. */
export function toneOf(state: State, count: number): Tone | '' {
  return count === 0 ? '' : STATES[state][1];
}

/** Mark and word of a state, in the line. */
export function StateMark({ state, label = wordOf(state), isNone = false }: StateMarkProps) {
  const [icon, tone] = STATES[state];
  return (
    <span className={`st ${isNone ? 'mute' : tone}`} title={label ?? wordOf(state)}>
      <Icon name={icon} />
      <span className={label === null ? 'sr' : 'clip'}>{label ?? wordOf(state)}</span>
    </span>
  );
}

/** The number of entries in a state, in its colour; the column has the word. */
export function CountOf({ state, count }: { readonly state: State; readonly count: number }) {
  return (
    <span className={count === 0 ? undefined : `med ${toneOf(state, count)}`}>
      <Num value={count} />
    </span>
  );
}

/** The same as a pill, for the head of a page. */
export function Badge({ state, label = wordOf(state) }: { readonly state: State; readonly label?: string }) {
  const [icon, tone] = STATES[state];
  return (
    <span className={`st pill ${tone}`}>
      <Icon name={icon} />
      {label}
    </span>
  );
}
