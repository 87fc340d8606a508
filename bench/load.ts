import { connect, type Socket } from 'node:net';

/**
 * A client that only sends: prepared requests over keep-alive connections, one at a time on each, every event with a
 * messageId of its own. Run as `node bench/load.ts URL CONNECTIONS SECONDS EVENTS_PER_REQUEST`, with BYTES for larger events; prints one
 * line of JSON, with the processor time that each request took here.
 */
const [url, connections, seconds, eventsPerRequest] = process.argv.slice(2);
const PAD = Math.max(0, Number(process.env['BYTES'] ?? 600) - 600);
const { hostname, port } = new URL(url!);
const batch = Number(eventsPerRequest);

/** 600 bytes of JSON, give or take a digit: a track call as a server-side library sends it. */
function event(id: string): object {
  return {
    type: 'track',
    event: 'Order Completed',
    userId: 'user-20481',
    messageId: id,
    timestamp: '2026-03-04T05:06:07.089Z',
    properties: {
      orderId: '50314b8e9bcf000000000000',
      total: 27.5,
      currency: 'USD',
      coupon: 'hasbros',
      products: [
        {
          productId: '507f1f77bcf86cd799439011',
          sku: '45790-32',
          name: 'Monopoly: 3rd Edition',
          price: 19,
          quantity: 1,
        },
        {
          productId: '505bd76785ebb509fc183733',
          sku: '46493-32',
          name: 'Uno Card Game',
          price: 3,
          quantity: 2,
        },
      ],
    },
    context: { library: { name: 'analytics-node', version: '3.1.0' }, ip: '203.0.113.9' },
    ...(PAD > 0 ? { traits: { pad: 'x'.repeat(PAD) } } : {}),
  };
}

const ID = /00000000-0000-4000-8000-000000000000/g;
const PLACEHOLDER = '00000000-0000-4000-8000-000000000000';
const body =
  batch === 1
    ? JSON.stringify(event(PLACEHOLDER))
    : JSON.stringify({
        batch: Array.from({ length: batch }, () => event(PLACEHOLDER)),
        sentAt: '2026-03-04T05:06:07.100Z',
      });
const head =
  `POST /v1/${batch === 1 ? 'track' : 'batch'} HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Basic ${btoa('bench:')}\r\n` +
  `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n`;
const template = Buffer.from(head + body);
const idsAt = [...(head + body).matchAll(ID)].map((match) => match.index);

let nextId = Date.now() * 1000;
/** Tells the ids of two generators apart that started at the same moment. */
const generator = process.pid.toString(16);
let done = 0;
let refused = 0;
const latencies: number[] = [];
const end = performance.now() + Number(seconds) * 1000;

function send(socket: Socket): void {
  const request = Buffer.from(template);
  for (const at of idsAt)
    request.write(generator + (nextId++).toString(16).padStart(36 - generator.length, '0'), at, 'latin1');
  socket.write(request);
}

const sockets = Array.from({ length: Number(connections) }, () => {
  const socket = connect({ host: hostname, port: Number(port), noDelay: true });
  let sentAt = 0;
  socket.on('connect', () => {
    sentAt = performance.now();
    send(socket);
  });
  socket.on('data', (answer) => {
    const now = performance.now();
    latencies.push(now - sentAt);
    if (answer.toString('latin1', 9, 12) === '200') done++;
    else refused++;
    sentAt = now;
    if (now < end) send(socket);
    else socket.end();
  });
  socket.on('error', () => {
    refused++;
  });
  return new Promise((resolve) => socket.once('close', resolve));
});

const startedAt = performance.now();
await Promise.all(sockets);
const elapsed = (performance.now() - startedAt) / 1000;
latencies.sort((a, b) => a - b);
const { user, system } = process.cpuUsage();
const at = (share: number) => latencies[Math.floor(latencies.length * share)] ?? 0;
console.log(
  JSON.stringify({
    events: done * batch,
    perSecond: (done * batch) / elapsed,
    refused,
    perCpuSecond: (done * 1e6) / (user + system),
    p50: at(0.5),
    p99: at(0.99),
  }),
);
