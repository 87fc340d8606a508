import { MINUTE } from '../../../src/model/time.ts';
import { Chance } from '../random.ts';
import { type CutOff, type Fault, type Scenario, scenarioOf } from '../scenario.ts';

/** Nodes ask each other all the time, and each question is a few messages. */
const LONGEST = 2 * MINUTE;
/** Time for several leases. */
const SHORTEST = MINUTE;
const FEWEST_FAULTS = 4;
const MOST_FAULTS = 14;

/** Everything that makes a node lose its lease, and hardly anything that does not. */
const KINDS = [
  ...(['still', 'still', 'still', 'cut off', 'cut off', 'kill'] as const),
  ...(['store away', 'store silent', 'store slow', 'store doubts', 'store refuses'] as const),
] as const;

/** The world of an integer with the leases of the PostgreSQL adapter: two or three nodes that lose theirs. */
export function leaseScenarioOf(seed: number): Scenario {
  const chance = new Chance(seed, 'leases');
  const drawn = scenarioOf(seed, { nodes: 2 + chance.below(2) });
  const lasts = Math.min(Math.max(drawn.lasts, SHORTEST), LONGEST);
  const { nodes, destinations } = drawn;
  const urls = destinations.reduce((sum, { endpoints }) => sum + endpoints, 0);
  const faults = drawn.faults.filter(({ at }) => at < lasts);
  const count = FEWEST_FAULTS + chance.below(MOST_FAULTS - FEWEST_FAULTS + 1);
  for (let nth = 0; nth < count; nth++) {
    const at = chance.between(0, lasts * 0.9);
    const fault = faultOf(chance, at, { nodes, lasts });
    faults.push(fault);
    if (chance.is(0.3)) faults.push(...frozenWhileRenewing(chance, at, { nodes, lasts }));
    if ('node' in fault && chance.is(0.5)) faults.push(...soonAfter(chance, fault, { lasts }));
    // Something is to be sent while it happens, and some requests outlive the lease.
    if (chance.is(0.6))
      faults.push({ at: at + chance.between(-500, 9000), kind: 'burst', calls: 1 + chance.below(20) });
    const mode = chance.of(['late', 'hangs'] as const);
    if (chance.is(0.4))
      faults.push({ at: at - 500, kind: 'endpoint', url: chance.below(urls), mode, lasts: 12_000 });
  }
  const busy = drawn.busy.filter(({ from }) => from < lasts);
  return {
    ...{ ...drawn, lasts, busy, hasLeaseRows: true },
    faults: faults.filter(({ at }) => at >= 0 && at < lasts).sort((a, b) => a.at - b.at),
  };
}

/** How long something keeps a node from renewing its lease: most often for about as long as it lasts. */
function durationOf(chance: Chance): number {
  return chance.is(0.7) ? chance.between(3000, 12_000) : chance.magnitude(200, 40_000);
}

/** A node stands still with a renewal on its way, for about as long as it may without it. */
function frozenWhileRenewing(
  chance: Chance,
  at: number,
  { nodes, lasts }: Pick<Scenario, 'nodes' | 'lasts'>,
): Fault[] {
  const still: Fault = {
    ...{ at, kind: 'still', node: chance.below(nodes), areSocketsFirst: chance.is(0.8) },
    lasts: Math.min(chance.between(6500, 9000), lasts - at - 1),
  };
  return [
    { at: at - 2500, kind: 'store slow', lasts: 4000, latency: chance.magnitude(100, 900) },
    { at: at - 100, kind: 'burst', calls: 5 + chance.below(20) },
    still,
  ];
}

function silenceOf(chance: Chance): Pick<CutOff, 'isSilent' | 'isOfAnswers'> {
  return chance.is(0.3) ? { isSilent: false } : { isSilent: true, isOfAnswers: chance.is(0.5) };
}

/**
 * The same node is in trouble again when it has just come back: its last renewal may be older than it seems.
 */
function soonAfter(
  chance: Chance,
  { at, node, ...first }: Extract<Fault, { node: number }>,
  { lasts }: Pick<Scenario, 'lasts'>,
): Fault[] {
  const until = at + ('lasts' in first ? first.lasts : 0) + chance.between(0, 900);
  const most = lasts - until - 1;
  if (most < 1) return [];
  return [
    {
      ...{ at: until, kind: 'cut off', node, ...silenceOf(chance) },
      lasts: Math.min(chance.between(2000, 12_000), most),
    },
  ];
}

function faultOf(
  chance: Chance,
  at: number,
  { nodes, lasts: worldLasts }: Pick<Scenario, 'nodes' | 'lasts'>,
): Fault {
  const kind = chance.of(KINDS);
  const node = chance.below(nodes);
  // Everything is well when the world says so.
  const lasts = Math.min(durationOf(chance), worldLasts - at - 1);
  switch (kind) {
    case 'still':
      return { at, kind, node, lasts, areSocketsFirst: chance.is(0.5) };
    case 'cut off':
      return { at, kind, node, lasts, ...silenceOf(chance) };
    case 'kill':
      return { at, kind, node, afterSteps: chance.below(200), downFor: chance.magnitude(20, 90_000) };
    case 'store away':
    case 'store silent':
      return { at, kind, lasts };
    case 'store slow':
      return { at, kind, lasts, latency: chance.magnitude(100, 3000) };
    case 'store doubts':
    case 'store refuses':
      return {
        at,
        kind,
        lasts: Math.min(3 * lasts, worldLasts - at - 1),
        share: chance.magnitude(0.05, 0.7),
      };
  }
}
