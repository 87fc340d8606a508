import { inWorld } from './globals.ts';
import { LeaseStore } from './rows/store.ts';
import type { Scenario } from './scenario.ts';
import { type Outcome, World } from './world.ts';

/** A world that was lived, with its trace where that was asked for. */
export interface Lived extends Outcome {
  readonly trace: readonly string[];
}

/** Lives a scenario. Call it from a callback of the event loop, not from a promise. */
export function live(scenario: Scenario, hasTrace = false): Lived {
  const world = scenario.hasLeaseRows
    ? new World(scenario, (...given) => new LeaseStore(...given))
    : new World(scenario);
  world.kernel.keepsLines = hasTrace;
  const outcome = inWorld(world.kernel, scenario.seed, () => world.live());
  return { ...outcome, trace: world.kernel.lines };
}

export function without(scenario: Scenario, left: ReadonlySet<number>): Scenario {
  return { ...scenario, faults: scenario.faults.filter((_, nth) => !left.has(nth)) };
}

/** The faults that need not happen for the same promise to be broken, by their place in the scenario. */
export function shrink(scenario: Scenario, breaks: (shorter: Scenario) => boolean): Set<number> {
  const left = new Set<number>();
  const { length } = scenario.faults;
  for (let piece = length; piece >= 1; piece = Math.floor(piece / 2)) {
    for (let from = 0; from < length; from += piece) {
      const tried = new Set(left);
      for (let nth = from; nth < Math.min(from + piece, length); nth++) tried.add(nth);
      if (tried.size > left.size && breaks(without(scenario, tried))) for (const nth of tried) left.add(nth);
    }
  }
  return left;
}

/** The newest lines of every process, in the order in which they were written. */
export function lastLines(trace: readonly string[], count: number): readonly string[] {
  const lives = new Map<string, number[]>();
  for (const [nth, line] of trace.entries()) {
    const life = line.slice(15).split(' ', 1)[0]!;
    lives.set(life, [...(lives.get(life) ?? []), nth]);
  }
  const each = Math.max(1, Math.floor(count / Math.max(1, lives.size)));
  const chosen = [...lives.values()].flatMap((lines) => lines.slice(-each)).sort((a, b) => a - b);
  return chosen.slice(-count).map((nth) => trace[nth]!);
}
