import type { Status } from '../../api/queries.ts';
import { duration } from '../../ui/format.ts';
import { Badge, type State, StateMark, wordOf } from '../../ui/state-mark.tsx';
import { useNow } from '../../ui/time.tsx';

type Lane = Status['lanes'][string];

/** The fields that say how a destination does, in the status of all of them and in its own. */
export interface DestinationHealth {
  readonly state: Lane['state'];
  readonly failingSince?: string;
  readonly refusingSince?: string;
}

type Endpoint = Pick<Lane['endpoints'][number], 'state' | 'lastError'>;

/**
 * The state of one endpoint, and of one that fails whether it refuses: then deliveries die where they would
 * wait.
 */
export function endpointStateOf({ state, lastError }: Endpoint): State {
  return state === 'failing' && lastError !== undefined && isFinal(lastError) ? 'refusing' : state;
}

/** Failures that the server does not try again; it retries 408, 429 and 5xx, and what brought no answer. */
const PERMANENT = ['egress_refused', 'invalid_request'];

function isFinal({ status, reason }: NonNullable<Endpoint['lastError']>): boolean {
  if (status === undefined) return PERMANENT.includes(reason);
  return status < 500 && status !== 408 && status !== 429;
}

/** Whether somebody has to look at it. */
export function isTroubled({ state }: Pick<DestinationHealth, 'state'>): boolean {
  return state === 'failed' || state === 'failing' || state === 'refusing';
}

/** Since when it is in trouble. */
export function troubledSince({ state, failingSince, refusingSince }: DestinationHealth): string | undefined {
  if (state === 'failing') return failingSince;
  return state === 'refusing' ? refusingSince : undefined;
}

interface DestinationStateProps {
  readonly health: DestinationHealth;
  /** A pill, for the head of a page. */
  readonly isBadge?: boolean;
}

/** The state of a destination with how long it has lasted, the same on every screen. */
export function DestinationState({ health, isBadge = false }: DestinationStateProps) {
  const now = useNow();
  const { state } = health;
  const since = troubledSince(health);
  const label =
    since === undefined ? wordOf(state) : `${state} for ${duration(Math.max(1000, now - Date.parse(since)))}`;
  return isBadge ? <Badge state={state} label={label} /> : <StateMark state={state} label={label} />;
}
