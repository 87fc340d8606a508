import { EngineStore } from './engine-store.ts';
import { inWorld } from './globals.ts';
import type { Scenario } from './scenario.ts';
import { withThreads } from './threads.ts';
import { type Outcome, World } from './world.ts';

/** Lives a world whose one node has the embedded engine, with real files, in the thread of the world. */
export function liveInEngine(
  scenario: Scenario,
  trace = 0,
): { readonly world: World; readonly outcome: Outcome } {
  let engine: EngineStore | undefined;
  const world = new World(scenario, (parts, listener) => {
    engine = new EngineStore(parts, listener);
    return engine;
  });
  world.kernel.keepsLines = trace > 0;
  try {
    const { kernel } = world;
    const outcome = inWorld(kernel, scenario.seed, () =>
      withThreads(kernel, engine!.handles, () => world.live()),
    );
    return { world, outcome };
  } finally {
    engine?.clean();
  }
}
