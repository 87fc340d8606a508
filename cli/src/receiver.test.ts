import { createHmac } from 'node:crypto';
import { connect } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { type Received, type ReceiverOptions, type RunningReceiver, startReceiver } from './receiver.ts';

const SECRET = 'top-secret';
const BODY = '{"type":"track","event":"Größe","userId":"u1"}';

const running: RunningReceiver[] = [];
afterEach(() => Promise.all(running.splice(0).map((receiver) => receiver.stop())));

async function started(options: Partial<ReceiverOptions> = {}) {
  const requests: Received[] = [];
  const receiver = await startReceiver({
    host: '127.0.0.1',
    port: 0,
    secret: SECRET,
    answer: () => ({ status: 200, delayMs: 0 }),
    onRequest: (received) => requests.push(received),
    ...options,
  });
  running.push(receiver);
  const post = (body: string | Uint8Array<ArrayBuffer>, headers: Record<string, string> = {}) =>
    fetch(`${receiver.url}/hook?x=1`, { method: 'POST', body, headers });
  return { receiver, requests, post };
}

function sign(body: string | Uint8Array): string {
  return createHmac('sha1', SECRET).update(body).digest('hex');
}

describe('a receiver', () => {
  it('verifies a request that was signed with its secret', async () => {
    const { requests, post } = await started();
    const answer = await post(BODY, { 'X-Signature': sign(BODY), 'Webhook-Id': 'm-1' });
    expect(answer.status).toBe(200);
    expect(requests).toEqual([
      {
        method: 'POST',
        path: '/hook?x=1',
        body: Buffer.from(BODY),
        oversized: false,
        signature: 'verified',
        webhookId: 'm-1',
        status: 200,
      },
    ]);
  });

  it('verifies the bytes that came, even if they are no valid UTF-8', async () => {
    const { requests, post } = await started();
    const bytes = Uint8Array.from([0x22, 0xff, 0xfe, 0x22]);
    await post(bytes, { 'X-Signature': sign(bytes) });
    expect(requests[0]?.signature).toBe('verified');
  });

  it('tells a wrong signature from a missing one', async () => {
    const { requests, post } = await started();
    await post(BODY, { 'X-Signature': sign(`${BODY} `) });
    await post(BODY);
    expect(requests.map(({ signature }) => signature)).toEqual(['wrong', 'unsigned']);
    expect(requests[0]?.webhookId).toBeUndefined();
  });

  it('says that it did not check a signature when it has no secret', async () => {
    const requests: Received[] = [];
    const receiver = await startReceiver({
      host: '127.0.0.1',
      port: 0,
      answer: () => ({ status: 200, delayMs: 0 }),
      onRequest: (received) => requests.push(received),
    });
    running.push(receiver);
    await fetch(receiver.url, { method: 'POST', body: BODY, headers: { 'X-Signature': sign(BODY) } });
    expect(requests[0]?.signature).toBe('unchecked');
  });

  it('answers each request as it is told, and says so beforehand', async () => {
    const statuses = [500, 204, 410];
    const { requests, post } = await started({
      answer: () => ({ status: statuses.shift() ?? 200, delayMs: 0 }),
    });
    const answers = [await post(BODY), await post(BODY), await post(BODY)].map(({ status }) => status);
    expect(answers).toEqual([500, 204, 410]);
    expect(requests.map(({ status }) => status)).toEqual([500, 204, 410]);
  });

  it('waits before it answers, and tells of the request at once', async () => {
    let told = 0;
    const { post } = await started({
      answer: () => ({ status: 200, delayMs: 150 }),
      onRequest: () => {
        told = performance.now();
      },
    });
    await post(BODY);
    // Timers may fire up to a millisecond early.
    expect(performance.now() - told).toBeGreaterThanOrEqual(149);
  });

  it('refuses a body over 1 MB without keeping it, and goes on receiving', async () => {
    const { receiver, requests, post } = await started();
    expect((await post('x'.repeat(1_048_576))).status).toBe(200);
    expect(await rawAnswer(receiver.url, 1_048_577)).toMatch(/^HTTP\/1\.1 413 /);
    expect((await post(BODY)).status).toBe(200);
    expect(requests.map(({ oversized, body }) => [oversized, body.length])).toEqual([
      [false, 1_048_576],
      [true, 0],
      [false, Buffer.byteLength(BODY)],
    ]);
  });

  it('survives a sender that hangs up in the middle of a body', async () => {
    const { receiver, requests, post } = await started();
    const { hostname, port } = new URL(receiver.url);
    const socket = connect(Number(port), hostname);
    await new Promise<void>((resolve) => {
      socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf', () => socket.destroy());
      socket.on('close', () => resolve());
    });
    expect((await post(BODY)).status).toBe(200);
    expect(requests).toHaveLength(1);
  });

  it('rejects with the network error when its port is taken', async () => {
    const { receiver } = await started();
    const port = Number(new URL(receiver.url).port);
    await expect(started({ port })).rejects.toMatchObject({ code: 'EADDRINUSE' });
  });

  it('stops although an answer is still due, and stops only once', async () => {
    let arrived: () => void = () => {};
    const arrival = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    const { receiver, post } = await started({
      answer: () => ({ status: 200, delayMs: 3_600_000 }),
      onRequest: () => arrived(),
    });
    const answer = post(BODY).catch((error: Error) => error.name);
    await arrival;
    await Promise.all([receiver.stop(), receiver.stop()]);
    expect(await answer).toBe('TypeError');
  });
});

/** Sends a chunked body of `length` bytes and resolves to the answer, which it reads while it still sends. */
function rawAnswer(url: string, length: number): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.write('POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n');
  socket.write(`${length.toString(16)}\r\n${'x'.repeat(length)}\r\n0\r\n\r\n`);
  return new Promise((resolve, reject) => {
    let text = '';
    socket.setEncoding('utf8');
    socket.on('data', (chunk: string) => {
      text += chunk;
    });
    socket.on('end', () => resolve(text));
    socket.on('error', reject);
  });
}
