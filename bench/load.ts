import { connect } from 'node:net';
import { CallTemplate, isGranted, orderOf } from './calls.ts';
import { sourceNames } from './millrace.ts';

/**
 * A client that only sends: prepared requests over keep-alive connections, one at a time on each, every event
 * with a messageId of its own. Run as `node bench/load.ts URL CONNECTIONS SECONDS EVENTS_PER_REQUEST`, with
 * BYTES for larger events, RATE for so many requests a second instead of as many as it can, and SOURCES for
 * so many sources by turns; prints one line of JSON, with the processor time that each request took here.
 * With RATE a request's latency counts from when it was due, also if no connection was free then.
 */
const [url, connections, seconds, eventsPerRequest] = process.argv.slice(2);
const PAD = Math.max(0, Number(process.env['BYTES'] ?? 600) - 600);
const { hostname, port } = new URL(url!);
const RATE = Number(process.env['RATE'] ?? Number.POSITIVE_INFINITY);
const batch = Number(eventsPerRequest);

const events = Array.from({ length: batch }, () => ({
  ...orderOf(),
  ...(PAD > 0 ? { traits: { pad: 'x'.repeat(PAD) } } : {}),
}));
const templates = sourceNames(Number(process.env['SOURCES'] ?? 1)).map(
  (writeKey) => new CallTemplate(events, writeKey),
);
let requests = 0;
let done = 0;
let refused = 0;
const latencies: number[] = [];
const startedAt = performance.now();
const end = startedAt + Number(seconds) * 1000;

/** With RATE: connections without a request, and requests that were due and have none. */
const idle: (() => void)[] = [];
let due = 0;

const sockets = Array.from({ length: Number(connections) }, () => {
  const socket = connect({ host: hostname, port: Number(port), noDelay: true });
  let sentAt = 0;
  const send = () => {
    sentAt = RATE === Number.POSITIVE_INFINITY ? performance.now() : startedAt + (due++ * 1000) / RATE;
    socket.write(templates[requests++ % templates.length]!.next());
  };
  const sendNext = () => {
    if (performance.now() >= end) socket.end();
    else if (startedAt + (due * 1000) / RATE <= performance.now()) send();
    else idle.push(sendNext);
  };
  socket.on('connect', sendNext);
  socket.on('data', (answer) => {
    const now = performance.now();
    latencies.push(now - sentAt);
    if (isGranted(answer)) done++;
    else refused++;
    sendNext();
  });
  socket.on('error', () => {
    refused++;
  });
  return new Promise((resolve) => socket.once('close', resolve));
});

/** Hands what is due to idle connections; those whose turn has not come yet come back. */
const timer = setInterval(() => {
  for (const sendNext of idle.splice(0)) sendNext();
}, 1);
await Promise.all(sockets);
clearInterval(timer);
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
