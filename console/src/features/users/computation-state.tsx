import { Badge, type State, StateMark } from '../../ui/state-mark.tsx';
import type { Computation } from './queries.ts';

const STATES: Readonly<Record<Computation['state'], State>> = {
  preparing: 'pending',
  computing: 'running',
  live: 'healthy',
  disabled: 'disabled',
  failed: 'failed',
};

interface ComputationStateProps {
  readonly computation: Computation;
  /** True for a pill in the head of a page. */
  readonly isBadge?: boolean;
}

/** Shows state and progress of a definition. */
export function ComputationState({
  computation: { state, progress },
  isBadge = false,
}: ComputationStateProps) {
  const percent = Math.floor(progress * 100);
  const Mark = isBadge ? Badge : StateMark;
  return <Mark state={STATES[state]} label={state === 'computing' ? `computing ${percent} %` : state} />;
}
