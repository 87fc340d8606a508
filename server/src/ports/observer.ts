import type { Attempt, Decision } from '../model/delivery.ts';
import type { Event } from '../model/event.ts';

/** Somebody who watches events and deliveries as they happen. What they do must be quick and must not throw. */
export type Observer = (happening: Happening) => void;

/**
 * Who watches now; `undefined` when nobody does, and then nothing is made up for anybody. Asked at each happening, so that
 * whoever comes later is seen. It is asked on the hot path: it must be as cheap as reading a field.
 */
export type Watching = () => Observer | undefined;

export type Happening =
  | {
      readonly kind: 'accepted' | 'duplicate';
      readonly source: string;
      readonly event: Event;
      /** From the call's arrival to its being on stable storage. */
      readonly latencyMs: number;
    }
  | {
      readonly kind: 'discarded';
      /** Absent where none is known, as with a wrong write key. */
      readonly source?: string;
      readonly reason: string;
    }
  | {
      readonly kind: 'settled';
      /** Where the event came from. */
      readonly source: string;
      readonly destination: string;
      readonly event: Event;
      /** Both with their times by the wall clock. */
      readonly attempts: readonly Attempt[];
      readonly decision: Decision;
    };
