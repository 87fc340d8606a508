import { Icon, type IconName } from './icons.tsx';

export type Tone = 'ok' | 'warn' | 'bad' | 'mute' | 'water';

/** A state is always the same mark, word and colour. The words are those of the API. */
const STATES = {
  delivered: ['ok', 'ok'],
  accepted: ['ok', 'ok'],
  healthy: ['ok', 'ok'],
  done: ['ok', 'ok'],
  retrying: ['retry', 'warn'],
  retryable: ['retry', 'warn'],
  failing: ['retry', 'warn'],
  dead: ['bad', 'bad'],
  refused: ['bad', 'bad'],
  failed: ['bad', 'bad'],
  damaged: ['bad', 'bad'],
  pending: ['pending', 'water'],
  running: ['pending', 'water'],
  skipped: ['skip', 'mute'],
  disabled: ['skip', 'mute'],
  cancelled: ['skip', 'mute'],
  paused: ['pause', 'mute'],
  discarded: ['discard', 'mute'],
  duplicate: ['duplicate', 'mute'],
} as const satisfies Record<string, readonly [IconName, Tone]>;

export type State = keyof typeof STATES;

interface StateMarkProps {
  readonly state: State;
  /** In place of the state's own word: "failing for 14 min". `null` shows the mark alone, with the word for screen readers. */
  readonly label?: string | null;
}

/** Mark and word of a state, in the line. */
export function StateMark({ state, label = state }: StateMarkProps) {
  const [icon, tone] = STATES[state];
  return (
    <span className={`st ${tone}`} title={label ?? state}>
      <Icon name={icon} />
      {label ?? <span className="sr">{state}</span>}
    </span>
  );
}

/** The same as a pill, for the head of a page. */
export function Badge({ state, label = state }: { readonly state: State; readonly label?: string }) {
  const [icon, tone] = STATES[state];
  return (
    <span className={`st pill ${tone}`}>
      <Icon name={icon} />
      {label}
    </span>
  );
}
