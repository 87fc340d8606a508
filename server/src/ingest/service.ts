import { trustOf } from '../model/settings.ts';
import { type Duration, type Monotonic, SECOND, type Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { Batch, CallCounts, EventLog } from '../ports/event-log.ts';
import type {
  IngestHandler,
  IngestRequest,
  IngestResult,
  RateLimitCheck,
  SuppressionCheck,
} from '../ports/ingest.ts';
import type { Logger } from '../ports/logger.ts';
import type {
  CurrentObserver,
  DiscardSampler,
  IngestCounters,
  RefusedRequest,
  ValueChanges,
} from '../ports/telemetry.ts';
import type { AcceptedEvent, WriteKeyLookup } from './calls.ts';
import {
  CallCountSums,
  CommitQueue,
  type CommitQueueDependencies,
  type CommitResult,
  type CurrentPlanner,
} from './commit-queue.ts';
import type { DiscardReason } from './envelope.ts';
import { loadEncoder } from './fast-path/parser.ts';
import { type ParsedRequest, parseRequest } from './parse.ts';
import { PublicCallWatch } from './public-calls.ts';

/** Seconds after which a client may send its request again. */
const OVERLOAD_RETRY_AFTER = 1;
const STORAGE_RETRY_AFTER = 5;

/** Settings for calls. The owner replaces both parts when the settings change. */
interface IngestSettings extends CurrentPlanner {
  readonly writeKeys: WriteKeyLookup;
}

interface IngestServiceDependencies extends CommitQueueDependencies {
  readonly current: IngestSettings;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly currentObserver: CurrentObserver;
  /** Counts what no source's ledger counts. */
  readonly ingestCounters: IngestCounters;
  /** Is given every call that is discarded. */
  readonly discardSampler: DiscardSampler;
  readonly newMessageId: () => string;
  /** Called before anything of a request is stored or counted. Absent: no limit. */
  readonly checkRateLimit?: RateLimitCheck;
  /** The suppressed ids. Absent: nobody is suppressed. */
  readonly suppression?: SuppressionCheck;
  /** Log a line for each request. */
  readonly logsCalls?: boolean;
  /** Gives the name of a source by its id. */
  readonly sourceName: (id: number) => string;
  /**
   * The reason why the store takes no commit now, as far as it knows without one. Absent for a store that
   * answers every commit soon.
   */
  readonly storeProblems?: () => readonly string[];
}

type AcceptedRequest = Extract<ParsedRequest, { kind: 'received' }>;

/** How long a failed commit makes the server not ready. */
const FAILURE_MEMORY: Duration = 10 * SECOND;

/** How often calls that wait for a commit are looked after, where the store may be silent. */
const LOOK_EVERY: Duration = SECOND;

/**
 * Receives requests: parses their bytes, stores their events, and answers when the events are on stable
 * storage.
 */
export class IngestService {
  readonly #dependencies: IngestServiceDependencies;
  readonly #commits: CommitQueue;
  readonly #counts: LedgerCounter;
  readonly #publicCalls: PublicCallWatch;
  /** For the HTTP layer, which refuses some requests before `handle` sees them. */
  readonly ingestCounters: IngestCounters;
  #failure: { readonly reason: string; readonly at: Monotonic } | undefined;
  /** Calls were refused because the store does not answer, and nothing was stored since. */
  #isSilent = false;
  #cancelLook: (() => void) | undefined;

  constructor(dependencies: IngestServiceDependencies) {
    this.#dependencies = dependencies;
    this.#counts = new LedgerCounter(dependencies);
    const count = (counts: readonly CallCounts[]) => this.#counts.add(counts);
    this.ingestCounters = new RefusalCounters({ ...dependencies, count });
    this.#commits = new CommitQueue({ ...dependencies, onCommit: this.#counts.write });
    this.#publicCalls = new PublicCallWatch(dependencies);
    loadEncoder();
  }

  readonly handle: IngestHandler = (request, answer) => {
    const { current, newMessageId, suppression, checkRateLimit, ingestCounters, logsCalls, sourceName } =
      this.#dependencies;
    const read = parseRequest(request, current.writeKeys, newMessageId);
    const parsed = suppression?.isEmpty === false ? withoutSuppressed(read, suppression) : read;
    const isUnread = parsed.kind === 'refused' && parsed.isUnread === true;
    const over = isUnread
      ? undefined
      : checkRateLimit?.(parsed.counts, limitedPeer(request, current.writeKeys));
    if (over !== undefined) {
      const name = sourceName(over.source);
      if (name !== undefined) ingestCounters.rateLimited(name);
      answer({ kind: 'unavailable', code: 'rate_limited', retryAfter: over.retryAfter });
      return;
    }
    this.#publishDiscards(parsed);
    this.#sampleDiscards(parsed, request.receivedAt);
    this.#countDiscards(parsed);
    if (parsed.kind === 'refused' && logsCalls) this.#logRefused(parsed, request);
    // A call of a suppressed user waits for a commit as any other: the time of its answer must not tell who
    // is suppressed.
    if (parsed.kind === 'received') this.#publicCalls.look(parsed.events, request);
    const waits = parsed.kind === 'received' && (parsed.events.length > 0 || parsed !== read);
    if (waits) {
      this.#store(parsed, request, answer);
      return;
    }
    if (parsed.counts.length > 0) this.#counts.add(parsed.counts);
    answer(parsed.kind === 'received' ? STORED : refusalOf(parsed));
  };

  /**
   * Why the last commit failed; empty when it succeeded. It is forgotten after a while: a server that
   * is not ready may be sent no requests, and would never learn that it can store them again.
   */
  readonly problems = (): readonly string[] => {
    const { reason, at } = this.#failure ?? { reason: '', at: Number.NEGATIVE_INFINITY };
    return this.#dependencies.clock.monotonic() - at < FAILURE_MEMORY ? [reason] : [];
  };

  /**
   * Resolves when every request that was taken before has its answer: its events are stored then, or never
   * will be.
   */
  answered(): Promise<void> {
    return this.#commits.answered();
  }

  /** Resolves when every request taken has its answer. Stop the listener first. */
  async stop(): Promise<void> {
    await this.#commits.stop();
    this.#cancelLook?.();
    try {
      await this.#counts.stop();
    } catch (error) {
      this.#dependencies.logger.warn({ error }, 'ledger.counts_not_written');
    }
  }

  #store(parsed: AcceptedRequest, request: IngestRequest, answer: (result: IngestResult) => void): void {
    const [problem] = this.#dependencies.storeProblems?.() ?? [];
    if (problem !== undefined) {
      answer(this.#silent(problem));
      return;
    }
    const takenAt = this.#dependencies.clock.monotonic();
    let isAnswered = false;
    const isTaken = this.#commits.add({
      events: parsed.events,
      counts: parsed.counts,
      receivedAt: request.receivedAt,
      traceparent: request.traceparent,
      committed: (result) => {
        const isStored = !('error' in result);
        if (!isAnswered) answer(isStored ? STORED : this.#unavailable(result.error));
        isAnswered = true;
        if (isStored) this.#afterCommit(parsed, request, { result, takenAt });
      },
      refused: (reason) => {
        // It may be stored yet: the client sends it again, and it is a duplicate then.
        if (!isAnswered) answer(this.#silent(String(reason)));
        isAnswered = true;
      },
    });
    if (!isTaken) answer({ kind: 'unavailable', code: 'overloaded', retryAfter: OVERLOAD_RETRY_AFTER });
    else if (this.#dependencies.storeProblems !== undefined) this.#lookSoon();
  }

  /** A store that does not answer is known before a commit fails: nobody waits for that. */
  #lookSoon(): void {
    this.#cancelLook ??= this.#dependencies.clock.after(LOOK_EVERY, () => {
      this.#cancelLook = undefined;
      const [problem] = this.#dependencies.storeProblems!();
      if (problem !== undefined) this.#commits.refuse(problem);
      if (this.#commits.isBusy) this.#lookSoon();
    });
  }

  /**
   * The answer while the store does not answer. It says itself whether it is ready, so this is not remembered
   * as a failed commit is.
   */
  #silent(problem: string): IngestResult {
    if (!this.#isSilent) this.#dependencies.logger.error({ error: problem }, 'storage.unavailable');
    this.#isSilent = true;
    return UNAVAILABLE;
  }

  #afterCommit(parsed: AcceptedRequest, request: IngestRequest, { result, takenAt }: StoredRequest): void {
    const latencyMs = this.#dependencies.clock.monotonic() - takenAt;
    if (this.#failure !== undefined || this.#isSilent) {
      this.#failure = undefined;
      this.#isSilent = false;
      this.#dependencies.logger.info({}, 'storage.recovered');
    }
    if (parsed.events.length === 0) return;
    if (this.#dependencies.logsCalls) this.#logAccepted(parsed, request, latencyMs);
    const { currentObserver } = this.#dependencies;
    const { observer } = currentObserver;
    if (observer === undefined) return;
    parsed.events.forEach((accepted, index) => {
      const { line, sender } = accepted;
      if (currentObserver.passesOver?.(line, sender.name) === true) return;
      observer({
        kind: result.isDuplicate(index) ? 'duplicate' : 'accepted',
        source: sender.name,
        event: accepted.event,
        latencyMs,
      });
    });
  }

  #logAccepted(
    { events, counts }: AcceptedRequest,
    { body, traceparent }: IngestRequest,
    latencyMs: Duration,
  ): void {
    const { logger, sourceName } = this.#dependencies;
    const source = counts.map((one) => sourceName(one.source)).join(', ');
    const facts = { source, events: events.length, bytes: body.length, latencyMs };
    logger.debug({ ...facts, traceparent }, 'call.accepted');
  }

  #logRefused({ code }: { readonly code: string }, { body, traceparent }: IngestRequest): void {
    const facts = { code, bytes: body.length, traceparent };
    this.#dependencies.logger.debug(facts, 'call.refused');
  }

  #unavailable(error: unknown): IngestResult {
    if (this.#failure === undefined) this.#dependencies.logger.error({ error }, 'storage.unavailable');
    const reason = error instanceof Error ? error.message : String(error);
    this.#failure = { reason, at: this.#dependencies.clock.monotonic() };
    return UNAVAILABLE;
  }

  #publishDiscards(parsed: ParsedRequest): void {
    const observer = this.#dependencies.currentObserver.observer;
    if (observer === undefined) return;
    const { sourceName } = this.#dependencies;
    for (const { source, discarded } of parsed.counts) {
      for (const [reason, n] of Object.entries(discarded)) {
        if (reason === SUPPRESSED) continue;
        for (let nth = 0; nth < n; nth++) observer({ kind: 'discarded', source: sourceName(source), reason });
      }
    }
    for (const [reason, n] of Object.entries(unattributedReasons(parsed))) {
      for (let nth = 0; nth < n; nth++) observer({ kind: 'discarded', reason });
    }
  }

  #sampleDiscards({ discards }: ParsedRequest, at: Time): void {
    const { suppression } = this.#dependencies;
    for (const { source, reason, call } of discards) {
      // Nothing of a suppressed user is kept, not even of a call that is wrong.
      if (suppression?.isEmpty === false && suppression.names(call())) continue;
      this.#dependencies.discardSampler.add({ source: source?.name, reason, at, call });
    }
  }

  #countDiscards(parsed: ParsedRequest): void {
    const { ingestCounters } = this.#dependencies;
    if (parsed.kind === 'refused') {
      // Counts mean that a source was found, whose ledger counts the request.
      if (parsed.counts.length === 0) ingestCounters.refused(parsed.code);
      return;
    }
    if (parsed.discards.length > 0) ingestCounters.discarded(parsed.unattributed);
    for (const [source, changes] of parsed.changes) {
      const name = this.#dependencies.sourceName(source);
      if (name !== undefined) ingestCounters.changed(name, changes);
    }
  }
}

/**
 * The request without the events of suppressed users, which count as discarded. It is answered as if they
 * were stored. spec/specification.md, "Suppressed users".
 */
function withoutSuppressed(parsed: ParsedRequest, check: SuppressionCheck): ParsedRequest {
  if (parsed.kind === 'refused') return parsed;
  const kept: AcceptedEvent[] = [];
  const suppressed = new Map<number, number>();
  for (const event of parsed.events) {
    if (!check.suppresses(event.line)) kept.push(event);
    else suppressed.set(event.source, (suppressed.get(event.source) ?? 0) + 1);
  }
  if (suppressed.size === 0) return parsed;
  const counts = parsed.counts.map((one): CallCounts => {
    const n = suppressed.get(one.source);
    return n === undefined ? one : { ...one, discarded: { ...one.discarded, suppressed: n } };
  });
  // A sample may be of one of them.
  const changes = new Map(
    [...parsed.changes].map(([source, { counts: sums }]) => [source, { counts: sums }]),
  );
  return { ...parsed, events: kept, counts, changes };
}

interface StoredRequest {
  readonly result: CommitResult;
  /** When the request was queued for its commit. */
  readonly takenAt: Monotonic;
}

/** Calls of suppressed users are counted and shown to nobody. */
const SUPPRESSED: DiscardReason = 'suppressed';

const STORED: IngestResult = { kind: 'stored' };

const UNAVAILABLE: IngestResult = {
  ...{ kind: 'unavailable', code: 'storage_unavailable', retryAfter: STORAGE_RETRY_AFTER },
};

/** Discards that no ledger counts, by reason. A request that is refused before its source is known is one. */
function unattributedReasons(parsed: ParsedRequest): Readonly<Record<string, number>> {
  if (parsed.kind === 'received') return parsed.unattributed;
  return parsed.counts.length === 0 ? { [parsed.code]: 1 } : {};
}

function refusalOf(refused: Extract<ParsedRequest, { kind: 'refused' }>): IngestResult {
  const { code, detail, invalid } = refused;
  return { kind: 'refused', code, detail, invalid };
}

/** How long counts wait at most for more of them, and for a commit of events whose sync they can share. */
const WRITE_INTERVAL: Duration = SECOND;

interface LedgerCounterDependencies {
  readonly log: Pick<EventLog, 'append'>;
  readonly newBatchId: () => string;
  readonly clock: Pick<Clock, 'after'>;
  readonly logger: Pick<Logger, 'warn'>;
}

/**
 * Writes counts of calls that left no event to the ledger. Each batch of counts has an id of its own, apart
 * from commits of events: after a commit in doubt it is sent again under the same id, and is not counted
 * twice.
 */
export class LedgerCounter {
  readonly #dependencies: LedgerCounterDependencies;
  readonly #sums = new CallCountSums();
  /** The batch that is being written, or must be written again. */
  #batch: Batch | undefined;
  #cancelTimer: (() => void) | undefined;
  #writing: Promise<void> | undefined;

  constructor(dependencies: LedgerCounterDependencies) {
    this.#dependencies = dependencies;
  }

  add(counts: readonly CallCounts[]): void {
    this.#sums.add(counts);
    this.#writeSoon();
  }

  /** Writes all counts now. Called beside a commit of events, it shares the sync of that. */
  readonly write = (): void => {
    // The commit beside it fails with it and reports the error.
    if (this.#isWaiting && this.#writing === undefined) this.#begin(() => {});
  };

  /** Resolves when every count is written. Rejects when they could not be. */
  async stop(): Promise<void> {
    await this.#writing;
    this.#cancelTimer?.();
    while (this.#isWaiting) await this.#writeBatch();
  }

  get #isWaiting(): boolean {
    return this.#batch !== undefined || !this.#sums.isEmpty;
  }

  #writeSoon(): void {
    const { clock, logger } = this.#dependencies;
    if (this.#cancelTimer !== undefined || this.#writing !== undefined) return;
    this.#cancelTimer = clock.after(WRITE_INTERVAL, () => {
      this.#begin((error) => logger.warn({ error }, 'ledger.counts_not_written'));
    });
  }

  #begin(failed: (error: unknown) => void): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#writing = this.#writeBatch()
      .catch(failed)
      .finally(() => {
        this.#writing = undefined;
        if (this.#isWaiting) this.#writeSoon();
      });
  }

  /**
   * Counts that come meanwhile wait for the next batch: else a stream of discarded calls would be a stream of
   * syncs.
   */
  async #writeBatch(): Promise<void> {
    this.#batch ??= this.#newBatch();
    await this.#dependencies.log.append(this.#batch);
    this.#batch = undefined;
  }

  #newBatch(): Batch {
    const received = this.#sums.take();
    return {
      id: this.#dependencies.newBatchId(),
      receivedAt: 0,
      events: [],
      plans: [],
      planIndexes: [],
      owed: [],
      received,
    };
  }
}

interface RefusalCountersDependencies {
  readonly clock: Pick<Clock, 'now'>;
  readonly currentObserver: CurrentObserver;
  /** Counts refusals without a known source. */
  readonly ingestCounters: IngestCounters;
  readonly discardSampler: DiscardSampler;
  readonly current: Pick<IngestSettings, 'writeKeys'>;
  /** Counts refusals in the ledger of their source. */
  readonly count: (counts: readonly CallCounts[]) => void;
}

/**
 * Counts requests that the HTTP layer refuses before their calls are read. Such a request counts as one
 * discarded call of the source that its key names. Without a known key it goes to
 * `dependencies.ingestCounters`.
 */
class RefusalCounters implements IngestCounters {
  readonly #dependencies: RefusalCountersDependencies;

  constructor(dependencies: RefusalCountersDependencies) {
    this.#dependencies = dependencies;
  }

  refused(code: string, request?: RefusedRequest): void {
    const { clock, currentObserver, ingestCounters, discardSampler, current, count } = this.#dependencies;
    const source = request?.writeKey === undefined ? undefined : current.writeKeys.find(request.writeKey);
    if (source === undefined) {
      ingestCounters.refused(code);
      return;
    }
    count([{ source: source.id, calls: 1, discarded: { [code]: 1 } }]);
    const detail = request?.detail;
    if (detail !== undefined) {
      const call = () => ({ refused: detail });
      discardSampler.add({ source: source.name, reason: code, at: clock.now(), call });
    }
    currentObserver.observer?.({ kind: 'discarded', source: source.name, reason: code });
  }

  discarded(reasons: Readonly<Record<string, number>>): void {
    this.#dependencies.ingestCounters.discarded(reasons);
  }

  changed(source: string, changes: ValueChanges): void {
    this.#dependencies.ingestCounters.changed(source, changes);
  }

  rateLimited(source: string): void {
    this.#dependencies.ingestCounters.rateLimited(source);
  }

  publicCalls(source: string, calls: number): void {
    this.#dependencies.ingestCounters.publicCalls(source, calls);
  }
}

/**
 * The caller whose address may be over the limit of its source. An import, and another service, send the
 * calls of everybody from a few addresses; but with a key that anybody can read, anybody could say to be such
 * a service.
 */
function limitedPeer(
  { type, writeKey, peer, passesOn }: IngestRequest,
  writeKeys: WriteKeyLookup,
): IngestRequest['peer'] {
  if (type !== 'forwarded') return passesOn === true ? undefined : peer;
  if (writeKey === undefined) return peer;
  const source = writeKeys.find(writeKey);
  const isSigned = source?.forwarded?.sharedSecret !== undefined;
  return source !== undefined && (isSigned || trustOf(source) === 'server') ? undefined : peer;
}
