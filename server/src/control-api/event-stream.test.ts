import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { testAuthenticator } from '../../test/support/authenticator.ts';
import { startTestServer, type TestServer } from '../../test/support/http-server.ts';
import { systemClock } from '../adapters/system/clock.ts';
import type { ResponseStream, StreamClient } from '../ports/control-api.ts';
import { defineOperation, StreamResult } from './operation.ts';
import { createControlApi } from './server.ts';

/** A body that notes what happens to it. */
class Body implements ResponseStream {
  readonly notes: string[] = [];
  readonly #watchers = new Set<() => void>();
  client: StreamClient | undefined;

  begin(client: StreamClient): void {
    this.client = client;
    this.#note('begun');
  }

  drained(): void {
    this.#note('drained');
  }

  gone(): void {
    this.#note('gone');
  }

  /** Resolves when it has happened. */
  has(note: string): Promise<void> {
    return new Promise((resolve) => {
      const look = () => {
        if (!this.notes.includes(note)) return;
        this.#watchers.delete(look);
        resolve();
      };
      this.#watchers.add(look);
      look();
    });
  }

  #note(note: string): void {
    this.notes.push(note);
    for (const look of this.#watchers) look();
  }
}

describe('an answer that goes on', () => {
  let running: TestServer;
  let body: Body;
  const sockets: Socket[] = [];

  beforeEach(async () => {
    body = new Body();
    const log = () => {};
    const control = await createControlApi({
      operations: [
        defineOperation({
          method: 'GET',
          path: 'tail',
          role: 'viewer',
          summary: 'Does it',
          isStream: true,
          run: async () => new StreamResult(body),
        }),
      ],
      authenticator: testAuthenticator('s3cret'),
      clock: systemClock,
      logger: { debug: log, info: log, warn: log, error: log },
      version: '1.2.3',
    });
    running = await startTestServer({ control });
  });

  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    await running.listener.stop();
  });

  /** Asks, and reads into the returned text unless told not to. */
  function ask(method: string): { socket: Socket; text: () => string } {
    const socket = connect(running.port, '127.0.0.1');
    sockets.push(socket);
    let text = '';
    socket.setEncoding('utf8').on('data', (part: string) => {
      text += part;
    });
    socket.on('error', () => {});
    socket.write(
      `${method} /api/v1/tail HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer s3cret\r\n\r\n`,
    );
    return { socket, text: () => text };
  }

  test('comes piece by piece, and its end is the end of the connection', async () => {
    const { socket, text } = ask('GET');
    await body.has('begun');
    body.client!.write('one\n');
    while (!text().includes('one')) await once(socket, 'data');
    body.client!.write('two\n');
    body.client!.end();
    await once(socket, 'close');
    expect(text()).toMatch(/^HTTP\/1\.1 200 OK\r\n([\w-]+: .*\r\n)*Content-Type: text\/event-stream\r\n/i);
    expect(text()).toMatch(/\r\nConnection: close\r\n/i);
    expect(text()).toMatch(/one\n[\s\S]*two\n/);
    expect(body.notes).toEqual(['begun', 'gone']);
  });

  test('has no body where only the head is asked for', async () => {
    const { socket, text } = ask('HEAD');
    await once(socket, 'close');
    expect(text()).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    expect(text().endsWith('\r\n\r\n')).toBe(true);
    expect(body.notes).toEqual(['gone']);
  });

  test('ends when the client goes', async () => {
    const { socket } = ask('GET');
    await body.has('begun');
    socket.destroy();
    await body.has('gone');
    expect(body.notes).toEqual(['begun', 'gone']);
  });

  test('says when the client reads too slowly, and when it may go on', async () => {
    const { socket } = ask('GET');
    await body.has('begun');
    socket.pause();
    const much = 'x'.repeat(2 ** 20);
    while (body.client!.write(much));
    expect(body.notes).toEqual(['begun']);
    socket.resume();
    await body.has('drained');
  });

  test('does not hold up a stop because a client reads nothing', async () => {
    const { socket } = ask('GET');
    await body.has('begun');
    socket.pause();
    const much = 'x'.repeat(2 ** 20);
    for (let n = 0; n < 20; n++) body.client!.write(much);
    body.client!.end();
    await running.listener.stop();
    await body.has('gone');
    expect(body.notes).not.toContain('drained');
  });
});
