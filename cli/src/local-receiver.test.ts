import { createHmac } from 'node:crypto';
import { request } from 'node:http';
import { createServer, type Server } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { type LocalReceiver, startLocalReceiver } from './local-receiver.ts';

const cleanUps: (() => Promise<unknown>)[] = [];
afterEach(() => Promise.all(cleanUps.splice(0).map((cleanUp) => cleanUp())));

async function started(): Promise<LocalReceiver> {
  const receiver = await startLocalReceiver('dev-secret');
  cleanUps.push(receiver.stop);
  return receiver;
}

/**
 * Opens a new connection for each request: a kept one could lead to an earlier test's receiver on the same
 * port.
 */
function post(
  receiver: LocalReceiver,
  webhookId: string,
  secret = 'dev-secret',
): Promise<number | undefined> {
  const signature = createHmac('sha1', secret).update('{}').digest('hex');
  const headers = { 'Webhook-Id': webhookId, 'X-Signature': signature };
  return new Promise((resolve, reject) => {
    request(receiver.url, { method: 'POST', headers, agent: false }, (answer) => {
      answer.resume().on('end', () => resolve(answer.statusCode));
    })
      .on('error', reject)
      .end('{}');
  });
}

describe('the receiver of dev', () => {
  it('accepts everything and remembers each verdict until it is taken', async () => {
    const receiver = await started();
    expect(await post(receiver, 'good')).toBe(200);
    expect(await post(receiver, 'forged', 'guess')).toBe(200);
    expect(receiver.take('good')).toBe('verified');
    expect(receiver.take('forged')).toBe('wrong');
    expect(receiver.take('good')).toBeUndefined();
  });

  it('knows a message by its own id, however the header spells it', async () => {
    const receiver = await started();
    await post(receiver, 'gr%C3%B6%C3%9Fe%2520');
    await post(receiver, '100%');
    expect(receiver.take('größe%20')).toBe('verified');
    expect(receiver.take('100%')).toBe('verified');
  });

  it('takes another port when its own is not free', async () => {
    const squatter = await occupied(4000);
    if (squatter) cleanUps.push(() => new Promise((resolve) => squatter.close(resolve)));
    const receiver = await started();
    expect(receiver.url).not.toBe('http://127.0.0.1:4000');
    expect(await post(receiver, 'm-1')).toBe(200);
  });
});

/** Takes the port. If another program on this machine already has it, the test works as well. */
function occupied(port: number): Promise<Server | undefined> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(undefined));
    server.listen(port, '127.0.0.1', () => resolve(server));
  });
}
