import { SECOND, type Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/logger.ts';
import type { Observer } from '../ports/observer.ts';
import type { Admission, CallRequest, Receiver, Verdict } from '../ports/receiver.ts';
import type { Samples } from '../ports/samples.ts';
import type { Tallies } from '../ports/tallies.ts';
import { type Committed, GroupCommit, type GroupCommitTools } from './group-commit.ts';
import { type ReceivedCall, receiveCall, type WriteKeys } from './receive.ts';

/** What a client is asked to wait when its call could not be stored; whole seconds. */
const RETRY_AFTER_OVERLOAD = 1;
const RETRY_AFTER_STORAGE = 5;

/** Counts that no commit carried are written this often. */
const COUNTS_EVERY = SECOND;

export interface IntakeTools extends GroupCommitTools {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly observer: Observer | undefined;
  /** Gets what no source's ledger counts. */
  readonly tallies: Tallies;
  /** Gets every call that is discarded. */
  readonly samples: Samples;
  readonly newMessageId: () => string;
  /** Asked before anything of a request is stored or counted; without it everything is taken. */
  readonly admit?: Admission;
  /** The write keys valid now. */
  readonly writeKeys: () => WriteKeys;
  /** The name of a source by its id. */
  readonly sourceName: (id: number) => string;
}

type Accepted = Extract<ReceivedCall, { kind: 'received' }>;

/** The receiving side whole: bytes in, verdict out, and between them the events on stable storage. */
export class Intake {
  readonly #tools: IntakeTools;
  readonly #commits: GroupCommit;
  #cancelTimer: (() => void) | undefined;
  #storageFailing = false;

  constructor(tools: IntakeTools) {
    this.#tools = tools;
    this.#commits = new GroupCommit(tools);
  }

  readonly receive: Receiver = (request, answer) => {
    const call = receiveCall(request, this.#tools.writeKeys(), this.#tools.newMessageId);
    const wait = this.#tools.admit?.(call.counts) ?? 0;
    if (wait > 0) {
      this.#tools.tallies.refused('rate_limited');
      answer({ kind: 'unavailable', code: 'rate_limited', retryAfter: wait });
      return;
    }
    this.#observeDiscards(call);
    this.#sampleDiscards(call, request.receivedAt);
    this.#tally(call);
    if (call.kind === 'received' && call.events.length > 0) {
      this.#store(call, request, answer);
      return;
    }
    if (call.counts.length > 0) {
      this.#commits.count(call.counts);
      this.#writeCountsLater();
    }
    answer(call.kind === 'received' ? STORED : refusalOf(call));
  };

  /** Resolves when every call taken has its answer. Stop the listener first. */
  async stop(): Promise<void> {
    this.#cancelTimer?.();
    try {
      await this.#commits.stop();
    } catch (error) {
      this.#tools.logger.warn({ error }, 'ledger.counts_not_written');
    }
  }

  #store(call: Accepted, request: CallRequest, answer: (verdict: Verdict) => void): void {
    const taken = this.#commits.add({
      events: call.events,
      counts: call.counts,
      receivedAt: request.receivedAt,
      committed: (result) => {
        answer('error' in result ? this.#unavailable(result.error) : STORED);
        if (!('error' in result)) this.#stored(call, request.receivedAt, result);
      },
    });
    if (!taken) answer({ kind: 'unavailable', code: 'overloaded', retryAfter: RETRY_AFTER_OVERLOAD });
  }

  #stored(call: Accepted, receivedAt: Time, result: Committed): void {
    if (this.#storageFailing) {
      this.#storageFailing = false;
      this.#tools.logger.info({}, 'storage.recovered');
    }
    const { observer, clock } = this.#tools;
    if (observer === undefined) return;
    const latencyMs = clock.now() - receivedAt;
    call.events.forEach(({ origin, event }, index) => {
      observer({
        kind: result.isDuplicate(index) ? 'duplicate' : 'accepted',
        source: origin.name,
        event,
        latencyMs,
      });
    });
  }

  #unavailable(error: unknown): Verdict {
    if (!this.#storageFailing) this.#tools.logger.error({ error }, 'storage.unavailable');
    this.#storageFailing = true;
    return { kind: 'unavailable', code: 'storage_unavailable', retryAfter: RETRY_AFTER_STORAGE };
  }

  #observeDiscards(call: ReceivedCall): void {
    const { observer, sourceName } = this.#tools;
    if (observer === undefined) return;
    for (const { source, discarded } of call.counts) {
      for (const [reason, n] of Object.entries(discarded)) {
        for (let nth = 0; nth < n; nth++) observer({ kind: 'discarded', source: sourceName(source), reason });
      }
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

  #writeCountsLater(): void {
    const { clock } = this.#tools;
    this.#cancelTimer ??= clock.at(clock.now() + COUNTS_EVERY, () => this.#writeCounts());
  }

  #writeCounts(): void {
    this.#cancelTimer = undefined;
    this.#commits.flushCounts().catch((error: unknown) => {
      this.#tools.logger.warn({ error }, 'ledger.counts_not_written');
      this.#writeCountsLater();
    });
  }
}

const STORED: Verdict = { kind: 'stored' };

function refusalOf(call: Extract<ReceivedCall, { kind: 'refused' }>): Verdict {
  const { code, detail, invalid } = call;
  return {
    ...{ kind: 'refused', code },
    ...(detail === undefined ? {} : { detail }),
    ...(invalid === undefined ? {} : { invalid }),
  };
}
