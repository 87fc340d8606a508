import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { forward } from './forwarding.ts';
import { type SignatureVerdict, verify } from './signature.ts';

/** Not imported: `import` would load Node's own HTTP client too, which is 14 MB. */
const { createServer } = process.getBuiltinModule('node:http');

/** Bodies longer than this are not kept: 1 MB, thirty times what one event may have. */
const MAX_BODY = 1_048_576;

/** Longer than any pause between two deliveries of a steady sender, so that connections are not closed under it. */
const KEEP_ALIVE_MS = 65_000;

export interface ReceiverOptions {
  readonly host: string;
  /** 0 stands for any free one. */
  readonly port: number;
  /** Signatures are checked against it; without one they are only noticed. */
  readonly secret?: string;
  /** How to answer the next request. Asked once per request. */
  answer(): ReceiverAnswer;
  /** Requests that would be accepted go on to this URL, and its answer is the answer. */
  readonly forwardTo?: URL | undefined;
  /** Told of every request before it is answered. Must be quick and must not throw. */
  onRequest(received: Received): void;
}

export interface ReceiverAnswer {
  readonly status: number;
  readonly delayMs: number;
}

export interface Received {
  readonly method: string;
  /** With its query, as the request line has it. */
  readonly path: string;
  /** The bytes that were signed; empty when the body was over the limit. */
  readonly body: Buffer;
  readonly oversized: boolean;
  readonly signature: SignatureVerdict;
  /** The `Webhook-Id` header. */
  readonly webhookId?: string;
  /** The status it is going to be answered with. */
  readonly status: number;
  /** The result of passing it on to another program. */
  readonly forwarded?: { readonly latencyMs: number; readonly failure?: string };
}

export interface RunningReceiver {
  readonly url: string;
  /** Cuts off answers that are still delayed. Idempotent. */
  stop(): Promise<void>;
}

/**
 * Receives webhooks on this machine: reads each request, says whether its signature is right, answers as told.
 * Rejects with the network's error when it cannot listen (`EADDRINUSE`, `EADDRNOTAVAIL`, …).
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
    // Whatever still comes is dropped until the answer is out; then Node closes the connection.
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
  // A sender that hangs up in the middle is not a request; without a listener its error would end the process.
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
    ...(webhookId === undefined ? {} : { webhookId }),
  };
}

/** A header that came twice is joined with commas by Node, which makes such a signature wrong: intended. */
function headerOf(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name];
  return Array.isArray(value) ? value.join(', ') : value;
}
