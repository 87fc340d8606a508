import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { forward } from './forwarding.ts';
import { type SignatureVerdict, verify } from './signature.ts';

/** An `import` would load Node's HTTP client too, which takes 14 MB. */
const { createServer } = process.getBuiltinModule('node:http');

/** Maximum bytes of a body: 1 MB, thirty times the limit of an event. Longer ones are not kept. */
const MAX_BODY = 1_048_576;

/**
 * Milliseconds, longer than a steady sender's pause between two deliveries: its connection must stay open.
 */
const KEEP_ALIVE_MS = 65_000;

export interface ReceiverOptions {
  readonly host: string;
  /** Port to listen on; 0 means any free one. */
  readonly port: number;
  /** The secret that verifies signatures. Without it, signatures are reported unchecked. */
  readonly secret?: string | undefined;
  /** Decides the answer to the next request. Called once per request. */
  answer(): ReceiverAnswer;
  /** Requests that would be accepted are forwarded to this URL, and its answer is returned. */
  readonly forwardTo?: URL | undefined;
  /** Called for every request before the answer. Must be quick and must not throw. */
  onRequest(received: Received): void;
}

export interface ReceiverAnswer {
  readonly status: number;
  readonly delayMs: number;
}

export interface Received {
  readonly method: string;
  /** Path with its query, as in the request line. */
  readonly path: string;
  /** The signed bytes. Empty when the body was over the limit. */
  readonly body: Buffer;
  readonly oversized: boolean;
  readonly signature: SignatureVerdict;
  /** The `Webhook-Id` header. */
  readonly webhookId?: string | undefined;
  /** The status of the coming answer. */
  readonly status: number;
  /** The result of forwarding to another program. */
  readonly forwarded?: { readonly latencyMs: number; readonly failure?: string };
}

export interface RunningReceiver {
  readonly url: string;
  /** Stops listening and cuts off delayed answers. Idempotent. */
  stop(): Promise<void>;
}

/**
 * Receives webhooks on this machine: reads each request, verifies its signature, and answers as the options
 * say. Rejects with the network error when it cannot listen (`EADDRINUSE`, `EADDRNOTAVAIL`, …).
 */
export async function startReceiver(options: ReceiverOptions): Promise<RunningReceiver> {
  const server = createServer((request, response) => receive(options, request, response));
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  await listening(server, options);
  const { port } = server.address() as AddressInfo;
  const host = options.host.includes(':') ? `[${options.host}]` : options.host;
  let stopped: Promise<void> | undefined;
  return {
    url: `http://${host}:${port}`,
    stop() {
      stopped ??= new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      });
      return stopped;
    },
  };
}

function listening(server: Server, where: { host: string; port: number }): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host: where.host, port: where.port }, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

function receive(options: ReceiverOptions, request: IncomingMessage, response: ServerResponse): void {
  const chunks: Buffer[] = [];
  let size = 0;
  const onData = (chunk: Buffer) => {
    size += chunk.length;
    if (size <= MAX_BODY) chunks.push(chunk);
    else refuse();
  };
  const refuse = () => {
    request.off('data', onData).off('end', onEnd);
    // The rest of the body is dropped until the answer is out. Node then closes the connection.
    request.resume();
    options.onRequest(received(options, request, { body: Buffer.alloc(0), oversized: true, status: 413 }));
    response.setHeader('Connection', 'close');
    response.writeHead(413).end('{"success":false,"message":"The body is over 1 MB."}');
  };
  const onEnd = () => {
    const { status, delayMs } = options.answer();
    const body = chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks);
    if (options.forwardTo !== undefined && status < 300) {
      void passOn(options, request, { response, body, to: options.forwardTo, delayMs });
      return;
    }
    options.onRequest(received(options, request, { body, oversized: false, status }));
    const send = () =>
      response.writeHead(status).end(status < 300 ? '{"success":true}' : '{"success":false}');
    if (delayMs === 0) send();
    else void setTimeout(delayMs, undefined, { ref: false }).then(send);
  };
  // A request that its sender aborts is dropped. Without a listener its error would end the process.
  request.on('error', () => response.destroy());
  request.on('data', onData).on('end', onEnd);
}

interface PassedOn {
  readonly response: ServerResponse;
  readonly body: Buffer;
  readonly to: URL;
  readonly delayMs: number;
}

async function passOn(
  options: ReceiverOptions,
  request: IncomingMessage,
  { response, body, to, delayMs }: PassedOn,
): Promise<void> {
  if (delayMs > 0) await setTimeout(delayMs, undefined, { ref: false });
  const { method = 'POST', rawHeaders } = request;
  const answer = await forward({ method, rawHeaders, body }, to);
  const { status, contentType, latencyMs, failure } = answer;
  options.onRequest({
    ...received(options, request, { body, oversized: false, status }),
    forwarded: failure === undefined ? { latencyMs } : { latencyMs, failure },
  });
  if (response.destroyed) return;
  if (contentType !== undefined) response.setHeader('Content-Type', contentType);
  response.writeHead(status).end(answer.body);
}

function received(
  options: ReceiverOptions,
  request: IncomingMessage,
  read: Pick<Received, 'body' | 'oversized' | 'status'>,
): Received {
  const signed = headerOf(request, 'x-signature');
  const webhookId = headerOf(request, 'webhook-id');
  return {
    method: request.method ?? '',
    path: request.url ?? '',
    ...read,
    signature: verify(read.body, signed, read.oversized ? undefined : options.secret),
    webhookId,
  };
}

/** Node joins a repeated header with commas. Such a signature is wrong, as intended. */
function headerOf(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name];
  return Array.isArray(value) ? value.join(', ') : value;
}
