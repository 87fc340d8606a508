import { createServer as createHttpServer } from 'node:http';
import { createServer, type Socket } from 'node:net';
import { compare, listen } from './offered.ts';

/**
 * Whether ten dead destinations slow ninety healthy ones: `node bench/destinations.ts`, with SECONDS (20),
 * ROUNDS (5) and RATE (2,000 events a second altogether, each for one destination). Each of the ten is dead
 * in a way of its own; in the run to compare with, all that is theirs is owed to nobody.
 */
const HEALTHY = 90;

/** Ways of a socket to treat a request; none of them accepts it. */
const WAYS: readonly ((socket: Socket) => void)[] = [
  // Takes requests and never answers.
  () => {},
  // Answers a byte a second.
  (socket) => {
    const timer = setInterval(() => socket.write('H'), 1000);
    socket.once('close', () => clearInterval(timer));
  },
  // Resets.
  (socket) => void socket.once('data', () => socket.resetAndDestroy()),
  // Closes without an answer.
  (socket) => void socket.once('data', () => socket.end()),
  // Answers something that is not HTTP.
  (socket) => void socket.once('data', () => socket.end('no such thing\r\n\r\n')),
];
const STATUSES: readonly [number, Record<string, string>][] = [
  [500, {}],
  [503, { 'Retry-After': '30' }],
  [401, {}],
];

const sockets = WAYS.map((way) =>
  createServer((socket) => {
    socket.on('error', () => {});
    socket.resume();
    way(socket);
  }),
);
const answering = STATUSES.map(([status, headers]) =>
  createHttpServer((incoming, answer) => {
    incoming.resume().on('end', () => answer.writeHead(status, headers).end());
  }),
);
const dead = [
  ...(await Promise.all([...sockets, ...answering].map(listen))),
  // A port without a listener, and a name without an address.
  'http://127.0.0.1:9',
  'http://nowhere.invalid',
];

const sources = Array.from({ length: HEALTHY + dead.length }, (_, n) => `source-${n}`);
const load = {
  time: Number(process.env['SECONDS'] ?? 20),
  rate: Number(process.env['RATE'] ?? 2000),
  batch: 1,
  sources,
};
const well = (url: string) => sources.slice(0, HEALTHY).map((source) => ({ url, source }));
const ill = () => sources.slice(HEALTHY).map((source, n) => ({ url: `${dead[n]}/in`, source }));

await compare(
  Number(process.env['ROUNDS'] ?? 5),
  ['90 healthy destinations', { ...load, destinations: well }],
  ['90 healthy beside 10 dead', { ...load, destinations: (url) => [...well(url), ...ill()] }],
);
for (const server of [...sockets, ...answering]) server.close();
for (const server of answering) server.closeAllConnections();
