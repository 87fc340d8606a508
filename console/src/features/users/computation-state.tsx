import { type State, StateMark } from '../../ui/state-mark.tsx';
import type { Computation } from './queries.ts';

const STATES: Readonly<Record<Computation['state'], State>> = {
  preparing: 'pending',
  computing: 'running',
  live: 'healthy',
  disabled: 'disabled',
  failed: 'failed',
};

/** How far a definition is. */
export function ComputationState({
  computation: { state, progress },
}: {
  readonly computation: Computation;
}) {
  const percent = Math.floor(progress * 100);
  return <StateMark state={STATES[state]} label={state === 'computing' ? `computing ${percent} %` : state} />;
}
