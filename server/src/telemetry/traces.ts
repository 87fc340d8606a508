import type { Position } from '../model/event.ts';
import type { TraceContexts } from '../ports/telemetry.ts';

/** Events whose traces are remembered; a few megabytes. Of what is older, and after a restart, no trace is forwarded. */
const MAX_TRACEPARENTS = 10_000;

/** In memory and not with the event: the event is what the client sent and goes to customers, and a trace is about one request. */
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
