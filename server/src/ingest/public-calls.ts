import { isClientLibrary } from '../model/libraries.ts';
import { type Source, trustOf } from '../model/settings.ts';
import { DAY, type Duration, SECOND, type Time } from '../model/time.ts';
import type { IngestRequest } from '../ports/ingest.ts';
import type { Logger } from '../ports/logger.ts';
import type { IngestCounters } from '../ports/telemetry.ts';
import type { AcceptedEvent } from './calls.ts';

export interface PublicCallWatchDependencies {
  readonly logger: Pick<Logger, 'warn'>;
  readonly ingestCounters: Pick<IngestCounters, 'publicCalls'>;
}

/** How often the library of a call is looked at for one source: its context has to be parsed for that. */
const LOOK_EVERY: Duration = SECOND;
/** How often one source is warned of. */
const WARN_EVERY: Duration = DAY;

const HINT =
  'the write key of this source is in a website or an app, where everybody can read it, and its calls may join users: set trust to client, ' +
  'and give your servers a source of their own';

/**
 * Notices calls of browsers and phones to sources with `trust: server`, whose write keys should be in
 * programs of the operator alone. Requests with an `Origin`, and images, count with all their calls; of the
 * others one call in a second is looked at, by the library that it names.
 */
export class PublicCallWatch {
  readonly #dependencies: PublicCallWatchDependencies;
  /** Times at which a call of a source was last examined and last reported, by id. */
  readonly #lookedAt = new Map<number, Time>();
  readonly #warnedAt = new Map<number, Time>();

  constructor(dependencies: PublicCallWatchDependencies) {
    this.#dependencies = dependencies;
  }

  /** Called for every request: costs a few comparisons. */
  look(events: readonly AcceptedEvent[], request: IngestRequest): void {
    const first = events[0];
    // An import passes on what browsers have sent to others.
    if (first === undefined || request.peer === undefined || request.passesOn === true) return;
    const { sender } = first;
    if (trustOf(sender) !== 'server') return;
    const isFromPage = request.hasOrigin === true || request.isFromBrowser === true;
    if (isFromPage) this.#noticed(sender, { calls: events.length, by: 'origin' }, request);
    else if (isDue(this.#lookedAt, sender.id, { at: request.receivedAt, every: LOOK_EVERY })) {
      const { context } = first.event;
      if (isClientLibrary(context)) this.#noticed(sender, { calls: 1, by: 'library' }, request);
    }
  }

  #noticed(
    { id, name }: Source,
    { calls, by }: { readonly calls: number; readonly by: 'origin' | 'library' },
    { receivedAt: at }: IngestRequest,
  ): void {
    const { logger, ingestCounters } = this.#dependencies;
    ingestCounters.publicCalls(name, calls);
    if (isDue(this.#warnedAt, id, { at, every: WARN_EVERY }))
      logger.warn({ source: name, by, hint: HINT }, 'source.public_calls');
  }
}

/**
 * Whether something was done long enough ago; then it is noted as done now. A clock may have been set back.
 */
function isDue(
  done: Map<number, Time>,
  id: number,
  { at, every }: { readonly at: Time; readonly every: Duration },
): boolean {
  const last = done.get(id);
  if (last !== undefined && Math.abs(at - last) < every) return false;
  done.set(id, at);
  return true;
}
