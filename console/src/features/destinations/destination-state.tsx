import type { Status } from '../../api/queries.ts';
import { duration } from '../../ui/format.ts';
import { Badge, type State, StateMark } from '../../ui/state-mark.tsx';
import { useNow } from '../../ui/time.tsx';

type Lane = Status['lanes'][string];

/** What says how a destination does, in the status of all of them and in its own. */
export interface DestinationHealth {
  readonly state: Lane['state'];
  readonly failingSince?: string;
  readonly endpoints: readonly Pick<Lane['endpoints'][number], 'state' | 'lastError'>[];
}

/** The state of the API, and of one that fails whether it refuses: then deliveries die where they would wait. */
export function stateOf({ state, endpoints }: DestinationHealth): State {
  if (state !== 'failing') return state;
  const failing = endpoints.filter((endpoint) => endpoint.state === 'failing');
  return failing.length > 0 && failing.every(isRefusing) ? 'refusing' : 'failing';
}

/** Failures that the server does not try again; it retries 408, 429 and 5xx, and what brought no answer. */
const PERMANENT = ['egress_refused', 'invalid_request'];

function isRefusing({ lastError }: DestinationHealth['endpoints'][number]): boolean {
  if (lastError === undefined) return false;
  const { status, reason } = lastError;
  if (status === undefined) return PERMANENT.includes(reason);
  return status < 500 && status !== 408 && status !== 429;
}

interface DestinationStateProps {
  readonly health: DestinationHealth;
  /** A pill, for the head of a page. */
  readonly isBadge?: boolean;
}

/** The state of a destination with how long it has lasted, the same on every screen. */
export function DestinationState({ health, isBadge = false }: DestinationStateProps) {
  const now = useNow();
  const state = stateOf(health);
  const since = health.state === 'failing' ? health.failingSince : undefined;
  const label =
    since === undefined ? state : `${state} for ${duration(Math.max(1000, now - Date.parse(since)))}`;
  return isBadge ? <Badge state={state} label={label} /> : <StateMark state={state} label={label} />;
}
