import type { Client, Expectation, Facts } from './client.ts';
import { CASES, type CaseName } from './faults.ts';

/** A good client sends again until it is answered, however often that is, and waits as it is told. */
function ideal(name: CaseName): Facts {
  switch (name) {
    case 'none':
    case 'slow':
    case 'twice':
    // The status has arrived, and no client reads on when it is good.
    case 'cut':
      return { tries: 1 };
    case 'refused':
    case 'unknownKey':
      return { tries: 1, lost: true, told: true };
    default:
      return { tries: CASES[name].faults.length + 1 };
  }
}

interface Exception extends Expectation {
  readonly client: RegExp;
  readonly cases: readonly CaseName[];
}

const FIRST_GENERATION = /^analytics-node 6\./;
const BEFORE_3_1 = /^@segment\/analytics-node (1|2|3\.0)\./;
const BROWSER_1_83 = /^@segment\/analytics-next 1\.83\./;
const BROWSER_SINGLE = /^@segment\/analytics-next .* single calls$/;
const BROWSER_BATCHES = /^@segment\/analytics-next .* batches$/;

/** Where a client does otherwise, and why. The first that fits counts. */
const EXCEPTIONS: readonly Exception[] = [
  {
    client: FIRST_GENERATION,
    cases: ['tooMany'],
    tries: 2,
    hasty: true,
    note: 'It does not look at `Retry-After` and tries again after its own short delay.',
  },
  {
    client: BEFORE_3_1,
    cases: ['tooMany'],
    tries: 2,
    hasty: true,
    note: 'It does not look at `Retry-After` and tries again after its own short delay.',
  },
  {
    client: FIRST_GENERATION,
    cases: ['outage'],
    tries: 4,
    lost: true,
    told: true,
    note: 'It gives up after three retries, a second or two in all.',
  },
  {
    client: BEFORE_3_1,
    cases: ['outage'],
    tries: 4,
    lost: true,
    told: true,
    note: 'It gives up after three retries, a second or two in all. `maxRetries` raises that.',
  },
  {
    client: FIRST_GENERATION,
    cases: ['hangBefore'],
    tries: 1,
    lost: true,
    told: true,
    note: 'Its time limit (`timeout`, none by default) is one for all tries together, and the end of the call.',
  },
  {
    client: FIRST_GENERATION,
    cases: ['hangAfter'],
    tries: 1,
    told: true,
    note: 'Delivered, although the client reports the calls as failed.',
  },
  {
    client: FIRST_GENERATION,
    cases: ['cut'],
    tries: 2,
    note: 'It reads the answer to its end, and tries again.',
  },
  {
    client: BEFORE_3_1,
    cases: ['unknownKey'],
    tries: 4,
    lost: true,
    told: true,
    note: 'It tries everything but a 400 again, so a wrong key costs four requests.',
  },
  {
    client: BROWSER_1_83,
    cases: ['refused', 'unknownKey'],
    tries: 1,
    lost: true,
    note: 'It takes every 4xx but a 429 for a success.',
  },
  {
    client: BROWSER_BATCHES,
    cases: ['refused', 'unknownKey'],
    tries: 1,
    lost: true,
    note: 'It drops a refused batch without telling the page.',
  },
  {
    client: BROWSER_SINGLE,
    cases: ['hangBefore', 'hangAfter'],
    tries: 2,
    reloaded: true,
    note: 'It has no time limit. A call on its way is kept when the page is left, and sent again by the next page.',
  },
  {
    client: BROWSER_BATCHES,
    cases: ['hangBefore'],
    tries: 1,
    lost: true,
    note: 'It has no time limit, and a batch on its way is not kept when the page is left.',
  },
  {
    client: BROWSER_BATCHES,
    cases: ['hangAfter'],
    tries: 1,
    note: 'Delivered. The client never learns so, and would have lost the batch otherwise.',
  },
];

export function expected({ name, version, way }: Client, caseName: CaseName): Expectation {
  const title = `${name} ${version} ${way}`;
  const exception = EXCEPTIONS.find(({ client, cases }) => client.test(title) && cases.includes(caseName));
  if (exception === undefined) return ideal(caseName);
  const { client: _, cases: __, ...facts } = exception;
  return facts;
}
