import type { Position } from '../model/event.ts';
import type { Traceparents } from '../ports/traceparents.ts';

/** Events whose traces are remembered; a few megabytes. Of what is older, and after a restart, no trace is forwarded. */
const MOST = 10_000;

/** In memory and not with the event: the event is what the client sent and goes to customers, and a trace is about one request. */
export class RecentTraceparents implements Traceparents {
  readonly #byPosition = new Map<Position, string>();

  note(position: Position, traceparent: string): void {
    this.#byPosition.set(position, traceparent);
    if (this.#byPosition.size <= MOST) return;
    const [oldest] = this.#byPosition.keys();
    if (oldest !== undefined) this.#byPosition.delete(oldest);
  }

  of(position: Position): string | undefined {
    return this.#byPosition.size === 0 ? undefined : this.#byPosition.get(position);
  }
}
