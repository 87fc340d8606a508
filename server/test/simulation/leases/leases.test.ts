import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { explore } from './explore.ts';
import { GUARDS, type Guard, type Scenario } from './model.ts';
import { MISSED } from './scenarios.ts';

/** The scenarios that `npm run test:leases` goes through take longer. */
const SMALL: readonly Scenario[] = [
  { losses: 0 },
  { sets: 1, losses: 1, erasures: 1, retries: 1 },
  { sets: 1, losses: 1, doubts: 1 },
  { sets: 1, crashes: 1, restarts: 1, doubts: 1 },
];

describe('claim, lease and takeover on PostgreSQL, in every order', () => {
  it.each(SMALL)('keep their promises: %o', (scenario) => {
    const { broken, states } = explore(scenario);
    expect(broken).toBeUndefined();
    // A model that cannot move keeps every promise.
    expect(states).toBeGreaterThan(1000);
  });

  it.each(Object.keys(GUARDS) as Guard[])('break a promise without the guard %s', (guard) => {
    const { scenario, promise, and } = MISSED[guard];
    expect(explore(scenario, [guard, ...(and === undefined ? [] : [and])]).broken?.promise).toBe(promise);
    // The guard is what is missing, and not the scenario too hard.
    if (and !== undefined) expect(explore(scenario, [guard]).broken).toBeUndefined();
  });

  it('are shown with the shortest way to what is broken', () => {
    expect(explore(MISSED.skipLocked.scenario, ['skipLocked']).broken?.trace).toEqual([
      'node 1 asks for a claim',
      'node 1 locks A as process 1',
      'node 2 asks for a claim',
      'node 2 locks A as process 2',
      'node 1 commits its claim',
      'node 1 has the answer to its claim',
      'node 2 commits its claim',
      'node 1 sends A',
    ]);
  });
});

/** Below `server/src/adapters/postgres`: the statements whose locks and conditions the model repeats. */
const STATEMENTS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'member.ts': {
    'lease.take': 'eb766e8b',
    'lease.renew': '699522ba',
    'adopt.has_expired': 'b72400c5',
    'adopt.alone': 'f9cd1dbe',
    'adopt.gone': '26929be8',
    'adopt.park': '01ba3140',
  },
  'queue/pending.ts': {
    'pending.due': '563c1384',
    'pending.hold': '691600b9',
    'pending.put_back': '294a5cb9',
    'pending.mine': '52df763c',
    'pending.between': '9744404d',
  },
};

describe('the model of leases', () => {
  it.each(Object.entries(STATEMENTS))('was written for the statements of %s', (path, expected) => {
    const source = readFileSync(new URL(`../../../src/adapters/postgres/${path}`, import.meta.url), 'utf8');
    const found = Object.keys(expected).map((name) => {
      const [, text] = new RegExp(`name: '${name}',\\s*text:\\s*([\`'])([^]*?)\\1`).exec(source)!.slice(1);
      return [name, createHash('sha256').update(text!.replaceAll(/\s+/g, ' ')).digest('hex').slice(0, 8)];
    });
    // A statement has changed: look at docs/decisions/0063-lease-model.md and at the model first, then note
    // it here.
    expect(Object.fromEntries(found)).toEqual(expected);
  });
});
