import type { Clock } from '../ports/clock.ts';
import type { Received } from '../ports/event-log.ts';
import type { Watching } from '../ports/observer.ts';
import type { Samples } from '../ports/samples.ts';
import type { ClockTally, RefusedRequest, Tallies } from '../ports/tallies.ts';
import type { WriteKeys } from './write-keys.ts';

export interface RefusalsTools {
  readonly clock: Pick<Clock, 'now'>;
  readonly watching: Watching;
  /** Gets what has no source. */
  readonly tallies: Tallies;
  readonly samples: Samples;
  readonly writeKeys: () => WriteKeys;
  /** Gets what has one. */
  readonly count: (counts: readonly Received[]) => void;
}

/**
 * The tallies of what stands before the receiver and refuses requests there. Nobody looked at the calls of such a request, so it
 * counts as one discarded call of the source that its key names. Without a known key it is passed on to the tallies.
 */
export class Refusals implements Tallies {
  readonly #tools: RefusalsTools;

  constructor(tools: RefusalsTools) {
    this.#tools = tools;
  }

  refused(code: string, request?: RefusedRequest): void {
    const { clock, watching, tallies, samples, writeKeys, count } = this.#tools;
    const source = request?.writeKey === undefined ? undefined : writeKeys().find(request.writeKey);
    if (source === undefined) {
      tallies.refused(code);
      return;
    }
    count([{ source: source.id, calls: 1, discarded: { [code]: 1 } }]);
    const detail = request?.detail;
    if (detail !== undefined) {
      samples.add({ source: source.name, reason: code, at: clock.now(), call: () => ({ refused: detail }) });
    }
    watching()?.({ kind: 'discarded', source: source.name, reason: code });
  }

  discarded(reasons: Readonly<Record<string, number>>): void {
    this.#tools.tallies.discarded(reasons);
  }

  clock(counts: ClockTally): void {
    this.#tools.tallies.clock(counts);
  }
}
