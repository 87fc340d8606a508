import { MINUTE } from '../../src/model/time.ts';
import { type ErrorName, FULL, KINDS, type Kind, READ_ONLY } from '../support/disk-faults/control-page.ts';
import { Chance } from './random.ts';
import { type DiskFailing, type Fault, type Scenario, scenarioOf, type Wishes } from './scenario.ts';

const FEWEST_KILLS = 3;
const MOST_KILLS = 12;
/** A step of the engine costs ten times that of the memory store. */
const LONGEST = 20 * MINUTE;

/** Kinds that the engine cannot have: nothing stands between the process and its files. */
const NOT_OURS: ReadonlySet<Fault['kind']> = new Set(['store away', 'store refuses', 'store doubts']);

/** The world of an integer with the embedded engine: one node that dies often. */
export function engineScenarioOf(seed: number, { nodes = 1, hours }: Wishes = {}): Scenario {
  if (nodes !== 1) throw new Error('a world with the embedded engine has one server: leave out --nodes');
  const drawn = scenarioOf(seed, { nodes, hours });
  const chance = new Chance(seed, 'engine');
  const lasts = Math.min(drawn.lasts, LONGEST);
  const busy = drawn.busy.filter(({ from }) => from < lasts);
  const times = busy.length > 0 ? busy : [{ from: 0, to: lasts }];
  const kills = Array.from(
    { length: FEWEST_KILLS + chance.below(MOST_KILLS - FEWEST_KILLS + 1) },
    (): Fault[] => {
      const { from, to } = chance.of(times);
      const at = chance.between(from, Math.min(to, lasts));
      const death = deathAt(chance, at);
      // Most die while they are busy.
      const calls = Math.round(chance.magnitude(1, 60));
      return chance.is(0.7) ? [{ at: at - chance.below(20), kind: 'burst', calls }, death] : [death];
    },
  );
  const faults = [
    ...drawn.faults.filter(({ at, kind }) => at < lasts && !NOT_OURS.has(kind)),
    ...kills.flat(),
    ...slowness(chance, { ...drawn, lasts, busy: times }),
    ...failingDisk(seed, { lasts, busy: times }),
  ];
  return { ...drawn, lasts, busy: times, faults: faults.sort((a, b) => a.at - b.at) };
}

/** Of the process, or of its machine. */
function deathAt(chance: Chance, at: number): Fault {
  const of = { node: 0, downFor: chance.magnitude(20, 20_000), afterSteps: chance.below(200) };
  const powerCut: Fault = {
    ...{ at, kind: 'power cut', ...of, when: chance.is(0.6) ? 'in a commit' : 'later' },
    reached: chance.of([0, 0.5, 0.9]),
    sector: chance.of([512, 4096, 1]),
  };
  return chance.is(0.6) ? powerCut : { at, kind: 'kill', ...of };
}

const MOST_FAILINGS = 8;

/** Calls that fail together, and the errors with which they do. */
const FAILINGS: readonly (readonly [ErrorName, readonly Kind[]])[] = [
  ...(['sync', 'write', 'read', 'open', 'truncate', 'unlink', 'rename'] as const).map(
    (kind) => ['EIO', [kind]] as const,
  ),
  ...(
    [
      ['sync'],
      ['sync', 'open'],
      ['sync', 'open'],
      ['sync', 'open'],
      ['write', 'sync'],
      ['write', 'truncate'],
      KINDS,
    ] as const
  ).map((kinds) => ['EIO', kinds] as const),
  ...(['ENOSPC', 'ENOSPC', 'ENOSPC'] as const).map((error) => [error, FULL] as const),
  ['EROFS', READ_ONLY],
];

/** A disk that fails for a moment, for a while, or until the process is started anew. */
function failingDisk(seed: number, { lasts, busy }: Pick<Scenario, 'lasts' | 'busy'>): Fault[] {
  const chance = new Chance(seed, 'disk');
  if (chance.is(0.4)) return [];
  return Array.from({ length: 1 + chance.below(MOST_FAILINGS) }, (): Fault[] => {
    const { from, to } = chance.of(busy);
    const at = chance.between(from, Math.min(to, lasts));
    if (chance.is(0.25)) return lostSync(chance, at);
    const [error, calls] = chance.of(FAILINGS);
    const nth = Math.round(chance.magnitude(1, chance.of([3, 30])));
    const times = chance.of([1, 2, 5, 20, undefined, undefined]);
    const lasting = chance.magnitude(200, MINUTE);
    const failing: DiskFailing = { error, calls, nth, ...(times !== undefined && { times }) };
    const bursts = Array.from({ length: 3 }, (_, part): Fault => {
      return { at: at + (lasting * part) / 3, kind: 'burst', calls: Math.round(chance.magnitude(1, 30)) };
    });
    const death = deathAt(chance, at + chance.between(0, lasting));
    const [isForEver, isDeadly] = [chance.is(0.2), chance.is(0.4)];
    const fails: Fault = { at, kind: 'disk fails', ...failing, ...(!isForEver && { lasts: lasting }) };
    if (death.kind === 'power cut' && chance.is(0.5)) {
      const cut: Fault = { ...death, at, when: 'at a reopening' };
      return [cut, fails, ...bursts];
    }
    return [fails, ...bursts, ...(isForEver || isDeadly ? [death] : [])];
  }).flat();
}

/**
 * A commit whose sync fails, and that of the file which is closed behind it: it stands in the log, in the
 * page cache alone. The power fails while the next connection copies it into the file.
 */
function lostSync(chance: Chance, at: number): Fault[] {
  const nth = 1 + chance.below(3);
  return [
    {
      ...{ at, kind: 'power cut', when: 'at a reopening', node: 0, afterSteps: 0 },
      ...{
        downFor: chance.magnitude(20, 2000),
        reached: chance.of([0.5, 0.9]),
        sector: chance.of([512, 4096]),
      },
    },
    { at, kind: 'disk fails', calls: ['sync'], error: 'EIO', nth, times: 1 + chance.below(3), lasts: 10_000 },
    { at, kind: 'burst', calls: 10 },
  ];
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
