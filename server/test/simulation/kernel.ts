import { setFlagsFromString } from 'node:v8';
import { Chance } from './random.ts';

setFlagsFromString('--allow-natives-syntax');
/** Runs microtasks until none is left: everything that waits for nothing outside has happened then. */
const settlePromises = new Function('%PerformMicrotaskCheckpoint()') as () => void;

/** The wall clock's time when a world begins. */
export const START = Date.UTC(2026, 0, 1, 12);

/**
 * One run of one process. Everything it has asked for is forgotten when it dies, and put off while it stands
 * still.
 */
export interface Life {
  readonly name: string;
  isOver: boolean;
  /** It stands still until then, as by SIGSTOP or on a suspended machine. */
  stillUntil: number;
  /** Messages of sockets that came meanwhile are handled before the timers that are due. */
  areSocketsFirst: boolean;
}

export function newLife(name: string): Life {
  return { name, isOver: false, stillUntil: 0, areSocketsFirst: false };
}

interface Task {
  readonly at: number;
  /** Decides between tasks of the same time; 0 for timers, which keep their order. */
  readonly tie: number;
  readonly number: number;
  readonly life: Life | undefined;
  readonly name: string;
  readonly run: () => void;
  isCancelled: boolean;
}

/** Lines of the trace that are kept before the older ones are let go. */
const SPARE_LINES = 2000;

/**
 * The event loop of a whole world: servers, clients, endpoints and the store. It owns time, so nothing in it
 * waits for real, and one integer gives the same order of everything each time. Times are milliseconds since
 * the world began, with fractions.
 */
export class Kernel {
  now = 0;
  /** Tasks that ran. */
  steps = 0;
  /** The life whose code runs; undefined while none does. */
  current: Life | undefined;
  /** Called after every step. */
  afterStep: (() => void) | undefined;
  /** The newest lines of the trace, when somebody reads them. */
  readonly lines: string[] = [];
  keepsLines = false;
  readonly #heap: Task[] = [];
  readonly #ties: Chance;
  #tasks = 0;
  #hash1 = 0x811c9dc5;
  #hash2 = 0x1b873593;

  constructor(seed: number) {
    this.#ties = new Chance(seed, 'ties');
  }

  /** Equal for two worlds in which the same things happened in the same order. */
  get digest(): string {
    const hex = (hash: number) => (hash >>> 0).toString(16).padStart(8, '0');
    return hex(this.#hash1) + hex(this.#hash2);
  }

  /** Writes down what happened, into the digest and the trace. */
  note(what: string, ...facts: readonly (number | string)[]): void {
    this.#mix(what);
    for (const fact of facts) this.#mix(fact);
    if (this.keepsLines) this.say(`${what} ${facts.join(' ')}`);
  }

  /** Adds a line to the trace alone. */
  say(line: string): void {
    this.lines.push(`${(this.now / 1000).toFixed(6).padStart(14)} ${this.current?.name ?? '-'} ${line}`);
    if (this.lines.length > 2 * SPARE_LINES) this.lines.splice(0, SPARE_LINES);
  }

  /** Runs something after a while, unless the life that asks is over by then. Returns how to cancel it. */
  after(delay: number, name: string, run: () => void): () => void {
    return this.#add({ at: this.now + Math.max(0, delay), tie: 0, life: this.current, name, run });
  }

  /** The same for the world outside of all processes. */
  later(delay: number, name: string, run: () => void): () => void {
    return this.#add({ at: this.now + Math.max(0, delay), tie: 0, life: undefined, name, run });
  }

  /**
   * The same for what comes from outside to a life, or to nobody: of two that come at the same time either is
   * first.
   */
  arrive(delay: number, life: Life | undefined, name: string, run: () => void): () => void {
    return this.#add({ at: this.now + Math.max(0, delay), tie: this.#ties.bits(), life, name, run });
  }

  /** Runs something as a life, outside of the loop. */
  as(life: Life | undefined, run: () => void): void {
    const before = this.current;
    this.current = life;
    run();
    settlePromises();
    this.current = before;
  }

  /** Runs until a time, or until it is over. Synchronous: nothing real happens in between. */
  run(until: number, isOver: () => boolean): void {
    for (let task = this.#heap[0]; task !== undefined && task.at <= until; task = this.#heap[0]) {
      this.#pop();
      if (task.isCancelled || task.life?.isOver === true) continue;
      this.now = Math.max(this.now, task.at);
      if (task.life !== undefined && task.life.stillUntil > this.now) {
        this.#putOff(task, task.life);
        continue;
      }
      this.#step(task);
      if (isOver()) return;
    }
    this.now = until;
  }

  #step(task: Task): void {
    this.steps++;
    this.current = task.life;
    this.#hash1 = Math.imul(this.#hash1 ^ task.number, 0x01000193);
    this.#mix(task.name);
    task.run();
    settlePromises();
    this.current = undefined;
    this.afterStep?.();
  }

  #putOff(task: Task, life: Life): void {
    const isLast = task.tie === 0 && life.areSocketsFirst;
    this.#push({ ...task, at: life.stillUntil, tie: isLast ? Number.MAX_SAFE_INTEGER : task.tie });
  }

  #add(task: Omit<Task, 'number' | 'isCancelled'>): () => void {
    const added = { ...task, number: ++this.#tasks, isCancelled: false };
    this.#push(added);
    return () => {
      added.isCancelled = true;
    };
  }

  #mix(value: number | string): void {
    if (typeof value === 'number') {
      this.#hash1 = Math.imul(this.#hash1 ^ (value | 0), 0x01000193);
      this.#hash2 = (Math.imul(this.#hash2 ^ ((value * 1024) | 0), 0x85ebca6b) + this.#hash1) | 0;
      return;
    }
    for (let at = 0; at < value.length; at++)
      this.#hash1 = Math.imul(this.#hash1 ^ value.charCodeAt(at), 0x01000193);
    this.#hash2 = (Math.imul(this.#hash2 ^ this.#hash1, 0xc2b2ae35) + value.length) | 0;
  }

  #push(task: Task): void {
    const heap = this.#heap;
    let at = heap.push(task) - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (!isBefore(task, heap[above]!)) break;
      heap[at] = heap[above]!;
      at = above;
    }
    heap[at] = task;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop()!;
    if (heap.length === 0) return;
    let at = 0;
    for (let below = 1; below < heap.length; below = at * 2 + 1) {
      if (below + 1 < heap.length && isBefore(heap[below + 1]!, heap[below]!)) below++;
      if (!isBefore(heap[below]!, last)) break;
      heap[at] = heap[below]!;
      at = below;
    }
    heap[at] = last;
  }
}

function isBefore(a: Task, b: Task): boolean {
  if (a.at !== b.at) return a.at < b.at;
  return a.tie === b.tie ? a.number < b.number : a.tie < b.tie;
}

/**
 * Throws where promises cannot be settled by hand: inside of a promise's own callback V8 drains nothing, and
 * a world would stand still.
 */
export function checkThatPromisesSettle(): void {
  let isSettled = false;
  void Promise.resolve().then(() => {
    isSettled = true;
  });
  settlePromises();
  if (!isSettled)
    throw new Error('worlds run outside of promises: call them from a callback of the event loop');
}
