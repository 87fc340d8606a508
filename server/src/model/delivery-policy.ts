import type { CallType } from './event.ts';

/** Settings of every destination, whatever its type, for routing and delivery. */
export interface DeliveryPolicy {
  /** Selects events; absent for all events of its sources. */
  readonly filter?: EventFilter;
  /**
   * `any`, as when absent: a delivery needs one accepted request. `each`: every endpoint is a delivery of its
   * own.
   */
  readonly success?: 'any' | 'each';
  /**
   * Names by which integrations objects know it after its own, in the order in which they decide. Absent:
   * those of its type.
   */
  readonly integrationNames?: readonly string[];
  /**
   * Ids of categories: it gets the events of visitors who have consented to all of them. Absent: consent is
   * not asked for.
   */
  readonly consent?: readonly string[];
  /** How it hears of audiences and computed traits. Absent: as an identify with the value alone. */
  readonly computations?: ComputationForm;
  /** Requests per second that each endpoint gets at most. */
  readonly rateLimit?: number;
  /** Requests under way at once to each endpoint at most. */
  readonly concurrency?: number;
}

/** An event passes when it passes every part that is given. */
export interface EventFilter {
  readonly types?: readonly CallType[];
  /** Names of track calls; a `*` at the end stands for any rest. Other calls have no such name, and pass. */
  readonly events?: readonly string[];
}

/** The events by which a destination hears of audiences and computed traits. */
export interface ComputationForm {
  /** Absent: `identify`. `both`: one of each for every change. */
  readonly as?: 'identify' | 'track' | 'both';
  /** The `namespace` and `space_id` that `context.personas` has. Absent: it has neither. */
  readonly space?: string;
  /** Names of the track events, absent where they are the usual ones (`changeEventNames`). */
  readonly enteredEvent?: string;
  readonly exitedEvent?: string;
  readonly traitEvent?: string;
  /** One event for each e-mail address of the user. */
  readonly email?: boolean;
  /** Names of the traits that go with a membership or a value. */
  readonly traits?: readonly string[];
}

/** The names of the track events of a form. */
export function changeEventNames({
  enteredEvent = 'Audience Entered',
  exitedEvent = 'Audience Exited',
  traitEvent = 'Trait Computed',
}: ComputationForm): Required<Pick<ComputationForm, 'enteredEvent' | 'exitedEvent' | 'traitEvent'>> {
  return { enteredEvent, exitedEvent, traitEvent };
}

/** Whether a name is the wanted one; a `*` at the end of that stands for any rest. */
export function isWantedName(wanted: string, name: string): boolean {
  return wanted.endsWith('*') ? name.startsWith(wanted.slice(0, -1)) : name === wanted;
}

/** The keys of a policy, in the order in which records are written. */
export const POLICY_KEYS = [
  'success',
  'filter',
  'integrationNames',
  'consent',
  'computations',
  'rateLimit',
  'concurrency',
] as const satisfies readonly (keyof DeliveryPolicy)[];

/**
 * Takes the policy out of the settings, where configuration files, the control API and stores have it:
 * operators write what concerns a destination in one place, and what is stored by an earlier version stays as
 * it is.
 */
export function liftPolicy<Of extends { readonly settings: object }>(
  written: Of,
): Omit<Of, 'settings'> & DeliveryPolicy & { readonly settings: Omit<Of['settings'], keyof DeliveryPolicy> } {
  const settings = withoutPolicy(written.settings);
  return { ...written, ...policyOf(written.settings), settings };
}

/** A destination as it is written: the opposite of `liftPolicy`. */
export function withPolicyInSettings<Of extends DeliveryPolicy & { readonly settings: object }>(
  destination: Of,
): Omit<Of, keyof DeliveryPolicy> & { readonly settings: Of['settings'] & DeliveryPolicy } {
  const settings = { ...destination.settings, ...policyOf(destination) };
  return { ...withoutPolicy(destination), settings };
}

function withoutPolicy<Of extends object>(record: Of): Omit<Of, keyof DeliveryPolicy> {
  const keys: readonly string[] = POLICY_KEYS;
  const others = Object.entries(record).filter(([key]) => !keys.includes(key));
  return Object.fromEntries(others) as Omit<Of, keyof DeliveryPolicy>;
}

/** The policy of a destination and nothing else: only the keys that it has, in the order of `POLICY_KEYS`. */
export function policyOf(
  policy: {
    readonly [Key in keyof DeliveryPolicy]?: DeliveryPolicy[Key] | undefined;
  },
): DeliveryPolicy {
  return Object.fromEntries(
    POLICY_KEYS.flatMap((key) => (policy[key] === undefined ? [] : [[key, policy[key]]])),
  );
}
