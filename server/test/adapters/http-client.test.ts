import { expect, test } from 'vitest';
import { createHttpClient } from '../../src/adapters/http-client/client.ts';
import { egressRules } from '../../src/adapters/http-client/egress.ts';
import { createThreadedHttpClient, threadsFor } from '../../src/adapters/http-client/threads.ts';
import { httpClientConformance } from '../conformance/http-client.ts';
import { http, post, startRawServer } from '../support/raw-server.ts';
import { IS_LONG } from '../support/runs.ts';

const allow = ['127.0.0.0/8'];

httpClientConformance('the HTTP client', () => createHttpClient({ egress: egressRules(allow) }));
httpClientConformance('the HTTP client with a thread', () => createThreadedHttpClient({ allow }, 1));
if (IS_LONG)
  httpClientConformance('the HTTP client with three threads', () => createThreadedHttpClient({ allow }, 3));

test('a thread that fails ends the process, as a mistake on the main thread would', async () => {
  const seen = new Promise((resolve) => process.prependOnceListener('uncaughtException', resolve));
  const others = process.listeners('uncaughtException').slice(1);
  for (const listener of others) process.off('uncaughtException', listener);
  createThreadedHttpClient({ allow: ['nonsense'] }, 1);
  expect(await seen).toBeInstanceOf(Error);
  for (const listener of others) process.on('uncaughtException', listener);
});

test('requests are answered also when many, large and small, cross at once', async () => {
  const server = await startRawServer((socket, { body }) =>
    socket.write(http(body.length % 2 === 0 ? '200 OK' : '500 Oops', 'x')),
  );
  const transport = createThreadedHttpClient({ allow }, 2);
  const sizes = Array.from({ length: 400 }, (_, nth) => (nth % 50 === 0 ? 300_001 : nth));
  const answers = await Promise.all(
    sizes.map((size, pool) =>
      post(transport, `http://127.0.0.1:${server.port}/`, { body: Buffer.alloc(size, 'a'), pool }),
    ),
  );
  expect(answers.map((answer) => answer.kind === 'answered' && answer.status)).toEqual(
    sizes.map((size) => (size % 2 === 0 ? 200 : 500)),
  );
  expect(server.requests.map(({ body }) => body.length).toSorted((a, b) => a - b)).toEqual(
    sizes.toSorted((a, b) => a - b),
  );
  await transport.stop();
  expect(await post(transport, `http://127.0.0.1:${server.port}/`)).toMatchObject({
    kind: 'failed',
    reason: 'connection_closed',
  });
  await server.stop();
});

test('every pool has a thread, also those of alerts, whose number is below zero', async () => {
  const server = await startRawServer((socket) => socket.write(http('200 OK')));
  const transport = createThreadedHttpClient({ allow }, 3);
  for (const pool of [-1, -2, -3, 0, 2 ** 26 + 1])
    expect(await post(transport, `http://127.0.0.1:${server.port}/`, { pool })).toMatchObject({
      status: 200,
    });
  await transport.stop();
  await server.stop();
});

test('a thread keeps the egress rules', async () => {
  const transport = createThreadedHttpClient({ allow: [] }, 1);
  expect(await post(transport, 'http://127.0.0.1:9/')).toMatchObject({ reason: 'egress_refused' });
  await transport.stop();
});

test('takes threads for the cores that the main thread and the store leave', () => {
  expect([1, 2, 3, 4, 64].map(threadsFor)).toEqual([0, 0, 1, 2, 2]);
});
