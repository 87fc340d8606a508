/**
 * `npm run test:leases`: explores the model of leases in every scenario, and without each guard.
 *
 *   npm run test:leases -- --without latch    prints the shortest way to what is broken without it
 */
import { parseArgs } from 'node:util';
import { IS_LONG } from '../../support/runs.ts';
import { explore } from './explore.ts';
import { GUARDS, type Guard, type Scenario } from './model.ts';
import { LONG_SCENARIOS, MISSED, SCENARIOS } from './scenarios.ts';

const say = (text: string) => process.stdout.write(`${text}\n`);
const shown = (scenario: Scenario) =>
  Object.entries({ sets: 3, ...scenario })
    .map(([name, n]) => `${name} ${n}`)
    .join(', ');

/** Whether the promises are kept, or broken as expected. */
function tryOne(scenario: Scenario, without: readonly Guard[], expected?: string): boolean {
  const { states, steps, broken } = explore(scenario, without);
  const after = broken === undefined ? '' : `, after ${broken.trace.length} steps`;
  const missing = without.length === 0 ? 'all guards' : `without ${without.join(' and ')}`;
  say(
    `${missing}; ${shown(scenario)}: ${broken?.promise ?? 'all promises are kept'}${after} (${states} states, ${steps} steps)`,
  );
  const isRight = broken?.promise === expected;
  if (!isRight) say(['FAILED: expected otherwise', ...(broken?.trace ?? [])].join('\n  '));
  return isRight;
}

function withoutOf(guard: Guard): readonly Guard[] {
  const { and } = MISSED[guard];
  return and === undefined ? [guard] : [guard, and];
}

const { values } = parseArgs({ options: { without: { type: 'string' } } });
const guards = Object.keys(GUARDS) as Guard[];
if (values.without !== undefined) {
  const guard = guards.find((name) => name === values.without);
  if (guard === undefined)
    throw new Error(`no guard "${values.without}": choose one of ${guards.join(', ')}`);
  const { broken } = explore(MISSED[guard].scenario, withoutOf(guard));
  say([`${guard}: ${GUARDS[guard]}`, ...broken!.trace, `broken: ${broken!.promise}`].join('\n  '));
} else {
  const kept = [...SCENARIOS, ...(IS_LONG ? LONG_SCENARIOS : [])].map((scenario) => tryOne(scenario, []));
  const missed = guards.map((guard) =>
    tryOne(MISSED[guard].scenario, withoutOf(guard), MISSED[guard].promise),
  );
  process.exitCode = [...kept, ...missed].every(Boolean) ? 0 : 1;
}
