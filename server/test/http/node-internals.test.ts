import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import {
  type AddressInfo,
  connect,
  createServer as createTcpServer,
  type OnReadOpts,
  type Socket,
} from 'node:net';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { afterEach, describe, expect, test } from 'vitest';
import { successResponse, writeResponse } from '../../src/http/exchange.ts';
import { ResponseWriter } from '../../src/http/fast-path/connection.ts';
import { ROOT } from '../support/program.ts';

/**
 * The parts of Node that Millrace relies on and that Node does not document. Each test names one of them and
 * the file that needs it. The long run (`tools/ci.ts`) runs this file under the newest Node as well, so that
 * a change shows before the pinned Node is raised. When a test fails, the named file has to be changed first.
 */

const CERTIFICATES = join(ROOT, 'server/test/support/tls');
const keyPair = {
  cert: readFileSync(join(CERTIFICATES, 'server.pem')),
  key: readFileSync(join(CERTIFICATES, 'server.key')),
};
const REQUEST = 'GET /a HTTP/1.1\r\nHost: a\r\n\r\n';

type ConnectionListener = (socket: Socket) => void;

const open: { close(): void }[] = [];

afterEach(() => {
  for (const one of open.splice(0)) one.close();
});

async function listening<T extends { close(): void; listen(port: number, host: string): unknown }>(
  server: T & NodeJS.EventEmitter & { address(): AddressInfo | string | null },
): Promise<number> {
  open.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

function connected(port: number): Socket {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => {});
  open.push({ close: () => socket.destroy() });
  return socket;
}

/** Resolves with everything received when it matches. */
async function received(socket: Socket, pattern: RegExp): Promise<string> {
  let text = '';
  while (!pattern.test(text)) text += String((await once(socket, 'data'))[0]);
  return text;
}

describe('http/fast-path/connection.ts', () => {
  test.each([
    ['connection', (): Server => createServer()],
    ['secureConnection', (): Server => createTlsServer(keyPair)],
  ])('takes the only listener for %s of a new server, which is the HTTP reader of Node', (event, create) => {
    const why = `Node has other listeners for "${event}": FastPathConnections takes the wrong one`;
    expect(create().listeners(event).length, why).toBe(1);
  });

  test('calls this listener for a connection whose first bytes it has read and put back', async () => {
    const targets: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      targets.push(request.url);
      response.end('x');
    });
    const [nodeListener] = server.listeners('connection') as ConnectionListener[];
    server.off('connection', nodeListener!);
    server.on('connection', (socket: Socket) => {
      socket.once('data', (bytes) => {
        socket.unshift(bytes);
        Reflect.apply(nodeListener!, server, [socket]);
        socket.read();
      });
    });
    const socket = connected(await listening(server));
    socket.write(REQUEST);
    await received(socket, /x$/);
    socket.write(REQUEST.replace('/a', '/b'));
    await received(socket, /x$/);
    const why =
      'Node does not read bytes that were put back before its listener was called: handOver loses requests';
    expect(targets, why).toEqual(['/a', '/b']);
  });

  test('is told apart from node:http in tests by the parser that Node puts on a socket', async () => {
    const parsers: unknown[] = [];
    const server = createServer((request, response) => {
      parsers.push((request.socket as Socket & { parser?: unknown }).parser);
      response.end('x');
    });
    const socket = connected(await listening(server));
    socket.write(REQUEST);
    await received(socket, /x$/);
    expect(parsers, 'Node has no socket.parser: isPlain of the tests is always true').toEqual([
      expect.anything(),
    ]);
  });
});

test('http/fast-path/response-writer.ts: node:http writes the headers Date, Connection, Keep-Alive behind ours', async () => {
  const server = createServer({ keepAliveTimeout: 72_000 }, (_request, response) =>
    writeResponse(response, successResponse()),
  );
  const socket = connected(await listening(server));
  socket.write(REQUEST);
  const withoutDate = (text: string) => text.replace(/Date: .{29}/, 'Date: now');
  const theirs = withoutDate(await received(socket, /\}$/));
  const ours = withoutDate(new ResponseWriter(72_000).serialize(successResponse()));
  expect(ours, 'Node writes answers in another way: the two readers can be told apart').toBe(theirs);
});

describe('http/connections.ts', () => {
  /** The codes of `clientError`. */
  async function errorCode(settings: object, bytes: string): Promise<string | undefined> {
    const server = createServer(settings);
    const failed = once(server, 'clientError') as Promise<[NodeJS.ErrnoException, Socket]>;
    const socket = connected(await listening(server));
    socket.write(bytes);
    const [error, peer] = await failed;
    peer.destroy();
    return error.code;
  }

  test('finds the answer that is being written in socket._httpMessage, and none when it is written', async () => {
    const seen: boolean[] = [];
    const current = (socket: Socket) => (socket as Socket & { _httpMessage?: ServerResponse })._httpMessage;
    const handle: RequestListener = (request, response) => {
      seen.push(current(request.socket) === response);
      response.once('finish', () =>
        setImmediate(() => seen.push((current(request.socket) ?? null) === null)),
      );
      response.end('x');
    };
    const server = createServer(handle);
    const socket = connected(await listening(server));
    socket.write(REQUEST);
    await received(socket, /x$/);
    socket.write(REQUEST);
    await received(socket, /x$/);
    const why = 'Node keeps the current answer elsewhere: afterPendingResponses would not wait for it';
    expect(seen.slice(0, 3), why).toEqual([true, true, true]);
  });

  test('knows a head that is too large, a late request and a broken one by the codes of clientError', async () => {
    const why = 'Node has other codes: rejectUnreadable answers with the wrong error';
    const large = `GET /${'a'.repeat(20_000)} HTTP/1.1\r\n\r\n`;
    expect(await errorCode({}, large), why).toBe('HPE_HEADER_OVERFLOW');
    expect(await errorCode({}, 'no HTTP\r\n\r\n'), why).toMatch(/^HPE_(?!HEADER_OVERFLOW)/);
    const limits = { headersTimeout: 20, requestTimeout: 20, connectionsCheckingInterval: 5 };
    expect(await errorCode(limits, 'GET'), why).toBe('ERR_HTTP_REQUEST_TIMEOUT');
  });
});

describe('http/lingering-close.ts', () => {
  test('is asked by socket.destroySoon to close a connection behind its last answer', async () => {
    let asked = 0;
    const server = createServer((request, response) => {
      request.socket.destroySoon = () => {
        asked++;
        request.socket.destroy();
      };
      response.shouldKeepAlive = false;
      response.end('x');
    });
    const socket = connected(await listening(server));
    socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n');
    socket.resume();
    await once(socket, 'close');
    const why = 'Node closes a connection in another way: a client that still sends may lose its answer';
    expect(asked, why).toBe(1);
  });

  test('takes what still comes from the parser of Node by its own listener for the bytes', async () => {
    const requests: (string | undefined)[] = [];
    const taken = Promise.withResolvers<string>();
    const server = createServer(({ url, socket }, response) => {
      requests.push(url);
      socket.removeAllListeners('data');
      socket.on('data', (bytes) => taken.resolve(String(bytes)));
      response.end('x');
    });
    const socket = connected(await listening(server));
    socket.write(REQUEST);
    await received(socket, /x$/);
    socket.write('more');
    const why = 'Node gives the bytes to its parser all the same: what is dropped would be read as requests';
    expect([await taken.promise, requests], why).toEqual(['more', ['/a']]);
  });
});

describe('adapters/http-client/connector.ts', () => {
  async function readIntoBuffer(openSocket: (onread: OnReadOpts) => Socket): Promise<string> {
    const buffer = Buffer.alloc(64);
    let text = '';
    let dataEvents = 0;
    await new Promise<void>((resolve) => {
      const callback = (length: number) => {
        text += buffer.toString('latin1', 0, length);
        if (text.endsWith('!')) resolve();
        return true;
      };
      const socket = openSocket({ buffer, callback });
      socket.on('data', () => dataEvents++);
    });
    return `${text} ${dataEvents}`;
  }

  test('reads into one buffer through the option onread of net.connect and of tls.connect', async () => {
    const plain = await listening(createTcpServer((socket) => socket.end('hello!').on('error', () => {})));
    const tls = createTlsServer(keyPair);
    tls.on('secureConnection', (socket: Socket) => socket.end('hello!').on('error', () => {}));
    const secure = await listening(tls);
    const why = 'Node does not read into the given buffer: answers are not seen, or seen twice';
    const host = '127.0.0.1';
    const direct = { port: plain, host };
    expect(await readIntoBuffer((onread) => connect({ ...direct, onread })), why).toBe('hello! 0');
    const options = { port: secure, host, rejectUnauthorized: false };
    expect(await readIntoBuffer((onread) => connectTls({ ...options, ...{ onread } })), why).toBe('hello! 0');
  });

  test('takes authorizationError for the sign that a certificate is not trusted', async () => {
    const port = await listening(createTlsServer(keyPair));
    const socket = connectTls({ port, host: '127.0.0.1' });
    await once(socket, 'error').catch(() => {});
    const why = 'Node reports an untrusted certificate elsewhere: it counts as connection_failed';
    expect(socket.authorizationError, why).toBeTruthy();
  });
});
