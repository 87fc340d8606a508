/**
 * Time and chance of this process, which obey the kernel of a world while it lives. Parts of the program that
 * ask the globals themselves are in the world so; `npm run check` lists them. To be imported before the
 * program is.
 */
import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import timersPromises from 'node:timers/promises';
import { type Kernel, START } from './kernel.ts';
import { Chance } from './random.ts';

let kernel: Kernel | undefined;
let chance = new Chance(0, 'globals');

/** Lives in a world: the process has its time and chance until `live` returns. */
export function inWorld<Result>(world: Kernel, seed: number, live: () => Result): Result {
  kernel = world;
  chance = new Chance(seed, 'globals');
  try {
    return live();
  } finally {
    kernel = undefined;
  }
}

/** The event loop of the machine, from which worlds are lived. */
export const realImmediate = globalThis.setImmediate;

/** A turn of the event loop takes a microsecond. */
const TURN = 0.001;

type Run = (...given: unknown[]) => void;

class SimulatedTimer {
  cancel: () => void = () => {};

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  hasRef(): boolean {
    return false;
  }

  [Symbol.dispose](): void {
    this.cancel();
  }
}

function timeout(world: Kernel, run: Run, delay = 1, ...given: unknown[]): SimulatedTimer {
  const timer = new SimulatedTimer();
  timer.cancel = world.after(Math.max(1, delay), 'timer', () => run(...given));
  return timer;
}

function interval(world: Kernel, run: Run, delay = 1, ...given: unknown[]): SimulatedTimer {
  const timer = new SimulatedTimer();
  const again = () => {
    timer.cancel = world.after(Math.max(1, delay), 'interval', () => {
      again();
      run(...given);
    });
  };
  again();
  return timer;
}

function immediate(world: Kernel, run: Run, ...given: unknown[]): SimulatedTimer {
  const timer = new SimulatedTimer();
  timer.cancel = world.after(TURN, 'immediate', () => run(...given));
  return timer;
}

type Method = (...given: never[]) => unknown;

/** Puts a method in the place of another, for as long as a world lives. */
function replace(
  owner: object,
  name: string,
  simulated: (world: Kernel, ...given: never[]) => unknown,
): void {
  const methods = owner as Record<string, Method>;
  const own = methods[name]!;
  methods[name] = function (this: unknown, ...given: never[]) {
    return kernel === undefined ? own.apply(this, given) : simulated(kernel, ...given);
  };
}

function replaceCancel(name: string): void {
  const methods = globalThis as unknown as Record<string, (timer: unknown) => void>;
  const own = methods[name]!;
  methods[name] = (timer) => (timer instanceof SimulatedTimer ? timer.cancel() : own(timer));
}

replace(globalThis, 'setTimeout', timeout);
replace(globalThis, 'setInterval', interval);
replace(globalThis, 'setImmediate', immediate);
for (const name of ['clearTimeout', 'clearInterval', 'clearImmediate']) replaceCancel(name);
replace(performance, 'now', (world) => world.now);
replace(performance, 'eventLoopUtilization', () => ({ idle: 0, active: 0, utilization: 0 }));
replace(Date, 'now', (world) => START + Math.floor(world.now));
replace(Math, 'random', () => chance.next());
replace(process, 'nextTick', (_, run: Run, ...given: never[]) => queueMicrotask(() => run(...given)));
replace(process, 'threadCpuUsage', () => ({ user: 0, system: 0 }));
replace(timersPromises, 'setTimeout', (world, delay: number, value: unknown) => {
  return new Promise((resolve) => timeout(world, () => resolve(value), delay));
});
replace(timersPromises, 'setImmediate', (world, value: unknown) => {
  return new Promise((resolve) => immediate(world, () => resolve(value)));
});
replace(crypto, 'randomBytes', (_, size: number) =>
  Buffer.from(Array.from({ length: size }, () => chance.below(256))),
);
replace(crypto, 'randomUUID', () => {
  const hex = (length: number) => Array.from({ length }, () => chance.below(16).toString(16)).join('');
  return `${hex(8)}-${hex(4)}-4${hex(3)}-8${hex(3)}-${hex(12)}`;
});
syncBuiltinESMExports();
