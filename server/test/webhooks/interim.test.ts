import type { Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createHttpClient } from '../../src/adapters/http-client/client.ts';
import { egressRules } from '../../src/adapters/http-client/egress.ts';
import type { HttpClient } from '../../src/ports/http-client.ts';
import { http, post, type RawServer, startRawServer } from '../support/raw-server.ts';

const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n';

describe('an endpoint that says 100 Continue though nobody asked', () => {
  let transport: HttpClient;
  let server: RawServer | undefined;

  beforeEach(() => {
    transport = createHttpClient({ egress: egressRules(['127.0.0.0/8']) });
  });
  afterEach(async () => {
    await transport.stop();
    await server?.stop();
  });

  async function answering(write: (socket: Socket) => void): Promise<string> {
    server = await startRawServer(write);
    return `http://127.0.0.1:${server.port}/`;
  }

  /** Each part in a packet of its own. */
  function inParts(parts: readonly string[]): (socket: Socket) => void {
    return (socket) => {
      socket.setNoDelay(true);
      const [first, ...rest] = parts;
      if (first === undefined) return;
      socket.write(first, 'latin1', () => setTimeout(() => inParts(rest)(socket), 2));
    };
  }

  it.each<[string, readonly string[]]>([
    ['in the packet of the answer', [CONTINUE + http('200 OK', 'fine')]],
    ['in a packet of its own', [CONTINUE, http('200 OK', 'fine')]],
    ['twice', [CONTINUE + CONTINUE, CONTINUE, http('200 OK', 'fine')]],
    ['with headers', [`HTTP/1.1 100 Go On\r\nDate: today\r\n\r\n${http('200 OK')}`]],
    ['cut in the middle of its line', [CONTINUE.slice(0, 5), CONTINUE.slice(5) + http('200 OK')]],
    ['cut in the middle of its end', [CONTINUE.slice(0, -3), CONTINUE.slice(-3) + http('200 OK')]],
    ['byte by byte', [...CONTINUE, http('200 OK')]],
    ['before a 103', [CONTINUE, 'HTTP/1.1 103 Early Hints\r\n\r\n', http('200 OK')]],
  ])('%s is answered for by what follows', async (_how, parts) => {
    const url = await answering(inParts(parts));
    for (let nth = 0; nth < 3; nth++) expect(await post(transport, url)).toMatchObject({ status: 200 });
    expect(server!.sockets).toHaveLength(1);
  });

  it('and then 503 is taken at its word, with its body', async () => {
    const url = await answering((socket) => socket.write(CONTINUE + http('503 Busy', 'later')));
    expect(await post(transport, url)).toMatchObject({ status: 503, body: 'later' });
  });

  it('and then nothing is timed out', async () => {
    const url = await answering((socket) => socket.write(CONTINUE));
    expect(await post(transport, url, { timeout: 100 })).toMatchObject({ reason: 'timeout' });
  });

  it('and then closes has not answered', async () => {
    const url = await answering((socket) => socket.end(CONTINUE));
    expect(await post(transport, url)).toMatchObject({ kind: 'failed', reason: 'connection_closed' });
  });

  it('is not looked for in the body of an answer', async () => {
    const head = `HTTP/1.1 500 Oops\r\nContent-Length: ${2 * CONTINUE.length}\r\n\r\n`;
    const url = await answering(inParts([head, CONTINUE, CONTINUE]));
    expect(await post(transport, url)).toMatchObject({ status: 500, body: CONTINUE + CONTINUE });
  });

  it('with a head without end is not waited for in memory', async () => {
    const url = await answering((socket) => socket.write(`HTTP/1.1 100 ${'x'.repeat(5000)}`));
    expect(await post(transport, url, { timeout: 300 })).toMatchObject({ kind: 'failed' });
  });

  it('that answers in small pieces without it is understood as before', async () => {
    const url = await answering(inParts([...http('200 OK')]));
    expect(await post(transport, url)).toMatchObject({ status: 200 });
  });
});
