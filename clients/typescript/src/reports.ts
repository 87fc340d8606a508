import type { Entry } from './backlog.ts';
import type { CallType } from './call.ts';
import { type Failure, type FailureCode, failure } from './failure.ts';
import type { Settings } from './options.ts';
import type { Answer } from './request.ts';

/** `accepted = delivered + failed + pending`, at any moment. */
export interface Counts {
  readonly accepted: number;
  /** Stored by the server. */
  readonly delivered: number;
  /** Reported as lost. */
  readonly failed: number;
  /** Waiting or on the way; after `close`, what stays in the spool. */
  readonly pending: number;
}

/** Facts about calls that end. */
export interface Ending {
  /** Absent: delivered. */
  readonly code?: FailureCode | undefined;
  readonly tries: number;
  readonly uncertain: boolean;
  readonly answer?: Answer | undefined;
}

interface Waiter {
  /** Calls up to this number are waited for. */
  readonly until: number;
  left: number;
  readonly done: () => void;
}

/**
 * Counts the calls of one client, and tells the program how each one ended, and wakes those who wait for
 * them.
 */
export class Reports {
  readonly #settings: Settings;
  readonly #waiters = new Set<Waiter>();
  #accepted = 0;
  #delivered = 0;
  #failed = 0;

  constructor(settings: Settings) {
    this.#settings = settings;
  }

  get counts(): Counts {
    const [accepted, delivered, failed] = [this.#accepted, this.#delivered, this.#failed];
    return { accepted, delivered, failed, pending: accepted - delivered - failed };
  }

  get accepted(): number {
    return this.#accepted;
  }

  accept(count: number): void {
    this.#accepted += count;
  }

  /** Calls that have been answered for before are left out. */
  end(entries: readonly Entry[], ending: Ending): void {
    let silent = 0;
    for (const entry of entries) {
      if (entry.settled) continue;
      entry.settled = true;
      if (ending.code === undefined) this.#delivered++;
      else this.#failed++;
      if (!this.#tell(entry, ending)) silent++;
      for (const waiter of this.#waiters) {
        if (entry.number! <= waiter.until && --waiter.left === 0) waiter.done();
      }
    }
    if (silent > 0 && ending.code !== undefined) {
      this.#settings.log(
        `${silent} calls are lost: ${failure(ending.code, circumstances(ending.answer)).message}`,
      );
    }
  }

  /** A call that was not accepted. */
  refuse(refusal: Failure, callback: Entry['callback']): void {
    const { onFailure, log } = this.#settings;
    if (callback === undefined && onFailure === undefined) log(`a call was refused: ${refusal.message}`);
    // After the call has returned, as every other callback.
    else queueMicrotask(() => this.#run([callback, onFailure], refusal));
  }

  /** Resolves when every call accepted until now has been answered for, or the time is over. */
  answered(timeout?: number): Promise<void> {
    const left = this.counts.pending;
    if (left === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(late);
        this.#waiters.delete(waiter);
        resolve();
      };
      const late = timeout === undefined ? undefined : setTimeout(done, timeout);
      const waiter: Waiter = { until: this.#accepted, left, done };
      this.#waiters.add(waiter);
    });
  }

  /** Whether anybody was told. */
  #tell(entry: Entry, { code, tries, uncertain, answer }: Ending): boolean {
    const { onSuccess, onFailure } = this.#settings;
    const { callback } = entry;
    if (code === undefined) {
      if (callback !== undefined) this.#run([callback], undefined);
      if (onSuccess !== undefined) this.#run([onSuccess], { ...identityOf(entry), tries });
      return true;
    }
    if (callback === undefined && onFailure === undefined) return false;
    const { messageId } = identityOf(entry);
    const known = { messageId, tries, uncertain, json: entry.json, ...circumstances(answer) };
    this.#run([callback, onFailure], failure(code, { accepted: true, ...known }));
    return true;
  }

  /** A mistake in a callback of the program must not stop the calls behind. */
  #run<Value>(callbacks: readonly (((value: Value) => void) | undefined)[], value: Value): void {
    for (const callback of callbacks) {
      try {
        callback?.(value);
      } catch (cause) {
        this.#settings.log(`a callback threw: ${String(cause)}`);
      }
    }
  }
}

function circumstances(answer: Answer | undefined) {
  const { status, said = '', cause } = answer ?? {};
  return { said, ...(status && { status }), ...(cause !== undefined && { cause }) };
}

/** The id and the type stand first in the JSON of every call. */
function identityOf({ json }: Entry): { messageId: string; type: CallType } {
  const [, id = '""', type = ''] = /^\{"messageId":("(?:[^"\\]|\\.)*"),"type":"(\w+)"/.exec(json) ?? [];
  return { messageId: JSON.parse(id) as string, type: type as CallType };
}
