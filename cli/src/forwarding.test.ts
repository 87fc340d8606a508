import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { millrace } from '../test/program.ts';

/** The program of a developer who writes a receiver. */
let own: { readonly url: string; readonly got: { request: IncomingMessage; body: Buffer }[]; stop(): void };
let status = 201;

beforeEach(async () => {
  status = 201;
  const got: { request: IncomingMessage; body: Buffer }[] = [];
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    got.push({ request, body: Buffer.concat(parts) });
    response.writeHead(status, { 'Content-Type': 'text/x-own' }).end('from your program');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const stop = () => {
    server.close();
    server.closeAllConnections();
  };
  own = { url: `http://127.0.0.1:${port}/own?x=1`, got, stop };
});

afterEach(() => own.stop());

const BODY = Buffer.from([...Buffer.from('{"type":"track","event":"Größe" }'), 0xff]);

it('passes requests on as they are, and answers as the other program does', async () => {
  const program = millrace(['listen', '--port', '0', '--forward-to', own.url]);
  const [, url] = await program.says('err', /listens on (http:\/\/\S+?),/);
  const headers = {
    'X-Signature': 'abc',
    'Webhook-Id': 'm-1',
    'X-Own': 'Ünï',
    'Content-Type': 'application/json',
  };
  const encoded = Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, Buffer.from(value).toString('latin1')]),
  );
  const answer = await fetch(`${url}/hook`, { method: 'POST', headers: encoded, body: BODY });
  expect(answer.status).toBe(201);
  expect(answer.headers.get('content-type')).toBe('text/x-own');
  expect(await answer.text()).toBe('from your program');
  const [{ request, body }] = own.got as [(typeof own.got)[0]];
  expect(body).toEqual(BODY);
  expect(request.url).toBe('/own?x=1');
  expect(request.headers).toMatchObject({
    ...{ 'x-signature': 'abc', 'webhook-id': 'm-1', 'content-type': 'application/json' },
    'x-own': encoded['X-Own'],
    host: new URL(own.url).host,
    'content-length': String(BODY.length),
  });
  await program.says('out', /answered 201 {2}[\d.]+ m?s/);
  status = 500;
  expect((await fetch(url!, { method: 'POST', body: BODY })).status).toBe(500);
  await program.says('out', /answered 500/);
  own.stop();
  const gone = await fetch(url!, { method: 'POST', body: BODY });
  expect(gone.status).toBe(502);
  expect(await gone.text()).toMatch(/did not answer \(ECONNREFUSED\)/);
  await program.says('out', /did not answer \(ECONNREFUSED\)/);
  program.child.kill('SIGINT');
  expect((await program.ended).code).toBe(0);
});

it('refuses what is no URL, and another answer beside it', async () => {
  for (const args of [
    ['--forward-to', 'localhost:3000'],
    ['--forward-to', own.url, '--status', '204'],
  ])
    expect((await millrace(['listen', '--port', '0', ...args]).ended).code).toBe(2);
  expect((await millrace(['dev', '--forward-to', 'nowhere']).ended).code).toBe(2);
});
