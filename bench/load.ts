import { connect } from 'node:net';
import { CallTemplate, isGranted, orderOf } from './calls.ts';

/**
 * A client that only sends: prepared requests over keep-alive connections, one at a time on each, every event with a
 * messageId of its own. Run as `node bench/load.ts URL CONNECTIONS SECONDS EVENTS_PER_REQUEST`, with BYTES for larger events; prints one
 * line of JSON, with the processor time that each request took here.
 */
const [url, connections, seconds, eventsPerRequest] = process.argv.slice(2);
const PAD = Math.max(0, Number(process.env['BYTES'] ?? 600) - 600);
const { hostname, port } = new URL(url!);
const batch = Number(eventsPerRequest);

const template = new CallTemplate(
  Array.from({ length: batch }, () => ({
    ...orderOf(),
    ...(PAD > 0 ? { traits: { pad: 'x'.repeat(PAD) } } : {}),
  })),
);
let done = 0;
let refused = 0;
const latencies: number[] = [];
const end = performance.now() + Number(seconds) * 1000;

const sockets = Array.from({ length: Number(connections) }, () => {
  const socket = connect({ host: hostname, port: Number(port), noDelay: true });
  let sentAt = 0;
  socket.on('connect', () => {
    sentAt = performance.now();
    socket.write(template.next());
  });
  socket.on('data', (answer) => {
    const now = performance.now();
    latencies.push(now - sentAt);
    if (isGranted(answer)) done++;
    else refused++;
    sentAt = now;
    if (now < end) socket.write(template.next());
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
