import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { expect } from 'vitest';
import { track } from '../support/calls.ts';
import { post, TestConnection } from '../support/http-server.ts';
import { makePlace, type Place, type Program, startServer } from '../support/program.ts';

const AUTHORIZATION = `Authorization: Basic ${Buffer.from('wk:').toString('base64')}`;

/** A request with this body, from a client that has the write key. */
export const keyed = (body: string) => post('/v1/track', body, [AUTHORIZATION]);

/** The real program in a process of its own, hostile clients, and a good one beside them. */
export class Besieged {
  readonly program: Program;
  readonly #place: Place;
  readonly #sockets = new Set<Socket>();
  #calls = 0;

  private constructor(place: Place, program: Program) {
    this.#place = place;
    this.program = program;
  }

  static async start(): Promise<Besieged> {
    const place = makePlace('sources: [{ name: website, writeKeys: [wk] }]');
    const besieged = new Besieged(place, await startServer(place));
    // The first calls take memory for compiled code and buffers, which belongs to no attack.
    for (let nth = 0; nth < 200; nth++) await besieged.goodCall();
    return besieged;
  }

  async stop(): Promise<void> {
    expect(await this.program.stop()).toBe(0);
    expect(this.program.out.stderr).not.toContain('request.failed');
    this.#place.remove();
  }

  /** `onEnd` is given the age of the connection in milliseconds. */
  open(onEnd: (age: number) => void = () => {}): Promise<Socket> {
    const { hostname, port } = new URL(this.program.url);
    const began = performance.now();
    const socket = connect(Number(port), hostname);
    socket.on('error', () => {});
    socket.once('close', () => onEnd(performance.now() - began));
    // A socket that is not read does not notice its end.
    socket.resume();
    this.#sockets.add(socket);
    return once(socket, 'connect').then(() => socket);
  }

  async openMany(count: number, onEnd?: (age: number) => void): Promise<Socket[]> {
    const opened: Socket[] = [];
    // In steps: the system keeps only so many that nobody has accepted yet.
    while (opened.length < count) {
      const step = Array.from({ length: Math.min(500, count - opened.length) }, () => this.open(onEnd));
      opened.push(...(await Promise.all(step)));
    }
    return opened;
  }

  /** Ends every connection, and waits until the server has noticed. */
  async destroyAll(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#sockets.clear();
    // The server serves a new connection after it has noticed the end of the old ones.
    await this.goodCall();
  }

  goodRequest(): Buffer {
    return keyed(JSON.stringify(track(`good-${++this.#calls}`)));
  }

  /** Makes a call on a connection of its own, and has its answer. */
  async goodCall(): Promise<void> {
    const connection = new TestConnection(await this.open());
    await connection.send(this.goodRequest());
    expect(await connection.nextResponse()).toMatchObject({ status: 200, body: '{"success":true}' });
    connection.destroy();
  }
}
