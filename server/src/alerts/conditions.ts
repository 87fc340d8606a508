import type { TroubleKey } from '../model/alert.ts';
import type { Time } from '../model/time.ts';
import type { LaneOverview, Overview } from '../reporting/contract.ts';
import type { Deaths, Look, Trouble } from './decide.ts';

/** Bytes of the store and of its disk. */
export interface DiskFacts {
  readonly used: number;
  /** `limits.disk`, if there is one. */
  readonly limit?: number;
  /** Absent where the disk cannot be asked. */
  readonly disk?: { readonly free: number; readonly size: number };
}

/** The part of `limits.disk` from which on an operator is told: the oldest events go soon. */
const NEAR_LIMIT = 0.9;

/** The part of the disk that should stay free. */
const LEAST_FREE = 0.05;

export interface Facts {
  readonly at: Time;
  readonly overview: Pick<Overview, 'lanes' | 'destinations' | 'differences' | 'profiles'>;
  readonly disk: DiskFacts;
  /** Explains the reason of a failed request: its cause and what to do about it, as whole sentences. */
  readonly explain: (reason: string) => { readonly message: string; readonly hint: string };
}

/** The parts of the server's state that an alert may be about. */
export function conditionsOf(facts: Facts): Pick<Look, 'troubles' | 'deaths' | 'ending'> {
  const { overview } = facts;
  const troubles = [
    ...Object.entries(overview.lanes).flatMap(([name, lane]) => failingDestination(name, lane, facts)),
    ...unbalancedLedger(facts),
    ...fillingDisk(facts),
    ...stoppedProfiles(facts),
  ];
  return { troubles, deaths: deathsOf(overview), ending: (trouble) => ending(trouble, overview) };
}

function failingDestination(name: string, lane: LaneOverview, { at, explain }: Facts): Trouble[] {
  if (!isFailing(lane)) return [];
  if (lane.state === 'failed') return [failedLane(name, lane, at)];
  const [endpoint] = lane.endpoints.filter(({ lastError }) => lastError !== undefined);
  const lastError = lane.lastError ?? (endpoint && { ...endpoint.lastError!, endpoint: endpoint.endpoint });
  const begun = lane.failingSince ?? lane.refusingSince ?? endpoint?.since;
  const is = lane.state === 'refusing' ? 'refuses deliveries' : 'is failing';
  const waiting = lane.held + lane.onDisk;
  const waits = waiting === 0 ? '' : `, ${waiting} ${waiting === 1 ? 'delivery waits' : 'deliveries wait'}`;
  const key = { condition: 'destination_failing', destination: name } as const;
  const since = begun === undefined ? at : Date.parse(begun);
  if (lastError === undefined) return [{ ...key, since, text: `${name} ${is}${waits}` }];
  const { message, hint } = explain(lastError.reason);
  return [
    {
      ...key,
      since,
      text: `${name} ${is}: ${lastError.reason} from ${lastError.endpoint}${waits}`,
      hint: `${message} ${hint.replace(/\.$/, '')}`,
    },
  ];
}

/** A bug of ours has stopped it: no endpoint is to blame. */
function failedLane(destination: string, { failure = '', held, onDisk }: LaneOverview, at: Time): Trouble {
  return {
    ...({ condition: 'destination_failing', destination } as const),
    since: at,
    text: `${destination} has failed in Millrace itself (${failure}), ${held + onDisk} deliveries wait`,
    hint: 'Start Millrace again: what it is owed is delivered then. Read "An invariant does not hold" in the runbook, and report it',
  };
}

/**
 * After a start a destination counts as healthy until its next request fails, which may take as long as the
 * pause before a retry. The state of its endpoints is kept over restarts: while every last request to them
 * failed, nothing has recovered.
 */
function isFailing({ state, endpoints }: LaneOverview): boolean {
  if (state === 'disabled' || state === 'paused') return false;
  if (state === 'failed' || state === 'failing' || state === 'refusing') return true;
  return endpoints.length > 0 && endpoints.every((endpoint) => endpoint.state === 'failing');
}

function unbalancedLedger({ at, overview: { differences } }: Facts): Trouble[] {
  if (differences.length === 0) return [];
  const sums = differences.map((one) => {
    const whose = 'source' in one ? `source ${one.source}` : `destination ${one.destination}`;
    return `${whose} by ${one.difference}`;
  });
  return [
    {
      condition: 'ledger_unbalanced',
      since: at,
      text: `the ledger does not come out: ${sums.slice(0, MAX_NAMED).join(', ')}${sums.length > MAX_NAMED ? ' and more' : ''}`,
      hint: 'Keep the data folder as it is, and read "The ledger does not balance" in the runbook',
    },
  ];
}

/** Differences that one message names. */
const MAX_NAMED = 10;

function fillingDisk({ at, disk: { used, limit, disk } }: Facts): Trouble[] {
  const key = { condition: 'disk_filling', since: at } as const;
  if (disk !== undefined && disk.free < disk.size * LEAST_FREE) {
    const text = `the disk of the data folder has ${megabytes(disk.free)} of ${megabytes(disk.size)} left`;
    return [{ ...key, text, hint: 'Make room, or set limits.disk: calls are answered 503 once it is full' }];
  }
  if (limit === undefined || used < limit * NEAR_LIMIT) return [];
  const text = `the data folder takes ${megabytes(used)} of the ${megabytes(limit)} of limits.disk`;
  const hint = 'Raise limits.disk or shorten retention.events: beyond the limit the oldest events go first';
  return [{ ...key, text, hint }];
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / 2 ** 20)} MB`;
}

function stoppedProfiles({ at, overview: { profiles } }: Facts): Trouble[] {
  if (profiles?.state !== 'failed') return [];
  return [
    {
      condition: 'profiles_stopped',
      since: at,
      text: `profiles stand still${profiles.reason === undefined ? '' : `: ${profiles.reason}`}`,
      hint: 'Calls and deliveries go on; read "Profiles" in the runbook',
    },
  ];
}

function deathsOf({ destinations }: Facts['overview']): Deaths[] {
  return Object.entries(destinations).flatMap(([destination, { dead }]) => {
    const reasons = Object.entries(dead).sort(([, one], [, other]) => other - one);
    const count = reasons.reduce((sum, [, n]) => sum + n, 0);
    const most = reasons[0] === undefined ? '' : `Most died of ${reasons[0][0]}. `;
    const hint = `${most}Look at the dead deliveries of ${destination}, mend the cause, then redeliver them`;
    return [{ destination, count, hint }];
  });
}

function ending({ condition, destination = '' }: TroubleKey, { lanes }: Facts['overview']): string {
  switch (condition) {
    case 'ledger_unbalanced':
      return 'every sum of the ledger comes out again';
    case 'disk_filling':
      return 'there is room on the disk again';
    case 'profiles_stopped':
      return 'profiles go on';
    case 'destination_failing':
    case 'deliveries_dying':
      return stateOf(destination, lanes);
  }
}

function stateOf(destination: string, lanes: Overview['lanes']): string {
  const state = Object.hasOwn(lanes, destination) ? lanes[destination]!.state : undefined;
  if (state === undefined) return `${destination} was removed`;
  return state === 'healthy'
    ? `${destination} accepts events again`
    : `${destination} is ${state.replace('_', ' ')}`;
}
