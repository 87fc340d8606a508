import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { passed } from '../faults/passed.ts';
import { lasting } from '../faults/waiting.ts';
import { findPostgres, type Postgres, startPostgres } from '../support/postgres.ts';
import { amountOf } from '../support/runs.ts';
import { AskedNode, DATABASE_FAULTS } from './asked-node.ts';

const bin = findPostgres();

/**
 * Milliseconds. A renewal begins each second. One that is refused is tried again a quarter of a second later,
 * and the database counts as gone when that fails too, or when a renewal is not answered for two seconds.
 */
const KNOWN_WITHIN: Readonly<Record<string, number>> = {
  'its server was killed': 1250,
  'its server stands still': 3000,
  'the network carries nothing': 3000,
};

/**
 * How soon a load balancer learns that the database of a node is gone. The reference is how late a timer of a
 * second is in this run.
 */
describe.skipIf(bin === undefined)('a load balancer that asks /readyz of a node', () => {
  let server: Postgres;
  let asked: AskedNode | undefined;

  beforeEach(async () => {
    server = await startPostgres(bin!, { fsync: 'off' });
  });
  afterEach(async () => {
    await asked?.stop();
    asked = undefined;
    await server.stop();
  });

  it.each(DATABASE_FAULTS)('learns soon that the database is gone: $name', async ({ name, begin, end }) => {
    asked = await AskedNode.start(server);
    await asked.answers(200);
    const [times, late]: [number[], number[]] = [[], []];
    // At different moments between two renewals.
    for (let nth = 0; nth < amountOf({ gate: 1, long: 3 }); nth++) {
      const before = performance.now();
      await lasting(1000 + nth * 400);
      late.push(performance.now() - before - (1000 + nth * 400));
      await begin(asked);
      const began = performance.now();
      await asked.answers(503);
      times.push(performance.now() - began);
      await end(asked);
      await asked.answers(200);
    }
    const [slowest, reference] = [Math.max(...times), Math.max(...late)];
    passed(`readiness, ${name}`, {
      'known after, ms': times.map(Math.round).join(' '),
      'a timer is late by, ms': reference.toFixed(1),
    });
    expect(slowest).toBeLessThan(1.3 * KNOWN_WITHIN[name]! + 10 * reference);
  });
});
