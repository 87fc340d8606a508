import type { IconName } from '../../ui/icons.tsx';
import type { Tone } from '../../ui/state-mark.tsx';

/** A station or an outlet: its number in the range, its rate now, and the list behind it. */
export interface Place {
  readonly id: string;
  readonly label: string;
  readonly count: number;
  /** Beside the count. */
  readonly about: string;
  readonly to: '/live' | '/events' | '/destinations' | '/sources';
  readonly tone: Tone;
  readonly icon: IconName;
}
