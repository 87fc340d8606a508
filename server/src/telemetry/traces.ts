import type { Position } from '../model/event.ts';
import type { TraceContexts } from '../ports/telemetry.ts';

/** Events whose traces are kept, in a few megabytes. Older events, and those from before a restart, have none. */
const MAX_TRACEPARENTS = 10_000;

/** Kept apart from the event: an event is the client's data and goes to customers, a trace belongs to one request. */
export class RecentTraceparents implements TraceContexts {
  readonly #byPosition = new Map<Position, string>();

  set(position: Position, traceparent: string): void {
    this.#byPosition.set(position, traceparent);
    if (this.#byPosition.size <= MAX_TRACEPARENTS) return;
    const [oldest] = this.#byPosition.keys();
    if (oldest !== undefined) this.#byPosition.delete(oldest);
  }

  get(position: Position): string | undefined {
    return this.#byPosition.size === 0 ? undefined : this.#byPosition.get(position);
  }
}
