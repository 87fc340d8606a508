/**
 * Lives worlds, each made of one integer, and says which promises they break. Exits with 1 where one did, or
 * where the gate's worlds did not come into every situation; with 2 where two lives of one world differ.
 *
 *   npm run simulate                                 200 worlds
 *   npm run simulate -- --from 500 --seeds 100       others
 *   npm run simulate -- --seed 700656 --trace 400    one, with the last lines of what happened in it
 *   npm run simulate -- --seed 7 --without 4,13      one, without some of its faults
 *   npm run simulate -- --seconds 60                 as many as so many seconds of processor time allow
 *   npm run simulate -- --skip 500,511               all but these
 *   npm run simulate -- --nodes 2 --hours 1          as many servers, for so long
 *   npm run simulate -- --go-on                      past a broken promise
 *   npm run simulate -- --twice                      each world twice
 *   npm run simulate -- --situations                 how many worlds came into each situation
 *   npm run simulate -- --gate                       what the gate does
 */
import { join } from 'node:path';
import { simulate } from './command.ts';
import { live } from './live.ts';
import { scenarioOf } from './scenario.ts';
import { SITUATIONS } from './situations.ts';

simulate({
  ...{ command: 'npm run simulate', scenarioOf, live, situations: SITUATIONS },
  found: join(import.meta.dirname, 'found'),
  ...{ gateSeeds: 200, twice: 20 },
});
