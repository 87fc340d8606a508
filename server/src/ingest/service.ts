import { type Duration, type Monotonic, SECOND, type Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { IngestHandler, IngestRequest, IngestResult, RateLimitCheck } from '../ports/ingest.ts';
import type { Logger } from '../ports/logger.ts';
import type { CurrentObserver, DiscardCounters, DiscardSampler } from '../ports/telemetry.ts';
import { CommitQueue, type CommitQueueTools, type CommitResult } from './commit-queue.ts';
import { LedgerCounter, RefusalCounters } from './counters.ts';
import { loadEncoder } from './fast-path/parser.ts';
import { type ParsedRequest, parseRequest } from './parse.ts';
import type { WriteKeyLookup } from './write-key-auth.ts';

/** What a client is asked to wait when its call could not be stored; whole seconds. */
const OVERLOAD_RETRY_AFTER = 1;
const STORAGE_RETRY_AFTER = 5;

export interface IngestServiceTools extends CommitQueueTools {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly currentObserver: CurrentObserver;
  /** Gets what no source's ledger counts. */
  readonly discardCounters: DiscardCounters;
  /** Gets every call that is discarded. */
  readonly discardSampler: DiscardSampler;
  readonly newMessageId: () => string;
  /** Asked before anything of a request is stored or counted; without it everything is taken. */
  readonly checkRateLimit?: RateLimitCheck;
  /** The write keys valid now. */
  readonly writeKeys: () => WriteKeyLookup;
  /** Whether somebody reads a line for each request. */
  readonly logsCalls?: boolean;
  /** The name of a source by its id. */
  readonly sourceName: (id: number) => string;
}

type AcceptedRequest = Extract<ParsedRequest, { kind: 'received' }>;

/** How long a call that could not be stored speaks against being ready. */
const FAILURE_MEMORY: Duration = 10 * SECOND;

/** The receiving side whole: bytes in, verdict out, and between them the events on stable storage. */
export class IngestService {
  readonly #tools: IngestServiceTools;
  readonly #commits: CommitQueue;
  readonly #counts: LedgerCounter;
  /** For what stands before `receive` and refuses requests there. */
  readonly discardCounters: DiscardCounters;
  #failure: { readonly reason: string; readonly at: Monotonic } | undefined;

  constructor(tools: IngestServiceTools) {
    this.#tools = tools;
    this.#counts = new LedgerCounter(tools);
    this.discardCounters = new RefusalCounters({ ...tools, count: (counts) => this.#counts.add(counts) });
    this.#commits = new CommitQueue({ ...tools, onCommit: this.#counts.write });
    loadEncoder();
  }

  readonly handle: IngestHandler = (request, answer) => {
    const call = parseRequest(request, this.#tools.writeKeys(), this.#tools.newMessageId);
    const isWhole = call.kind === 'refused' && call.isWhole === true;
    const wait = isWhole ? 0 : (this.#tools.checkRateLimit?.(call.counts) ?? 0);
    if (wait > 0) {
      this.#tools.discardCounters.refused('rate_limited');
      answer({ kind: 'unavailable', code: 'rate_limited', retryAfter: wait });
      return;
    }
    this.#publishDiscards(call);
    this.#sampleDiscards(call, request.receivedAt);
    this.#countDiscards(call);
    if (call.kind === 'refused' && this.#tools.logsCalls) this.#logRefused(call, request);
    if (call.kind === 'received' && call.events.length > 0) {
      this.#store(call, request, answer);
      return;
    }
    if (call.counts.length > 0) this.#counts.add(call.counts);
    answer(call.kind === 'received' ? STORED : refusalOf(call));
  };

  /**
   * Why the last call could not be stored; empty when it could. Forgotten after a while: a server that is not ready may be
   * sent nothing, and would never find out that it is again.
   */
  readonly problems = (): readonly string[] => {
    const { reason, at } = this.#failure ?? { reason: '', at: Number.NEGATIVE_INFINITY };
    return this.#tools.clock.monotonic() - at < FAILURE_MEMORY ? [reason] : [];
  };

  /** Resolves when every call taken has its answer. Stop the listener first. */
  async stop(): Promise<void> {
    await this.#commits.stop();
    try {
      await this.#counts.stop();
    } catch (error) {
      this.#tools.logger.warn({ error }, 'ledger.counts_not_written');
    }
  }

  #store(call: AcceptedRequest, request: IngestRequest, answer: (verdict: IngestResult) => void): void {
    const takenAt = this.#tools.clock.monotonic();
    const taken = this.#commits.add({
      events: call.events,
      counts: call.counts,
      receivedAt: request.receivedAt,
      traceparent: request.traceparent,
      committed: (result) => {
        answer('error' in result ? this.#unavailable(result.error) : STORED);
        if (!('error' in result)) this.#afterCommit(call, request, { result, takenAt });
      },
    });
    if (!taken) answer({ kind: 'unavailable', code: 'overloaded', retryAfter: OVERLOAD_RETRY_AFTER });
  }

  #afterCommit(call: AcceptedRequest, request: IngestRequest, { result, takenAt }: StoredCall): void {
    const latencyMs = this.#tools.clock.monotonic() - takenAt;
    if (this.#failure !== undefined) {
      this.#failure = undefined;
      this.#tools.logger.info({}, 'storage.recovered');
    }
    if (this.#tools.logsCalls) this.#logAccepted(call, request, latencyMs);
    const observer = this.#tools.currentObserver();
    if (observer === undefined) return;
    call.events.forEach(({ origin, event }, index) => {
      observer({
        kind: result.isDuplicate(index) ? 'duplicate' : 'accepted',
        source: origin.name,
        event,
        latencyMs,
      });
    });
  }

  #logAccepted(
    { events, counts }: AcceptedRequest,
    { body, traceparent }: IngestRequest,
    latencyMs: Duration,
  ): void {
    const { logger, sourceName } = this.#tools;
    const source = counts.map((one) => sourceName(one.source)).join(', ');
    const facts = { source, events: events.length, bytes: body.length, latencyMs };
    logger.debug({ ...facts, ...(traceparent === undefined ? {} : { traceparent }) }, 'call.accepted');
  }

  #logRefused({ code }: { readonly code: string }, { body, traceparent }: IngestRequest): void {
    const facts = { code, bytes: body.length, ...(traceparent === undefined ? {} : { traceparent }) };
    this.#tools.logger.debug(facts, 'call.refused');
  }

  #unavailable(error: unknown): IngestResult {
    if (this.#failure === undefined) this.#tools.logger.error({ error }, 'storage.unavailable');
    const reason = error instanceof Error ? error.message : String(error);
    this.#failure = { reason, at: this.#tools.clock.monotonic() };
    return { kind: 'unavailable', code: 'storage_unavailable', retryAfter: STORAGE_RETRY_AFTER };
  }

  #publishDiscards(call: ParsedRequest): void {
    const observer = this.#tools.currentObserver();
    if (observer === undefined) return;
    const { sourceName } = this.#tools;
    for (const { source, discarded } of call.counts) {
      for (const [reason, n] of Object.entries(discarded)) {
        for (let nth = 0; nth < n; nth++) observer({ kind: 'discarded', source: sourceName(source), reason });
      }
    }
    for (const [reason, n] of Object.entries(unattributedReasons(call))) {
      for (let nth = 0; nth < n; nth++) observer({ kind: 'discarded', reason });
    }
  }

  #sampleDiscards({ discards }: ParsedRequest, at: Time): void {
    for (const { source, reason, call } of discards) {
      this.#tools.discardSampler.add({ source: source?.name, reason, at, call });
    }
  }

  #countDiscards(call: ParsedRequest): void {
    const { discardCounters: tallies } = this.#tools;
    if (call.kind === 'refused') {
      // With counts, a source was found and its ledger has it.
      if (call.counts.length === 0) tallies.refused(call.code);
      return;
    }
    tallies.discarded(call.unattributed);
    tallies.clockErrors(call.clock);
  }
}

interface StoredCall {
  readonly result: CommitResult;
  /** When it was handed over for its commit. */
  readonly takenAt: Monotonic;
}

const STORED: IngestResult = { kind: 'stored' };

/** What no ledger counts, by reason: a request that is refused before its source is known is one. */
function unattributedReasons(call: ParsedRequest): Readonly<Record<string, number>> {
  if (call.kind === 'received') return call.unattributed;
  return call.counts.length === 0 ? { [call.code]: 1 } : {};
}

function refusalOf(call: Extract<ParsedRequest, { kind: 'refused' }>): IngestResult {
  const { code, detail, invalid } = call;
  return {
    ...{ kind: 'refused', code },
    ...(detail === undefined ? {} : { detail }),
    ...(invalid === undefined ? {} : { invalid }),
  };
}
