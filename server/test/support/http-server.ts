import { once } from 'node:events';
import { connect as connectTcp, type Socket } from 'node:net';
import type { ControlHandler, ReceivedRequest } from '../../src/control-api/contract.ts';
import { createHttpServer, type HttpServer, type HttpServerOptions } from '../../src/http/server.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { IngestHandler, IngestRequest, IngestResult } from '../../src/ports/ingest.ts';
import type { LogFields } from '../../src/ports/logger.ts';
import { realTurns } from './clock.ts';

/** One HTTP answer as it came over the connection. */
export interface WireResponse {
  readonly status: number;
  /** Headers by name in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

/** A connection on which tests send any bytes at any time, and read answers one by one. */
export class TestConnection {
  readonly #socket: Socket;
  #unread = Buffer.alloc(0);
  /** Resolves when the connection is closed, from either side. */
  readonly closed: Promise<unknown>;

  constructor(socket: Socket) {
    this.#socket = socket;
    this.closed = new Promise((resolve) => socket.once('close', resolve));
    // A reset is one way for the server to close; `closed` tells.
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      this.#unread = Buffer.concat([this.#unread, chunk]);
    });
  }

  /** Resolves when the bytes are handed to the system or the connection is gone. */
  async send(...parts: (string | Uint8Array)[]): Promise<void> {
    const bytes = Buffer.concat(parts.map((part) => Buffer.from(part)));
    await new Promise<void>((resolve) => this.#socket.write(bytes, () => resolve()));
  }

  get isGone(): boolean {
    return this.#socket.destroyed;
  }

  async nextResponse(): Promise<WireResponse> {
    for (;;) {
      const answer = this.#takeAnswer();
      if (answer !== undefined) return answer;
      if (this.isGone) throw new Error(`closed after ${JSON.stringify(this.#unread.toString())}`);
      await Promise.race([once(this.#socket, 'data'), this.closed]);
    }
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #takeAnswer(): WireResponse | undefined {
    const end = this.#unread.indexOf('\r\n\r\n');
    if (end < 0) return undefined;
    const [statusLine = '', ...lines] = this.#unread.subarray(0, end).toString().split('\r\n');
    const headers = new Map(
      lines.map((line) => {
        const colon = line.indexOf(':');
        return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
      }),
    );
    const bodyEnd = end + 4 + Number(headers.get('content-length') ?? 0);
    if (this.#unread.length < bodyEnd) return undefined;
    const body = this.#unread.subarray(end + 4, bodyEnd).toString();
    this.#unread = this.#unread.subarray(bodyEnd);
    return { status: Number(statusLine.split(' ')[1]), headers, body };
  }
}

export interface TestServer {
  readonly listener: HttpServer;
  readonly port: number;
  /** Requests that the receiver got. */
  readonly calls: IngestRequest[];
  readonly logged: { readonly event: string; readonly facts: LogFields }[];
  connect(): Promise<TestConnection>;
}

export type TestServerOptions = Partial<Omit<HttpServerOptions, 'receiver'>> & {
  /** The receiver's immediate answer, or a receiver of the test's own. */
  readonly verdict?: IngestResult | IngestHandler;
};

/** A listener on a free port, with a receiver that remembers its input. */
export async function startTestServer({
  verdict = { kind: 'stored' },
  ...options
}: TestServerOptions = {}): Promise<TestServer> {
  const calls: IngestRequest[] = [];
  const logged: { event: string; facts: LogFields }[] = [];
  const log = (facts: LogFields, event: string) => void logged.push({ event, facts });
  const listener = createHttpServer({
    receiver: (call, answer) => {
      calls.push(call);
      if (typeof verdict === 'function') verdict(call, answer);
      else answer(verdict);
    },
    clock: stillClock,
    logger: { debug: log, info: log, warn: log, error: log },
    readiness: () => [],
    host: '127.0.0.1',
    port: 0,
    ...options,
  });
  const { port } = await listener.start();
  const connect = async () => {
    const socket = connectTcp(port, '127.0.0.1');
    await once(socket, 'connect');
    return new TestConnection(socket);
  };
  return { listener, port, calls, logged, connect };
}

/** A request that a control API made up by a test is asked. */
export interface ControlTestRequest extends ReceivedRequest {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly authorization: string | undefined;
}

export interface ControlTestResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/**
 * A control API that answers as the test says; an error thrown before the first `await` reaches the listener.
 */
export function controlHandler(
  answer: (asked: ControlTestRequest) => ControlTestResponse | Promise<ControlTestResponse>,
): ControlHandler {
  return ({ method, url, headers }, response, received) => {
    const { authorization } = headers;
    const answered = answer({ ...received, method, url, authorization });
    void Promise.resolve(answered).then(({ status, headers: said, body }) =>
      response.writeHead(status, { ...said, 'Content-Length': Buffer.byteLength(body) }).end(body),
    );
  };
}

/** A clock that stands at 1,000 and never wakes a waiter. */
export const stillClock: Clock = {
  now: () => 1000,
  monotonic: () => 1000,
  after: () => () => {},
  steps: () => [{ at: 0, ahead: 0 }],
  ...realTurns,
};

/** The head of a POST; a body of `length` bytes is to follow. */
export function postHead(path: string, length: number, headers: readonly string[] = []): string {
  return `${[`POST ${path} HTTP/1.1`, 'Host: localhost', `Content-Length: ${length}`, ...headers].join('\r\n')}\r\n\r\n`;
}

export function post(path: string, body: string | Uint8Array, headers: readonly string[] = []): Buffer {
  const bytes = Buffer.from(body);
  return Buffer.concat([Buffer.from(postHead(path, bytes.length, headers)), bytes]);
}
