import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hasNginx, startNginx, type TestNginx } from './compose.ts';

if (!hasNginx())
  console.log('left out: the proxy of compose.yaml, because nginx is not installed (nginx-light)');

describe.runIf(hasNginx())('the proxy of compose.yaml', () => {
  const reached: { readonly node: string; readonly line: string }[] = [];
  const upstreams = ['a', 'b'].map(hangingUp);
  let proxy: TestNginx;

  beforeAll(async () => {
    const [a, b] = await Promise.all(upstreams.map(portOf));
    proxy = await startNginx({ a: a!, b: b! }, { goesOnAsking: true });
  });

  afterAll(async () => {
    await proxy.stop();
    for (const one of upstreams) one.close();
  });

  /** Attempts of one request that reached a node; every node cuts the connection. */
  async function attemptsOf(path: string) {
    reached.length = 0;
    const base = path.startsWith('/v1/') ? proxy.url : proxy.adminUrl;
    const answer = await fetch(base + path, { method: 'POST', body: '{}' });
    expect(answer.status).toBe(502);
    return [...reached];
  }

  it('sends a call to the other node when the first one is cut off', async () => {
    for (const path of ['/v1/track', '/v1/batch']) {
      const attempts = await attemptsOf(path);
      expect(attempts.map(({ line }) => line)).toEqual(Array(2).fill(`POST ${path} HTTP/1.1`));
      expect(new Set(attempts.map(({ node }) => node)).size).toBe(2);
    }
  });

  it('keeps a client of the console on one node', async () => {
    const asked = new Set<string>();
    for (let n = 0; n < 4; n += 1)
      for (const { node } of await attemptsOf('/api/v1/session')) asked.add(node);
    expect([...asked]).toHaveLength(1);
  });

  it('never sends a change by the control API twice', async () => {
    for (const path of ['/api/v1/replays', '/api/v1/redeliveries'])
      expect((await attemptsOf(path)).map(({ line }) => line)).toEqual([`POST ${path} HTTP/1.1`]);
  });

  it('shows the port of calls nothing of what is for operators', async () => {
    reached.length = 0;
    for (const path of ['/', '/api/v1/status', '/metrics', '/sign-in'])
      expect([path, (await fetch(proxy.url + path)).status]).toEqual([path, 404]);
    expect(reached).toEqual([]);
  });

  /** A node that dies with every request in hand: it notes the first line, and cuts the connection. */
  function hangingUp(node: string): Server {
    return createServer((socket) => {
      socket.on('error', () => undefined);
      socket.once('data', (bytes) => {
        reached.push({ node, line: bytes.toString('latin1').split('\r\n', 1)[0] ?? '' });
        socket.destroy();
      });
    });
  }
});

async function portOf(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}
