import type { Position } from '../model/event.ts';

/** Remembers in which trace events came (W3C Trace Context). Few calls say so: for the others it is not asked to remember. */
export interface Traceparents {
  /** Before anything of the event is sent. */
  note(position: Position, traceparent: string): void;
  /** Asked for every round, so it must cost nothing while nothing is remembered. */
  of(position: Position): string | undefined;
}
