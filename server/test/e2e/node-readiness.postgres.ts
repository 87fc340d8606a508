import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { lasting } from '../faults/waiting.ts';
import { findPostgres, type Postgres, startPostgres } from '../support/postgres.ts';
import { type PostgresLine, startPostgresLine } from '../support/postgres-line.ts';
import { makePlace, oneDestination, type Place, type Program, startProgram } from '../support/program.ts';

const bin = findPostgres();

/** Milliseconds between two questions of the load balancer. */
const ASK_EVERY = 50;

/**
 * Milliseconds. A renewal begins each second. One that is refused is tried again a quarter of a second later, and the database counts as
 * gone when that fails too, or when a renewal is not answered for two seconds.
 */
const [KNOWN_WHEN_REFUSED, KNOWN_WHEN_SILENT] = [2500, 4000];

describe.skipIf(bin === undefined)('a load balancer that asks /readyz of a node', () => {
  let server: Postgres;
  let line: PostgresLine;
  let place: Place;
  let node: Program;

  beforeEach(async () => {
    server = await startPostgres(bin!, { fsync: 'off' });
    line = await startPostgresLine(server.folder);
    place = makePlace(oneDestination(['http://127.0.0.1:9/in']));
    node = await startProgram({
      args: ['start', '--config', place.config, '--data', place.data, '--port', '0', '--host', '127.0.0.1'],
      env: { MILLRACE_DATABASE: line.through(await server.makeDatabase()), MILLRACE_NODE: 'a' },
    });
  });
  afterEach(async () => {
    await node.kill();
    line.close();
    server.thaw();
    await server.stop();
    place.remove();
  });

  const ask = async () => {
    const answer = await fetch(`${node.url}/readyz`);
    return { status: answer.status, body: await answer.text() };
  };

  /** Resolves when the node answers so, to the time that took. */
  async function until(status: number): Promise<{ ms: number; body: string }> {
    const began = performance.now();
    for (;;) {
      const { body, ...answer } = await ask();
      if (answer.status === status) return { ms: performance.now() - began, body };
      await lasting(ASK_EVERY);
    }
  }

  /** Every answer of some time. */
  async function during(ms: number): Promise<Set<number>> {
    const seen = new Set<number>();
    for (const end = performance.now() + ms; performance.now() < end; await lasting(ASK_EVERY))
      seen.add((await ask()).status);
    return seen;
  }

  it.each<[string, { fail(): unknown; mend(): unknown }, number, RegExp]>([
    [
      'its server was killed',
      { fail: () => server.crash(), mend: () => server.restart() },
      KNOWN_WHEN_REFUSED,
      /cannot use the database/,
    ],
    [
      'its server stands still',
      { fail: () => server.freeze(), mend: () => server.thaw() },
      KNOWN_WHEN_SILENT,
      /has not answered for more than 2 s/,
    ],
    [
      'the network carries nothing',
      { fail: () => line.swallow(), mend: () => line.carry() },
      KNOWN_WHEN_SILENT,
      /has not answered for more than 2 s/,
    ],
  ])('learns soon that the database is gone: %s', async (_, { fail, mend }, within, said) => {
    await until(200);
    const times: number[] = [];
    // At different moments between two renewals.
    for (let nth = 0; nth < 3; nth++) {
      await lasting(1000 + nth * 400);
      await fail();
      const { ms, body } = await until(503);
      times.push(Math.round(ms));
      expect(body).toMatch(said);
      await mend();
      await until(200);
    }
    expect(Math.max(...times), String(times)).toBeLessThan(within);
  });

  it('sees no difference while the database answers late once, or loses connections', async () => {
    await until(200);
    for (const pause of [1000, 1500]) {
      const asking = during(4000);
      server.freeze();
      await lasting(pause);
      server.thaw();
      expect(await asking).toEqual(new Set([200]));
    }
    const asking = during(4000);
    for (let nth = 0; nth < 5; nth++) {
      line.cut();
      await lasting(700);
    }
    expect(await asking).toEqual(new Set([200]));
  });
});
