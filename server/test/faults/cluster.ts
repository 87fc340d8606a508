import { once } from 'node:events';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import type { Overview } from '../../src/app.ts';
import { type Databases, nameOf } from '../support/postgres.ts';
import { makePlace, oneDestination, type Place, type Program, startProgram } from '../support/program.ts';
import { until, within } from '../support/until.ts';
import { directLine, type Line, startLine } from './cluster-line.ts';
import { type Arrival, type Connection, type Repeat, repeatsIn } from './repeats.ts';

const TOKEN = 'token-of-the-tests';

/** A node and its way to the database. */
export interface ClusterNode {
  readonly name: string;
  readonly line: Line;
  program: Program;
}

/** Nodes on one database, their customer's endpoint, and what became of every call. */
export class Cluster {
  readonly arrivals: Arrival[] = [];
  readonly acknowledged = new Set<string>();
  /** Answers of the nodes when none of them took a call. */
  readonly refusals: string[] = [];
  readonly nodes: ClusterNode[] = [];
  readonly place: Place;
  /** The name of the database. */
  readonly database: string;
  readonly #makeLine: () => Promise<Line>;
  readonly #receiver: ReturnType<typeof createHttpServer>;
  readonly #connections = new Map<Socket, Connection>();
  /**
   * Ports of nodes that are ended, by their place: some of their connections are seen here when they are
   * dead.
   */
  readonly #endedPorts = new Map<number, number>();
  #noting: NodeJS.Timeout | undefined;
  #sent = 0;
  #isSending = false;
  #isStopped = false;
  #sending: Promise<unknown> = Promise.resolve();
  /** Milliseconds after which the endpoint answers. */
  answersAfter = 0;
  /** Whether the endpoint refuses what comes, as one that is down. */
  isDown = false;
  /** The requests that it refused, how many of them wait for that, and how many did at most. */
  readonly refused = { requests: 0, waiting: 0, mostWaiting: 0 };
  /** Milliseconds after which the proxy in front of the nodes asks the next one. */
  patience = 3000;

  private constructor(
    makeLine: () => Promise<Line>,
    database: string,
    receiver: ReturnType<typeof createHttpServer>,
  ) {
    this.#makeLine = makeLine;
    this.database = nameOf(database);
    this.#receiver = receiver;
    const { port } = receiver.address() as AddressInfo;
    this.place = makePlace(oneDestination([`http://127.0.0.1:${port}/in`]));
  }

  static async start(server: Databases, names: readonly string[]): Promise<Cluster> {
    return Cluster.#make(await server.makeDatabase(), names, () => startLine(server));
  }

  /** Nodes that reach a database by this address themselves, without a line between. */
  static at(address: string, names: readonly string[]): Promise<Cluster> {
    return Cluster.#make(address, names, async () => directLine(address));
  }

  static async #make(
    database: string,
    names: readonly string[],
    makeLine: () => Promise<Line>,
  ): Promise<Cluster> {
    const receiver = createHttpServer();
    receiver.listen(0, '127.0.0.1');
    await once(receiver, 'listening');
    const cluster = new Cluster(makeLine, database, receiver);
    cluster.#receive();
    try {
      await cluster.#add(names);
      return cluster;
    } catch (error) {
      await cluster.stop();
      throw error;
    }
  }

  /** Starts nodes at the same time. */
  async #add(names: readonly string[]): Promise<void> {
    const added = await Promise.allSettled(
      names.map(async (name): Promise<ClusterNode> => {
        const line = await this.#makeLine();
        const program = await this.launch(name, line).catch((error: unknown) => {
          line.stop();
          throw error;
        });
        return { name, line, program };
      }),
    );
    for (const one of added) if (one.status === 'fulfilled') this.nodes.push(one.value);
    for (const one of added) if (one.status === 'rejected') throw one.reason;
  }

  /** Starts the program of a node. */
  launch(name: string, line: Line): Promise<Program> {
    const { config, data } = this.place;
    const args = ['start', '--config', config, '--data', `${data}-${name}`, '--port', '0'];
    const env = {
      MILLRACE_DATABASE: line.addressOf(this.database),
      MILLRACE_NODE: name,
      MILLRACE_ADMIN_TOKEN: TOKEN,
    };
    return startProgram({ args: [...args, '--host', '127.0.0.1'], env });
  }

  node(name: string): ClusterNode {
    return this.nodes.find((one) => one.name === name)!;
  }

  /**
   * Stops the program of a node where it is, until it gets SIGCONT. The lease that it has is the last one of
   * this program, or over.
   */
  async freeze(node: ClusterNode): Promise<void> {
    const { pid } = node.program;
    process.kill(pid, 'SIGSTOP');
    const isFrozen = (task: string) =>
      / \(.*\) T /s.test(readFileSync(`/proc/${pid}/task/${task}/stat`, 'utf8'));
    await until('the node stands still', () => readdirSync(`/proc/${pid}/task`).every(isFrozen), {
      pause: 1,
    });
    this.#noteEnd(node);
    const lease = node.line.leases.at(-1);
    if (lease !== undefined) lease.endedAt = performance.now();
  }

  /** Stops a node in order, and starts it again. Resolves to the exit code. */
  async restart(node: ClusterNode): Promise<number | null> {
    this.#noteEnd(node);
    const code = await node.program.stop();
    node.program = await this.launch(node.name, node.line);
    return code;
  }

  /** Arrivals from a node, from the index `from` in `arrivals` on. */
  arrivalsOf(node: ClusterNode, from = 0): Arrival[] {
    this.#noteSenders();
    const place = this.nodes.indexOf(node);
    return this.arrivals.slice(from).filter(({ connection }) => connection.node === place);
  }

  #receive(): void {
    this.#receiver.keepAliveTimeout = 120_000;
    this.#receiver.on('connection', (socket: Socket) => {
      const port = socket.remotePort ?? 0;
      const isOfEnded = this.#endedPorts.has(port);
      const connection: Connection = { port, node: undefined, closedAt: Number.POSITIVE_INFINITY, isOfEnded };
      this.#connections.set(socket, connection);
      socket.on('close', () => {
        connection.closedAt = performance.now();
      });
      this.#noting ??= setTimeout(() => this.#noteSenders(), NOTE_AFTER);
    });
    this.#receiver.on('request', (request, response) => {
      request.resume();
      if (this.isDown) this.#refuse(response);
      else this.#take(request, response);
    });
  }

  /** Notes which node has which connection to the endpoint. */
  #noteSenders(): void {
    clearTimeout(this.#noting);
    this.#noting = undefined;
    const unknown = [...this.#connections.values()].filter(({ node }) => node === undefined);
    if (unknown.length === 0) return;
    const places = this.#placesOfPorts(this.nodes);
    for (const connection of unknown)
      connection.node = places.get(connection.port) ?? this.#endedPorts.get(connection.port);
  }

  /** A node is about to end, or has ended, because the test wants it. */
  #noteEnd(node: ClusterNode): void {
    const places = this.#placesOfPorts([node]);
    for (const [port, place] of places) this.#endedPorts.set(port, place);
    for (const connection of this.#connections.values())
      if (places.has(connection.port)) connection.isOfEnded = true;
  }

  /** The ports from which nodes have connections to the endpoint, each with the place of its node. */
  #placesOfPorts(nodes: readonly ClusterNode[]): Map<number, number> {
    const { port } = this.#receiver.address() as AddressInfo;
    const sockets = socketsTo(port);
    const places = new Map<number, number>();
    for (const node of nodes)
      for (const file of filesOf(node.program.pid)) {
        const from = sockets.get(file);
        if (from !== undefined) places.set(from, this.nodes.indexOf(node));
      }
    return places;
  }

  #take({ headers, socket }: IncomingMessage, response: ServerResponse): void {
    const arrival: Arrival = {
      id: decodeURIComponent(String(headers['webhook-id'])).replace(/^.*\//, ''),
      at: performance.now(),
      connection: this.#connections.get(socket)!,
      leases: this.nodes.map(({ line }) => line.leases[line.current]),
      commits: undefined,
    };
    this.arrivals.push(arrival);
    const answer = () => {
      arrival.commits = arrival.leases.map((lease) => lease?.commits ?? 0);
      response.end();
    };
    if (this.answersAfter === 0) answer();
    else setTimeout(answer, this.answersAfter);
  }

  #refuse(response: ServerResponse): void {
    const { refused } = this;
    refused.requests++;
    refused.waiting++;
    refused.mostWaiting = Math.max(refused.mostWaiting, refused.waiting);
    response.once('close', () => refused.waiting--);
    setTimeout(() => response.writeHead(503).end(), this.answersAfter);
  }

  /** Sends a batch to a node. Resolves to its status, or to what broke. */
  async #post({ name, program }: ClusterNode, body: string): Promise<200 | string> {
    try {
      const answer = await fetch(`${program.url}/v1/batch`, {
        method: 'POST',
        headers: { authorization: `Basic ${btoa('wk:')}`, 'content-type': 'application/json' },
        body,
        signal: AbortSignal.timeout(this.patience),
      });
      const text = await answer.text();
      return answer.status === 200 ? 200 : `${name}: ${answer.status} ${text}`;
    } catch (error) {
      const { message, cause } = error as Error;
      return `${name}: ${message} ${String(cause ?? '')}`;
    }
  }

  /**
   * Sends one batch as a proxy does: to one node, and to the next when that one does not take it. Repeated
   * until one takes it.
   */
  async #send(events: number): Promise<void> {
    const nth = this.#sent++;
    const ids = Array.from({ length: events }, (_, n) => `c${nth}-${n}`);
    const batch = ids.map((messageId) => ({ type: 'track', userId: `u${nth}`, event: 'E', messageId }));
    const body = JSON.stringify({ batch });
    while (!this.#isStopped) {
      const said: string[] = [];
      for (let turn = 0; turn < this.nodes.length; turn++) {
        const answer = await this.#post(this.nodes[(nth + turn) % this.nodes.length]!, body);
        if (answer !== 200) said.push(answer);
        else for (const id of ids) this.acknowledged.add(id);
        if (answer === 200) return;
      }
      this.refusals.push(said.join('; '));
      await delay(100);
    }
  }

  /** Sends from several clients until `endLoad`. */
  beginLoad({ clients = 4, events = 10, pause = 30 } = {}): void {
    this.#isSending = true;
    const client = async () => {
      while (this.#isSending) {
        await this.#send(events);
        await delay(pause);
      }
    };
    this.#sending = Promise.all(Array.from({ length: clients }, client));
  }

  async #endLoad(): Promise<void> {
    this.#isSending = false;
    await within('every call is taken by a node', this.#sending, () => `Refused: ${this.refusals.at(-1)}`);
  }

  /** Resolves when so many events more are acknowledged than now. */
  async takes(events: number): Promise<void> {
    const { size } = this.acknowledged;
    await until(`${events} more events are acknowledged`, () => {
      if (this.acknowledged.size >= size + events) return true;
      throw new Error(`${this.acknowledged.size - size}; refused: ${this.refusals.at(-1)}`);
    });
  }

  async overview(node = this.nodes.at(-1)!): Promise<Overview> {
    const headers = { authorization: `Bearer ${TOKEN}` };
    const answer = await fetch(`${node.program.url}/api/v1/status`, {
      headers,
      signal: AbortSignal.timeout(20_000),
    });
    if (answer.status !== 200) throw new Error(`status answered ${answer.status}: ${await answer.text()}`);
    return (await answer.json()) as Overview;
  }

  /**
   * Ends the load and waits until everything is settled: each acknowledged event arrived, and the sums come
   * out.
   */
  async settle(): Promise<Drilled> {
    await this.#endLoad();
    const lost = new Set(this.acknowledged);
    let seen = 0;
    const find = () => {
      for (; seen < this.arrivals.length; seen++) lost.delete(this.arrivals[seen]!.id);
      return lost.size === 0;
    };
    await until('every acknowledged event has arrived', find).catch(async ({ message }: Error) => {
      throw new Error(`${message}\n${await this.#describe([...lost])}`);
    });
    const n = this.acknowledged.size;
    await until('the books balance', async () => {
      const { balanced, differences, destinations } = await this.overview();
      expect({ balanced, differences }).toEqual({ balanced: true, differences: [] });
      expect(destinations['crm']).toMatchObject({ owed: n, delivered: n, pending: 0, dead: {} });
    });
    this.#noteSenders();
    return { acknowledged: n, lost: 0, repeated: repeatsIn(this.arrivals) };
  }

  /** Names some lost events, and gives the status and the last output of each node. */
  async #describe(lost: readonly string[]): Promise<string> {
    const lines = [
      `of ${this.acknowledged.size} acknowledged events ${lost.length} did not arrive: ${lost.slice(0, 5)} …`,
    ];
    for (const node of this.nodes) {
      const overview = await this.overview(node).catch((error: unknown) => String(error));
      const { stdout, stderr } = node.program.out;
      lines.push(`node ${node.name}: ${JSON.stringify(overview)}`, `${stdout}${stderr}`.slice(-OUTPUT_TAIL));
    }
    return lines.join('\n');
  }

  /** Ends everything, whatever state it is in. */
  async stop(): Promise<void> {
    this.#isSending = false;
    this.#isStopped = true;
    clearTimeout(this.#noting);
    for (const { program, line } of this.nodes) {
      await program.kill();
      line.stop();
    }
    await this.#sending.catch(() => undefined);
    this.#receiver.close();
    this.#receiver.closeAllConnections();
    this.place.remove();
  }
}

/** Milliseconds after a new connection: a node opens many at once. */
const NOTE_AFTER = 100;

/** Characters at the end of a node's output. */
const OUTPUT_TAIL = 8000;

export interface Drilled {
  readonly acknowledged: number;
  readonly lost: number;
  readonly repeated: readonly Repeat[];
}

/** The files and sockets that a process has open; none when it has ended. */
function filesOf(pid: number): string[] {
  const folder = `/proc/${pid}/fd`;
  const read = (name: string) => orElse(() => readlinkSync(join(folder, name)), '');
  return orElse(() => readdirSync(folder), []).map(read);
}

/**
 * The sockets of this machine that are connected to a port, by the name that their process has for them, with
 * the ports that they are of.
 */
function socketsTo(port: number): Map<string, number> {
  const hex = port.toString(16).toUpperCase().padStart(4, '0');
  // Local address, remote address, state, queues, timer, retransmits, user, timeout, number.
  const line = new RegExp(
    `: [0-9A-F]{8}:([0-9A-F]{4}) [0-9A-F]{8}:${hex} \\w\\w (?:\\S+\\s+){5}(\\d+) `,
    'g',
  );
  const found = readFileSync('/proc/net/tcp', 'utf8').matchAll(line);
  return new Map([...found].map(([, local, number]) => [`socket:[${number}]`, Number.parseInt(local!, 16)]));
}

/** A process may end while it is looked at. */
function orElse<Value>(read: () => Value, otherwise: Value): Value {
  try {
    return read();
  } catch {
    return otherwise;
  }
}
