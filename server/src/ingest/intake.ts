import { type Duration, type Monotonic, SECOND, type Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/logger.ts';
import type { Watching } from '../ports/observer.ts';
import type { Admission, CallRequest, Receiver, Verdict } from '../ports/receiver.ts';
import type { Samples } from '../ports/samples.ts';
import type { Tallies } from '../ports/tallies.ts';
import { type Committed, GroupCommit, type GroupCommitTools } from './group-commit.ts';
import { LedgerCounts } from './ledger-counts.ts';
import { prepareScanning } from './manuscript.ts';
import { type ReceivedCall, receiveCall, type WriteKeys } from './receive.ts';
import { Refusals } from './refusals.ts';

/** What a client is asked to wait when its call could not be stored; whole seconds. */
const RETRY_AFTER_OVERLOAD = 1;
const RETRY_AFTER_STORAGE = 5;

export interface IntakeTools extends GroupCommitTools {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly watching: Watching;
  /** Gets what no source's ledger counts. */
  readonly tallies: Tallies;
  /** Gets every call that is discarded. */
  readonly samples: Samples;
  readonly newMessageId: () => string;
  /** Asked before anything of a request is stored or counted; without it everything is taken. */
  readonly admit?: Admission;
  /** The write keys valid now. */
  readonly writeKeys: () => WriteKeys;
  /** Whether somebody reads a line for each request. */
  readonly logsCalls?: boolean;
  /** The name of a source by its id. */
  readonly sourceName: (id: number) => string;
}

type Accepted = Extract<ReceivedCall, { kind: 'received' }>;

/** How long a call that could not be stored speaks against being ready. */
const REMEMBERED: Duration = 10 * SECOND;

/** The receiving side whole: bytes in, verdict out, and between them the events on stable storage. */
export class Intake {
  readonly #tools: IntakeTools;
  readonly #commits: GroupCommit;
  readonly #counts: LedgerCounts;
  /** For what stands before `receive` and refuses requests there. */
  readonly tallies: Tallies;
  #failure: { readonly reason: string; readonly at: Monotonic } | undefined;

  constructor(tools: IntakeTools) {
    this.#tools = tools;
    this.#counts = new LedgerCounts(tools);
    this.tallies = new Refusals({ ...tools, count: (counts) => this.#counts.add(counts) });
    this.#commits = new GroupCommit({ ...tools, beside: this.#counts.write });
    prepareScanning();
  }

  readonly receive: Receiver = (request, answer) => {
    const call = receiveCall(request, this.#tools.writeKeys(), this.#tools.newMessageId);
    const isWhole = call.kind === 'refused' && call.isWhole === true;
    const wait = isWhole ? 0 : (this.#tools.admit?.(call.counts) ?? 0);
    if (wait > 0) {
      this.#tools.tallies.refused('rate_limited');
      answer({ kind: 'unavailable', code: 'rate_limited', retryAfter: wait });
      return;
    }
    this.#observeDiscards(call);
    this.#sampleDiscards(call, request.receivedAt);
    this.#tally(call);
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
    return this.#tools.clock.monotonic() - at < REMEMBERED ? [reason] : [];
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

  #store(call: Accepted, request: CallRequest, answer: (verdict: Verdict) => void): void {
    const takenAt = this.#tools.clock.monotonic();
    const taken = this.#commits.add({
      events: call.events,
      counts: call.counts,
      receivedAt: request.receivedAt,
      traceparent: request.traceparent,
      committed: (result) => {
        answer('error' in result ? this.#unavailable(result.error) : STORED);
        if (!('error' in result)) this.#stored(call, request, { result, takenAt });
      },
    });
    if (!taken) answer({ kind: 'unavailable', code: 'overloaded', retryAfter: RETRY_AFTER_OVERLOAD });
  }

  #stored(call: Accepted, request: CallRequest, { result, takenAt }: StoredCall): void {
    const latencyMs = this.#tools.clock.monotonic() - takenAt;
    if (this.#failure !== undefined) {
      this.#failure = undefined;
      this.#tools.logger.info({}, 'storage.recovered');
    }
    if (this.#tools.logsCalls) this.#logAccepted(call, request, latencyMs);
    const observer = this.#tools.watching();
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

  #logAccepted({ events, counts }: Accepted, { body, traceparent }: CallRequest, latencyMs: Duration): void {
    const { logger, sourceName } = this.#tools;
    const source = counts.map((one) => sourceName(one.source)).join(', ');
    const facts = { source, events: events.length, bytes: body.length, latencyMs };
    logger.debug({ ...facts, ...(traceparent === undefined ? {} : { traceparent }) }, 'call.accepted');
  }

  #logRefused({ code }: { readonly code: string }, { body, traceparent }: CallRequest): void {
    const facts = { code, bytes: body.length, ...(traceparent === undefined ? {} : { traceparent }) };
    this.#tools.logger.debug(facts, 'call.refused');
  }

  #unavailable(error: unknown): Verdict {
    if (this.#failure === undefined) this.#tools.logger.error({ error }, 'storage.unavailable');
    const reason = error instanceof Error ? error.message : String(error);
    this.#failure = { reason, at: this.#tools.clock.monotonic() };
    return { kind: 'unavailable', code: 'storage_unavailable', retryAfter: RETRY_AFTER_STORAGE };
  }

  #observeDiscards(call: ReceivedCall): void {
    const observer = this.#tools.watching();
    if (observer === undefined) return;
    const { sourceName } = this.#tools;
    for (const { source, discarded } of call.counts) {
      for (const [reason, n] of Object.entries(discarded)) {
        for (let nth = 0; nth < n; nth++) observer({ kind: 'discarded', source: sourceName(source), reason });
      }
    }
    for (const [reason, n] of Object.entries(ofNoSource(call))) {
      for (let nth = 0; nth < n; nth++) observer({ kind: 'discarded', reason });
    }
  }

  #sampleDiscards({ discards }: ReceivedCall, at: Time): void {
    for (const { source, reason, call } of discards) {
      this.#tools.samples.add({ source: source?.name, reason, at, call });
    }
  }

  #tally(call: ReceivedCall): void {
    const { tallies } = this.#tools;
    if (call.kind === 'refused') {
      // With counts, a source was found and its ledger has it.
      if (call.counts.length === 0) tallies.refused(call.code);
      return;
    }
    tallies.discarded(call.unattributed);
    tallies.clock(call.clock);
  }
}

interface StoredCall {
  readonly result: Committed;
  /** When it was handed over for its commit. */
  readonly takenAt: Monotonic;
}

const STORED: Verdict = { kind: 'stored' };

/** What no ledger counts, by reason: a request that is refused before its source is known is one. */
function ofNoSource(call: ReceivedCall): Readonly<Record<string, number>> {
  if (call.kind === 'received') return call.unattributed;
  return call.counts.length === 0 ? { [call.code]: 1 } : {};
}

function refusalOf(call: Extract<ReceivedCall, { kind: 'refused' }>): Verdict {
  const { code, detail, invalid } = call;
  return {
    ...{ kind: 'refused', code },
    ...(detail === undefined ? {} : { detail }),
    ...(invalid === undefined ? {} : { invalid }),
  };
}
