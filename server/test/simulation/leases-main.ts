/**
 * Lives worlds whose nodes have the leases of the PostgreSQL adapter, over rows that are simulated. The
 * arguments are those of `npm run simulate`.
 */
import { join } from 'node:path';
import { simulate } from './command.ts';
import { live } from './live.ts';
import { leaseScenarioOf } from './rows/scenario.ts';
import { LEASE_SITUATIONS } from './situations.ts';

simulate({
  ...{ command: 'npm run simulate:leases', scenarioOf: leaseScenarioOf, live },
  found: join(import.meta.dirname, 'found', 'with-leases'),
  ...{ situations: LEASE_SITUATIONS, gateSeeds: 24, twice: 8 },
});
