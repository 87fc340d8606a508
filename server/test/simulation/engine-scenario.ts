import { MINUTE } from '../../src/model/time.ts';
import { Chance } from './random.ts';
import { HAS_DISK } from './recorded-disk.ts';
import { type Fault, type Scenario, scenarioOf } from './scenario.ts';

const FEWEST_KILLS = 3;
const MOST_KILLS = 12;
/** A step of the engine costs ten times that of the memory store. */
const LONGEST = 20 * MINUTE;

/** Kinds that the engine cannot have: nothing stands between the process and its files. */
const NOT_OURS: ReadonlySet<Fault['kind']> = new Set(['store away', 'store refuses', 'store doubts']);

/** The world of an integer with the embedded engine: one node that dies often. */
export function engineScenarioOf(seed: number): Scenario {
  const drawn = scenarioOf(seed, { nodes: 1 });
  const chance = new Chance(seed, 'engine');
  const lasts = Math.min(drawn.lasts, LONGEST);
  const busy = drawn.busy.filter(({ from }) => from < lasts);
  const times = busy.length > 0 ? busy : [{ from: 0, to: lasts }];
  const kills = Array.from(
    { length: FEWEST_KILLS + chance.below(MOST_KILLS - FEWEST_KILLS + 1) },
    (): Fault[] => {
      const { from, to } = chance.of(times);
      const at = chance.between(from, Math.min(to, lasts));
      const downFor = chance.magnitude(20, 20_000);
      const afterSteps = chance.below(200);
      const powerCut: Fault = {
        ...{ at, kind: 'power cut', node: 0, downFor, afterSteps, isInCommit: chance.is(0.6) },
        reached: chance.of([0, 0.5, 0.9]),
        sector: chance.of([512, 4096, 1]),
      };
      const isOfPower = chance.is(0.6) && HAS_DISK;
      const kill: Fault = isOfPower ? powerCut : { at, kind: 'kill', node: 0, afterSteps, downFor };
      // Most die while they are busy.
      const calls = Math.round(chance.magnitude(1, 60));
      return chance.is(0.7) ? [{ at: at - chance.below(20), kind: 'burst', calls }, kill] : [kill];
    },
  );
  const faults = [
    ...drawn.faults.filter(({ at, kind }) => at < lasts && !NOT_OURS.has(kind)),
    ...kills.flat(),
    ...slowness(chance, { ...drawn, lasts, busy: times }),
  ];
  return { ...drawn, lasts, busy: times, faults: faults.sort((a, b) => a.at - b.at) };
}

const EPISODE = 45_000;
const MOST_EPISODES = 25;

/**
 * A slow disk beside endpoints that fail for a moment, again and again: requests wait for each other there,
 * and share transactions. A delivery that is forgotten then is seen in the silence behind it.
 */
function slowness(chance: Chance, { lasts, destinations }: Scenario): Fault[] {
  if (chance.is(0.5)) return [];
  const urls = destinations.reduce((sum, { endpoints }) => sum + endpoints, 0);
  return Array.from({ length: Math.min(MOST_EPISODES, Math.floor(lasts / EPISODE)) }, (_, nth): Fault[] => {
    const at = nth * EPISODE + chance.below(EPISODE / 3);
    const flapping = Array.from({ length: urls }, (_, url): Fault => {
      const [up, down] = [chance.magnitude(50, 1000), chance.magnitude(200, 4000)];
      const mode = chance.of(['flaky', 'flaky', 'flaky', 'mixed', 'error'] as const);
      return { at, kind: 'flaps', url, mode, up, down, times: 1 + chance.below(3), calls: chance.below(10) };
    });
    const slow: Fault = { at, kind: 'store slow', lasts: EPISODE / 3, latency: chance.magnitude(30, 300) };
    return [slow, ...flapping.filter(() => chance.is(0.7))];
  }).flat();
}
