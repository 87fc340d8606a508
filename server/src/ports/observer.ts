import type { Attempt, Decision } from '../model/delivery.ts';
import type { Event } from '../model/event.ts';

/** Somebody who watches events and deliveries as they happen. What they do must be quick and must not throw. */
export type Observer = (happening: Happening) => void;

export type Happening =
  | {
      readonly kind: 'accepted' | 'duplicate';
      readonly source: string;
      readonly event: Event;
      /** From the call's arrival to its being on stable storage. */
      readonly latencyMs: number;
    }
  | { readonly kind: 'discarded'; readonly source: string; readonly reason: string }
  | {
      readonly kind: 'settled';
      readonly destination: string;
      readonly event: Event;
      readonly attempts: readonly Attempt[];
      readonly decision: Decision;
    };
