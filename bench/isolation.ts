import { createServer } from 'node:net';
import { compare, listen } from './offered.ts';

/**
 * Whether one dead destination slows a healthy one: `node bench/isolation.ts`, with SECONDS (60) and ROUNDS
 * (5). The same load is offered to a program with one healthy destination, and to one that also owes
 * everything to an endpoint that takes requests and never answers, by turns.
 */
const blackHole = createServer((socket) => {
  socket.on('error', () => {});
  socket.resume();
});
const dead = await listen(blackHole);

const load = {
  time: Number(process.env['SECONDS'] ?? 60),
  rate: Number(process.env['RATE'] ?? 5000),
  batch: 10,
  sources: ['bench'],
};
const well = (url: string) => ({ url, source: 'bench' });

await compare(
  Number(process.env['ROUNDS'] ?? 5),
  ['healthy destination alone', { ...load, destinations: (healthy) => [well(healthy)] }],
  ['healthy beside a black hole', { ...load, destinations: (healthy) => [well(healthy), well(dead)] }],
);
blackHole.close();
