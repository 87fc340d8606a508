import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { lasting } from '../faults/waiting.ts';
import { connectTo } from '../support/postgres.ts';
import { HAS_POSTGRES, usePostgres } from '../support/postgres-fixture.ts';
import { until } from '../support/until.ts';
import { AskedNode, DATABASE_FAULTS } from './asked-node.ts';

/** Milliseconds after which a database without an answer counts as gone. */
const ANSWER_WITHIN = 2000;

/** How soon it knows: node-readiness.timing.ts. */
describe.skipIf(!HAS_POSTGRES)('a load balancer that asks /readyz of a node', () => {
  const postgres = usePostgres();
  let asked: AskedNode | undefined;

  afterEach(async ({ task }) => {
    if (task.result?.state === 'fail') console.log(asked?.node.out.stderr);
    await asked?.stop();
    asked = undefined;
  });

  it.each(DATABASE_FAULTS)('learns that the database is gone, and that it is back: $name', async (fault) => {
    asked = await AskedNode.start(await postgres.startServer());
    await asked.answers(200);
    await fault.begin(asked);
    const early = asked.call('early');
    expect(await asked.answers(503)).toMatch(fault.said);
    // Nobody waits for the database, neither who comes now nor who came before it was known.
    expect([await asked.call('late'), await early]).toEqual([503, 503]);
    await fault.end(asked);
    await asked.answers(200);
    expect([await asked.call('early'), await asked.call('late')]).toEqual([200, 200]);
  });

  describe('sees no difference', () => {
    let node: AskedNode;
    beforeEach(async () => {
      node = asked = await AskedNode.start(await postgres.startServer());
      await node.answers(200);
    });

    /** Resolves when the lease is renewed again. */
    async function renewed(): Promise<void> {
      const client = await connectTo(node.url);
      const ends = async () =>
        (await client.query<{ expires: Date }>('select expires from process')).rows[0]!;
      const before = (await ends()).expires;
      await until('the node renews its lease', async () => (await ends()).expires > before);
      await client.end();
    }

    /** A slow machine makes the answers late in earnest: then the node says so, and for how long. */
    async function expectReady(statuses: Set<number>, within = ANSWER_WITHIN): Promise<void> {
      if (!statuses.has(503)) return;
      await until('the node says for how long it had no answer', () => {
        const said = node.node.out.stderr.matchAll(/"ms":(\d+).*"database\.lease_renewed_late"/g);
        return [...said].some(([, ms]) => Number(ms) > within);
      });
    }

    it('while the database answers late once', async () => {
      const freeze = async () => {
        node.server.freeze();
        await lasting(ANSWER_WITHIN * 0.6);
        node.server.thaw();
        await renewed();
      };
      await expectReady(await node.statusesWhile(freeze()));
    });

    it('while the database answers as late as it did the last time', async () => {
      node.server.freeze();
      await node.answers(503);
      node.server.thaw();
      await node.answers(200);
      const freeze = async () => {
        node.server.freeze();
        // The next renewal begins a second after the last, and waits for longer than a first one may.
        await lasting(ANSWER_WITHIN * 1.7);
        node.server.thaw();
        await renewed();
      };
      await expectReady(await node.statusesWhile(freeze()), ANSWER_WITHIN * 2);
    });

    it('while it loses connections', async () => {
      const cut = async () => {
        for (let nth = 0; nth < 4; nth++) {
          await lasting(nth * 250);
          node.line.cut();
          // The first may be the one whose answer was cut. The node begins the third when it has heard the
          // answer to the second: were that cut too, it would have failed twice in a row.
          for (let seen = 0; seen < 3; seen++) await renewed();
        }
      };
      await expectReady(await node.statusesWhile(cut()));
    });
  });
});
