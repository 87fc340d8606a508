import { Badge, type State, StateMark } from '../../ui/state-mark.tsx';
import type { Regulation } from './receipt.ts';

type Status = Regulation['overallStatus'];

const STATES: Readonly<Record<Status, State>> = {
  INITIALIZED: 'pending',
  RUNNING: 'running',
  FINISHED: 'done',
  FAILED: 'failed',
  PARTIAL_SUCCESS: 'failing',
};

interface RegulationStateProps {
  readonly regulation: Pick<Regulation, 'overallStatus'>;
  /** True for a pill in the head of a page. */
  readonly isBadge?: boolean;
}

/** The status of a regulation as a mark and a lower-case word. */
export function RegulationState({ regulation: { overallStatus }, isBadge = false }: RegulationStateProps) {
  const Mark = isBadge ? Badge : StateMark;
  return <Mark state={STATES[overallStatus]} label={wordOf(overallStatus)} />;
}

export function NotificationState({ status }: { readonly status: Status }) {
  return <StateMark state={STATES[status]} label={status === 'FINISHED' ? 'confirmed' : wordOf(status)} />;
}

function wordOf(status: Status): string {
  return status === 'INITIALIZED' ? 'waiting' : status.toLowerCase().replaceAll('_', ' ');
}
