import { EngineStore } from './engine-store.ts';
import { inWorld } from './globals.ts';
import type { Lived } from './live.ts';
import type { Scenario } from './scenario.ts';
import { withThreads } from './threads.ts';
import { World } from './world.ts';

/** Lives a world whose one node has the embedded engine, with real files, in the thread of the world. */
export function liveInEngine(scenario: Scenario, hasTrace = false): Lived {
  let engine: EngineStore | undefined;
  const world = new World(scenario, (parts, listener) => {
    engine = new EngineStore(parts, listener);
    return engine;
  });
  const { kernel } = world;
  kernel.keepsLines = hasTrace;
  try {
    const outcome = inWorld(kernel, scenario.seed, () =>
      withThreads(kernel, engine!.handles, () => world.live()),
    );
    return { ...outcome, trace: kernel.lines };
  } finally {
    engine?.clean();
  }
}
