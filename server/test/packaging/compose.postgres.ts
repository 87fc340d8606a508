import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.ts';
import { HAS_POSTGRES, usePostgres } from '../support/postgres-fixture.ts';
import { makePlace, oneDestination, type Place, type Program, startProgram } from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';
import { hasNginx, startNginx, type TestNginx } from './compose.ts';

const TOKEN = 'token-of-the-tests';
const AUTHORIZED = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' };

/**
 * nginx with the configuration of compose.yaml, in front of two nodes on one database; a fault can be put
 * before each node.
 */
describe.skipIf(!HAS_POSTGRES || !hasNginx())('the proxy of compose.yaml', () => {
  const postgres = usePostgres();
  let receiver: TestReceiver | undefined;
  let place: Place | undefined;
  let proxy: TestNginx | undefined;
  const nodes: Program[] = [];
  const faults: FaultProxy[] = [];

  beforeAll(async () => {
    const database = await postgres.makeDatabaseWithTables();
    receiver = await startReceiver({ answer: (response) => response.end() });
    place = makePlace(oneDestination([receiver.url]));
    for (const node of ['a', 'b']) {
      const args = ['start', '--config', place.config, '--data', `${place.data}-${node}`, '--port', '0'];
      const env = {
        MILLRACE_DATABASE: database,
        MILLRACE_NODE: node,
        MILLRACE_ADMIN_TOKEN: TOKEN,
        MILLRACE_TRUSTED_PROXIES: '127.0.0.1/32',
      };
      nodes.push(await startProgram({ args: [...args, '--host', '127.0.0.1'], env }));
    }
  });
  afterAll(async () => {
    for (const one of nodes) await one.kill();
    await receiver?.stop();
    place?.remove();
  });
  // nginx remembers for a while which node has failed.
  beforeEach(async () => {
    for (const node of nodes) faults.push(await startFaultProxy(node.url));
    proxy = await startNginx({ a: faults[0]!.port, b: faults[1]!.port });
  });
  afterEach(async () => {
    await proxy?.stop();
    proxy = undefined;
    for (const one of faults.splice(0)) await one.stop();
  });

  const call = async (messageId: string) => {
    const answer = await fetch(`${proxy!.url}/v1/track`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa('wk:')}`, 'content-type': 'application/json' },
      body: JSON.stringify({ userId: 'u', event: 'E', messageId }),
    });
    return answer.status;
  };

  const arrived = (of: string) =>
    receiver!.arrivals
      .map(({ body }) => (JSON.parse(body.toString()) as { messageId: string }).messageId)
      .filter((id) => id.startsWith(of));

  const seen = (path: string) => faults.map(({ requests }) => requests.filter((one) => one.path === path));

  it('repeats a call without an answer on the other node, where it is the same event', async () => {
    faults[0]!.use(() => ({ kind: 'close', when: 'after' }));
    expect([await call('cut-1'), await call('cut-2')]).toEqual([200, 200]);
    await until('both have arrived', () =>
      expect(new Set(arrived('cut-'))).toEqual(new Set(['cut-1', 'cut-2'])),
    );
    // One of the two came to both nodes.
    expect(seen('/v1/track').flat()).toHaveLength(3);
    expect(arrived('cut-')).toHaveLength(2);
  });

  it('does not repeat a replay that a node may have begun', async () => {
    expect(await call('replayed')).toBe(200);
    for (const one of faults) one.use(() => ({ kind: 'close', when: 'after' }));
    const answer = await fetch(`${proxy!.adminUrl}/api/v1/replays`, {
      method: 'POST',
      headers: AUTHORIZED,
      body: JSON.stringify({ destination: 'crm', from: new Date(Date.now() - 60_000).toISOString() }),
    });
    expect(answer.status).toBe(502);
    expect(seen('/api/v1/replays').flat()).toHaveLength(1);
  });

  it('has nodes that know the sign-ins of each other, and that one is over', async () => {
    const [a, b] = nodes.map(({ url }) => `${url}/api/v1/session`) as [string, string];
    const signedIn = await fetch(a, { method: 'POST', body: JSON.stringify({ token: TOKEN }) });
    const { key } = (await signedIn.json()) as { key: string };
    const headers = { cookie: signedIn.headers.get('set-cookie')!.split(';')[0]!, 'x-millrace-console': key };
    expect((await fetch(b, { headers })).status).toBe(200);
    expect((await fetch(a.replace('session', 'status'), { headers })).status).toBe(200);
    expect((await fetch(b, { method: 'DELETE', headers })).status).toBe(204);
    await until('the first node has heard of it', async () =>
      expect((await fetch(a, { headers })).status).toBe(401),
    );
  });

  it('keeps a client on one node, which knows the keys of its repeated requests', async () => {
    const get = { headers: AUTHORIZED };
    for (let nth = 0; nth < 6; nth++)
      expect((await fetch(`${proxy!.adminUrl}/api/v1/sources`, get)).status).toBe(200);
    expect(
      seen('/api/v1/sources')
        .map(({ length }) => length)
        .sort(),
    ).toEqual([0, 6]);
  });

  it('tells nodes who calls, so that a client that guesses tokens locks out itself', async () => {
    await fetch(`${proxy!.adminUrl}/api/v1/sources`, { headers: { 'x-forwarded-for': '203.0.113.9' } });
    const [request] = seen('/api/v1/sources').flat();
    // What the client wrote is replaced, not believed.
    expect(request!.headers['x-forwarded-for']).toBe('127.0.0.1');
  });

  it('refuses no call while a node is killed, and each is delivered once by the other', async () => {
    const ids = Array.from({ length: 60 }, (_, nth) => `killed-${nth}`);
    const statuses: number[] = [];
    for (const [nth, id] of ids.entries()) {
      // The last test: this node does not come back.
      if (nth === 20) await nodes[0]!.kill();
      statuses.push(await call(id));
    }
    expect(statuses).toEqual(ids.map(() => 200));
    await until('all have arrived', () => expect(new Set(arrived('killed-'))).toEqual(new Set(ids)));
  });
});
