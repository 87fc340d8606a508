/**
 * Computes the gain of more cores from measured costs: `node bench/cores.ts ACCEPT DELIVER STORE`, the
 * microseconds of processor time for one event on the main thread until its commit, on the main thread for
 * its delivery, and on the writer thread, as `node bench/stages.ts` prints them. CROSS (2) is what handing
 * one event to another thread costs on each side, EFFICIENCY (0.92) what is left of a core with each doubling
 * of busy cores (shared memory and caches).
 *
 * A layout is as fast as its busiest thread, and no faster than all cores together. Clients and endpoints are
 * on other machines.
 */
const [accept = 25, deliver = 25, store = 8] = process.argv.slice(2).map(Number);
const CROSS = Number(process.env['CROSS'] ?? 2);
const EFFICIENCY = Number(process.env['EFFICIENCY'] ?? 0.92);
const CORES = [2, 4, 8, 16];

/** Threads of one kind, and what an event costs on one of them. */
interface Kind {
  readonly threads: number;
  readonly micros: number;
}

interface Layout {
  readonly name: string;
  /** The ways to spread so many cores over its threads. */
  readonly spreads: (cores: number) => Kind[][];
}

const LAYOUTS: readonly Layout[] = [
  {
    name: 'today: one thread accepts and delivers, one stores',
    spreads: () => [
      [
        { threads: 1, micros: accept + deliver },
        { threads: 1, micros: store },
      ],
    ],
  },
  {
    name: 'delivery on threads of its own',
    spreads: (cores) =>
      upTo(cores).map((threads) => [
        { threads: 1, micros: accept + CROSS },
        { threads, micros: deliver + CROSS },
        { threads: 1, micros: store },
      ]),
  },
  {
    name: 'several accepting threads and several delivering ones',
    spreads: (cores) =>
      upTo(cores).flatMap((accepting) =>
        upTo(cores).map((delivering) => [
          { threads: accepting, micros: accept + CROSS },
          { threads: delivering, micros: deliver + CROSS },
          { threads: 1, micros: store + CROSS },
        ]),
      ),
  },
  {
    name: 'a process with a store of its own for each two cores',
    spreads: (cores) => [
      [
        { threads: cores / 2, micros: accept + deliver },
        { threads: cores / 2, micros: store },
      ],
    ],
  },
];

console.log(`µs an event: accept ${accept}, deliver ${deliver}, store ${store}, crossing ${CROSS}\n`);
console.log(`| layout | ${CORES.map((cores) => `${cores} cores`).join(' | ')} |`);
console.log(`|---|${CORES.map(() => '---').join('|')}|`);
for (const { name, spreads } of LAYOUTS) {
  const cells = CORES.map((cores) => {
    const best = spreads(cores)
      .map((kinds) => ({ kinds, rate: rateOf(kinds, cores) }))
      .reduce((most, one) => (one.rate > most.rate ? one : most));
    const threads = best.kinds.map((kind) => kind.threads).join('+');
    return `${Math.round(best.rate / 1000)} k/s (${threads})`;
  });
  console.log(`| ${name} | ${cells.join(' | ')} |`);
}

/** Events a second. */
function rateOf(kinds: readonly Kind[], cores: number): number {
  const all = kinds.reduce((sum, { micros }) => sum + micros, 0);
  const busiest = Math.max(...kinds.map(({ threads, micros }) => micros / threads));
  const busy = Math.min(cores, all / busiest);
  return (1e6 / Math.max(busiest, all / cores)) * EFFICIENCY ** Math.log2(Math.max(1, busy));
}

function upTo(cores: number): number[] {
  return Array.from({ length: cores }, (_, index) => index + 1);
}
