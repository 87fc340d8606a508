import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** Stands in a template for each messageId. */
export const PLACEHOLDER = '00000000-0000-4000-8000-000000000000';

/** Tells the ids of two generators apart that started at the same moment. */
const generator = process.pid.toString(16);
let nextId = Date.now() * 1000;

/** A request of the receiving API that is sent again and again, every time with messageIds of its own. */
export class CallTemplate {
  readonly #bytes: Buffer;
  readonly #idsAt: readonly number[];

  /** One event is sent as `track`, several as a batch. Each has `PLACEHOLDER` for its messageId. */
  constructor(events: readonly object[], writeKey = 'bench') {
    const isBatch = events.length !== 1;
    const body = JSON.stringify(isBatch ? { batch: events, sentAt: new Date().toISOString() } : events[0]);
    const text = requestOf(isBatch ? 'batch' : 'track', body, writeKey);
    this.#bytes = Buffer.from(text);
    this.#idsAt = [...text.matchAll(new RegExp(PLACEHOLDER, 'g'))].map(({ index }) => index);
  }

  next(): Buffer {
    const request = Buffer.from(this.#bytes);
    for (const at of this.#idsAt)
      request.write(generator + (nextId++).toString(16).padStart(36 - generator.length, '0'), at, 'latin1');
    return request;
  }
}

/** A request of the receiving API that is sent once. */
export function writeRequest(path: string, body: object, writeKey: string): Buffer {
  return Buffer.from(requestOf(path, JSON.stringify(body), writeKey));
}

function requestOf(path: string, body: string, writeKey: string): string {
  return (
    `POST /v1/${path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Basic ${btoa(`${writeKey}:`)}\r\n` +
    `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
  );
}

/** 600 bytes of JSON, give or take a digit: a track call as a server-side library sends it. */
export function orderOf(user = 20_481): object {
  const product = (productId: string, sku: string, name: string, price: number, quantity: number) => ({
    productId,
    sku,
    name,
    price,
    quantity,
  });
  return {
    type: 'track',
    event: 'Order Completed',
    userId: `user-${user}`,
    messageId: PLACEHOLDER,
    timestamp: '2026-03-04T05:06:07.089Z',
    properties: {
      orderId: '50314b8e9bcf000000000000',
      total: 27.5,
      currency: 'USD',
      coupon: 'hasbros',
      products: [
        product('507f1f77bcf86cd799439011', '45790-32', 'Monopoly: 3rd Edition', 19, 1),
        product('505bd76785ebb509fc183733', '46493-32', 'Uno Card Game', 3, 2),
      ],
    },
    context: { library: { name: 'analytics-node', version: '3.1.0' }, ip: '203.0.113.9' },
  };
}

/** Whether the answer to a call was a 200. */
export function isGranted(answer: Buffer): boolean {
  return answer.toString('latin1', 9, 12) === '200';
}

/** Keep-alive connections with one call at a time on each. */
export class Connections {
  readonly #all: readonly Socket[];
  readonly #idle: Socket[];
  readonly #waiting: ((socket: Socket) => void)[] = [];

  private constructor(sockets: readonly Socket[]) {
    this.#all = sockets;
    this.#idle = [...sockets];
  }

  static async open(url: string, count: number): Promise<Connections> {
    const { hostname, port } = new URL(url);
    return new Connections(
      await Promise.all(
        Array.from({ length: count }, async () => {
          const socket = connect({ host: hostname, port: Number(port), noDelay: true });
          await once(socket, 'connect');
          // An end between two calls shows at the next one.
          return socket.on('error', () => {});
        }),
      ),
    );
  }

  /**
   * Waits for the connection that was idle for longest, so that none is idle until the server closes it.
   * Resolves when the call is granted. Rejects with any other answer.
   */
  async call(request: Buffer): Promise<void> {
    const socket =
      this.#idle.shift() ?? (await new Promise<Socket>((resolve) => this.#waiting.push(resolve)));
    if (socket.destroyed) throw new Error('the server has closed a connection');
    socket.write(request);
    const [answer] = await once(socket, 'data');
    const next = this.#waiting.shift();
    if (next === undefined) this.#idle.push(socket);
    else next(socket);
    if (!isGranted(answer)) throw new Error(`a call was refused: ${answer}`);
  }

  close(): void {
    for (const socket of this.#all) socket.destroy();
  }
}
