import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { BEFORE, unpackFixture } from '../e2e/upgrade/fixture.ts';
import { CONFIG, PROXY } from '../e2e/upgrade/life.ts';
import { send } from '../support/calls.ts';
import { checkedOut, knows } from '../support/earlier-program.ts';
import { connectTo } from '../support/postgres.ts';
import { HAS_POSTGRES, usePostgres } from '../support/postgres-fixture.ts';
import { logOf, makePlace, type Place, type Program, startProgram } from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';
import { IS_LONG } from '../support/runs.ts';
import { until } from '../support/until.ts';
import { type ConnectProxy, startConnectProxy } from '../webhooks/connect-proxy.ts';

/** A program of another commit takes too long for the gate, and a clone without history has none. */
describe.skipIf(!(HAS_POSTGRES && IS_LONG && knows(BEFORE)))(
  'a node of the version before sources had a trust',
  () => {
    const postgres = usePostgres();
    let place: Place;
    let earlier: string;
    let receiver: TestReceiver;
    let proxy: ConnectProxy;
    const nodes: Program[] = [];

    afterEach(async () => {
      for (const node of nodes.splice(0)) await node.kill();
      await proxy?.stop();
      await receiver?.stop();
      place?.remove();
      if (earlier) rmSync(earlier, { recursive: true, force: true });
    });

    /**
     * Sends calls of new users to a node until it is told to end; resolves to the statuses. What is refused
     * says when to come again.
     */
    async function calls(node: Program, of: string, isOver: () => boolean): Promise<number[]> {
      const statuses: number[] = [];
      while (!isOver()) {
        const call = {
          userId: `${of}-${statuses.length}`,
          event: 'Order Completed',
          properties: { total: 1 },
        };
        const { status, headers } = await send(node.url, '/v1/track', call, { writeKey: 'wk_srv' });
        if (status !== 200) expect([status, headers.get('retry-after')]).toEqual([503, expect.any(String)]);
        statuses.push(status);
      }
      return statuses;
    }

    it('refuses calls beside this one and says why, and no event or member is lost or told twice', async () => {
      place = makePlace(CONFIG);
      earlier = checkedOut(BEFORE);
      receiver = await startReceiver();
      proxy = await startConnectProxy({ to: receiver.port });
      const database = await postgres.makeDatabase();
      const client = await connectTo(database);
      await client.query(unpackFixture(place.data, 'postgres').dump!);
      await client.end();
      const start = async (name: string, program: object = {}) => {
        const args = ['start', '--config', place.config, '--data', join(place.folder, name)];
        const env = {
          MILLRACE_DATABASE: database,
          MILLRACE_NODE: name,
          [PROXY]: `http://127.0.0.1:${proxy.port}`,
        };
        const node = await startProgram({
          args: [...args, '--port', '0', '--host', '127.0.0.1'],
          env,
          ...program,
        });
        nodes.push(node);
        return node;
      };
      const before = await start('before', { millrace: join(earlier, 'cli/bin/millrace.js') });
      let over = 0;
      const first = calls(before, 'before', () => over > 0);
      const after = await start('after');
      const second = calls(after, 'after', () => over > 0);
      await until('the profiles of the earlier node stand still, and it refuses calls', () => {
        const said = logOf(before.out.stderr).map(({ event }) => event);
        return said.includes('profiles.failed') && said.includes('storage.unavailable');
      });
      over++;
      const statuses = { before: await first, after: await second };
      expect(new Set(statuses.before)).toEqual(new Set([200, 503]));
      expect(new Set(statuses.after)).toEqual(new Set([200]));
      expect(await before.stop()).toBe(0);
      const refused = logOf(before.out.stderr).filter(({ event }) => event === 'storage.unavailable');
      expect(JSON.stringify(refused)).toMatch(/stop this node, and start the newer version/);
      expect(before.out.stderr).not.toMatch(/42883|42P01/);
      const users = Object.entries(statuses).flatMap(([of, all]) =>
        all.flatMap((status, nth) => (status === 200 ? [`${of}-${nth}`] : [])),
      );
      const heard = (text: string) =>
        receiver.arrivals
          .filter(({ path, body }) => path === '/crm' && body.includes(text))
          .map(({ body }) => (JSON.parse(body.toString()) as { userId: string }).userId);
      await until('all members are told', () => heard('"buyers":true').length >= users.length);
      expect(heard('"buyers":true').sort()).toEqual(users.sort());
      expect(heard('"track"').sort()).toEqual(users.sort());
    });
  },
);
