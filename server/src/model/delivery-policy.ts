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

/** The keys of a policy, in the order in which records are written. */
const POLICY_KEYS = ['success', 'filter', 'rateLimit', 'concurrency'] as const;

/**
 * Takes the policy out of the settings, where configuration files, the control API and stores have it:
 * operators write what concerns a destination in one place, and what is stored by an earlier version stays as
 * it is.
 */
export function liftPolicy<Of extends { readonly settings: object }>(
  written: Of,
): Omit<Of, 'settings'> & DeliveryPolicy & { readonly settings: Omit<Of['settings'], keyof DeliveryPolicy> } {
  const { success, filter, rateLimit, concurrency, ...settings } = written.settings as Of['settings'] &
    DeliveryPolicy;
  return { ...written, ...policyOf({ success, filter, rateLimit, concurrency }), settings };
}

/** A destination as it is written: the opposite of `liftPolicy`. */
export function withPolicyInSettings<Of extends DeliveryPolicy & { readonly settings: object }>(
  destination: Of,
): Omit<Of, keyof DeliveryPolicy> & { readonly settings: Of['settings'] & DeliveryPolicy } {
  const { success, filter, rateLimit, concurrency, ...rest } = destination;
  const policy = policyOf({ success, filter, rateLimit, concurrency });
  return { ...rest, settings: { ...destination.settings, ...policy } };
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
