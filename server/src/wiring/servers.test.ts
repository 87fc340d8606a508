import { once } from 'node:events';
import { createServer } from 'node:net';
import { expect, it } from 'vitest';
import { stillClock } from '../../test/support/http-server.ts';
import { loadConfig } from '../config/load.ts';
import { type ServerHandlers, startServers } from './servers.ts';

const nobody = async () => ({ status: 404, headers: {}, body: '' });
const quiet = () => {};

const ANSWERING: ServerHandlers = {
  receiver: (_call, answer) => answer({ kind: 'stored' }),
  ...{ control: nobody, metrics: nobody, readiness: () => [], clock: stillClock },
  scriptKey: () => undefined,
  logger: { debug: quiet, info: quiet, warn: quiet, error: quiet },
  discards: { discarded: quiet, refused: quiet, changed: quiet, rateLimited: quiet, publicCalls: quiet },
  recorder: { requestAnswered: quiet, committed: quiet, forDestination: () => ({ attemptEnded: quiet }) },
};

const config = (text: string) =>
  loadConfig({ file: { path: 'c', text }, env: {}, flags: {}, defaults: { host: '127.0.0.1' } }).config;

it('names admin.port when that port is taken, and gives the other one up', async () => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  const { port } = other.address() as { port: number };
  const free = createServer().listen(0, '127.0.0.1');
  await once(free, 'listening');
  const { port: first } = free.address() as { port: number };
  free.close();
  await once(free, 'close');
  const wanted = config(`port: ${first}\nadmin: { port: ${port} }`);
  await expect(startServers(wanted, ANSWERING)).rejects.toThrow(
    `port ${port} on 127.0.0.1 is already in use: stop the other program or choose another port with admin.port`,
  );
  other.close();
  await once(other, 'close');
  const listening = await startServers(wanted, ANSWERING);
  expect(listening).toMatchObject({
    url: `http://127.0.0.1:${first}`,
    adminUrl: `http://127.0.0.1:${port}`,
  });
  await listening.stop();
});

it('says on the port of calls where the rest is', async () => {
  const listening = await startServers(config('port: 0\nadmin: { port: 0 }'), ANSWERING);
  const { port } = new URL(listening.adminUrl!);
  for (const path of ['/api/v1/status', '/metrics', '/', '/?a=b']) {
    const answer = await fetch(listening.url + path);
    expect([path, answer.status, ((await answer.json()) as { message: string }).message]).toEqual([
      path,
      404,
      expect.stringContaining(
        `Here only calls are taken; control API, metrics and console are on port ${port} (admin.port).`,
      ),
    ]);
  }
  const other = await fetch(`${listening.url}/favicon.ico`);
  expect(await other.text()).not.toContain('admin.port');
  await listening.stop();
});
