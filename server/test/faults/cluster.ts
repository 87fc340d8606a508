import { once } from 'node:events';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import { expect } from 'vitest';
import type { Overview } from '../../src/app.ts';
import type { Postgres } from '../support/postgres.ts';
import { makePlace, oneDestination, type Place, type Program, startProgram } from '../support/program.ts';

const TOKEN = 'token-of-the-tests';

/** A network between a node and the database, with the faults of networks. */
export interface Line {
  /** By which a node reaches a database of the server. */
  addressOf(database: string): string;
  /** Nothing passes any more, and nobody is told: what is sent meanwhile arrives after `mend`. */
  cut(): void;
  mend(): void;
  /** From now on everything that the database sends arrives so many milliseconds later. */
  slow(ms: number): void;
  /** Breaks all connections. New ones reach this server. */
  turn(server: Postgres): void;
  stop(): void;
}

async function startLine(server: Postgres): Promise<Line> {
  const socketOf = ({ folder }: Postgres) => join(folder, '.s.PGSQL.5432');
  const sockets = new Set<Socket>();
  let target = socketOf(server);
  let wait = 0;
  let mended: Promise<void> | undefined;
  let mend = () => {};
  const pass = (from: Socket, to: Socket, isAnswer: boolean) => {
    let before: Promise<unknown> = Promise.resolve();
    const inTurn = (work: () => void) => {
      const due = performance.now() + (isAnswer ? wait : 0);
      before = before.then(async () => {
        await delay(Math.max(0, due - performance.now()));
        while (mended !== undefined) await mended;
        work();
      });
    };
    from.on('data', (part) => inTurn(() => to.write(part)));
    from.on('close', () => inTurn(() => to.destroy()));
  };
  const line = createServer((client) => {
    const upstream = connect(target);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
    }
    pass(client, upstream, false);
    pass(upstream, client, true);
  });
  line.listen(0, '127.0.0.1');
  await once(line, 'listening');
  const destroyAll = () => {
    for (const socket of sockets) socket.destroy();
  };
  const { port } = line.address() as AddressInfo;
  return {
    addressOf: (database) => `postgres://millrace@127.0.0.1:${port}/${database}`,
    cut: () => {
      mended = new Promise((resolve) => {
        mend = resolve;
      });
    },
    mend: () => {
      mended = undefined;
      mend();
    },
    slow: (ms) => {
      wait = ms;
    },
    turn: (next) => {
      target = socketOf(next);
      destroyAll();
    },
    stop: () => {
      line.close();
      destroyAll();
    },
  };
}

/** No line at all: what is done to the network is done elsewhere. */
function directLine(address: string): Line {
  const refuse = () => {
    throw new Error('this node reaches the database by itself');
  };
  return { addressOf: () => address, cut: refuse, mend: refuse, slow: refuse, turn: refuse, stop: () => {} };
}

/** One request as it came to the customer's endpoint. */
export interface Arrival {
  readonly id: string;
  /** By the monotonic clock. */
  readonly at: number;
  /** The sender's, which tells nodes apart: see `portsOf`. */
  readonly port: number;
}

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
  /** What the nodes answered when none of them took a call. */
  readonly refusals: string[] = [];
  readonly nodes: ClusterNode[] = [];
  readonly place: Place;
  /** The name of the database. */
  readonly database: string;
  readonly #makeLine: () => Promise<Line>;
  readonly #receiver: ReturnType<typeof createHttpServer>;
  #sent = 0;
  #isSending = false;
  #sending: Promise<unknown> = Promise.resolve();
  /** Milliseconds after which the endpoint answers. */
  answersAfter = 0;
  /** Whether the endpoint refuses what comes, as one that is down. */
  isDown = false;
  /** The requests that it refused. */
  readonly refused: Arrival[] = [];
  /** Milliseconds after which the proxy in front of the nodes asks the next one. */
  patience = 3000;

  private constructor(
    makeLine: () => Promise<Line>,
    database: string,
    receiver: ReturnType<typeof createHttpServer>,
  ) {
    this.#makeLine = makeLine;
    this.database = /millrace_\d+/.exec(database)![0];
    this.#receiver = receiver;
    const { port } = receiver.address() as AddressInfo;
    this.place = makePlace(oneDestination([`http://127.0.0.1:${port}/in`]));
  }

  static async start(server: Postgres, names: readonly string[]): Promise<Cluster> {
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
    for (const name of names) await cluster.add(name);
    return cluster;
  }

  /** Starts one more node. */
  async add(name: string): Promise<ClusterNode> {
    const line = await this.#makeLine();
    const node: ClusterNode = { name, line, program: await this.launch(name, line) };
    this.nodes.push(node);
    return node;
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

  #receive(): void {
    this.#receiver.keepAliveTimeout = 120_000;
    this.#receiver.on('request', (request, response) => {
      request.resume();
      const id = decodeURIComponent(String(request.headers['webhook-id'])).replace(/^.*\//, '');
      const arrival = { id, at: performance.now(), port: request.socket.remotePort ?? 0 };
      if (this.isDown) {
        this.refused.push(arrival);
        response.writeHead(503).end();
        return;
      }
      this.arrivals.push(arrival);
      if (this.answersAfter === 0) response.end();
      else setTimeout(() => response.end(), this.answersAfter);
    });
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

  /** Sends one batch as a proxy does: to one node, and to the next when that one does not take it. Repeated until one takes it. */
  async send(events: number): Promise<void> {
    const nth = this.#sent++;
    const ids = Array.from({ length: events }, (_, n) => `c${nth}-${n}`);
    const batch = ids.map((messageId) => ({ type: 'track', userId: `u${nth}`, event: 'E', messageId }));
    const body = JSON.stringify({ batch });
    for (let round = 0; round < 600; round++) {
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
    throw new Error(`no node takes a call: ${this.refusals.at(-1)}`);
  }

  /** Sends from several clients until `endLoad`. */
  beginLoad({ clients = 4, events = 10, pause = 10 } = {}): void {
    this.#isSending = true;
    const client = async () => {
      while (this.#isSending) {
        await this.send(events);
        await delay(pause);
      }
    };
    this.#sending = Promise.all(Array.from({ length: clients }, client));
  }

  async endLoad(): Promise<void> {
    this.#isSending = false;
    await this.#sending;
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

  /** Ends the load and waits until everything is settled: each acknowledged event arrived, and the sums come out. */
  async settle(): Promise<Drilled> {
    await this.endLoad();
    // An hour of events is not sent in a moment.
    const until = performance.now() + SETTLED_WITHIN + this.acknowledged.size / SETTLED_A_MILLISECOND;
    const lost = new Set(this.acknowledged);
    let seen = 0;
    const find = () => {
      for (; seen < this.arrivals.length; seen++) lost.delete(this.arrivals[seen]!.id);
      return lost.size;
    };
    while (find() > 0 && performance.now() < until) await delay(200);
    if (lost.size > 0) throw new Error(await this.#describeLost([...lost]));
    let overview = await this.overview();
    const isOpen = () => overview.destinations['crm']!.pending > 0 || !overview.balanced;
    while (isOpen() && performance.now() < until) {
      await delay(200);
      overview = await this.overview();
    }
    const { destinations, balanced, differences } = overview;
    expect({ balanced, differences }).toEqual({ balanced: true, differences: [] });
    const n = this.acknowledged.size;
    expect(destinations['crm']).toMatchObject({ owed: n, delivered: n, pending: 0, dead: {} });
    return { acknowledged: n, lost: 0, repeated: this.repeats() };
  }

  /** The report names some lost events, and gives the status and the last output of each node. */
  async #describeLost(lost: readonly string[]): Promise<string> {
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

  /** The arrivals after the first one of an event, each with its first arrival. */
  repeats(): { readonly first: Arrival; readonly again: Arrival }[] {
    const firsts = new Map<string, Arrival>();
    return this.arrivals.flatMap((again) => {
      const first = firsts.get(again.id);
      if (first !== undefined) return [{ first, again }];
      firsts.set(again.id, again);
      return [];
    });
  }

  async stop(): Promise<void> {
    this.#isSending = false;
    for (const { program, line } of this.nodes) {
      if (isAlive(program.pid)) process.kill(program.pid, 'SIGKILL');
      line.stop();
    }
    await this.#sending.catch(() => undefined);
    this.#receiver.close();
    this.#receiver.closeAllConnections();
    this.place.remove();
  }
}

/** Characters at the end of a node's output. */
const OUTPUT_TAIL = 8000;

/** Milliseconds: a lease, its adoption, and the slowness of a busy machine. */
const SETTLED_WITHIN = 120_000;
const SETTLED_A_MILLISECOND = 2;

export interface Drilled {
  readonly acknowledged: number;
  readonly lost: number;
  readonly repeated: readonly { readonly first: Arrival; readonly again: Arrival }[];
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Stops a process until it gets SIGCONT. It opens no connection any more, so `portsOf` has all of them. */
export async function freeze(pid: number): Promise<void> {
  process.kill(pid, 'SIGSTOP');
  const isFrozen = (task: string) =>
    / \(.*\) T /s.test(readFileSync(`/proc/${pid}/task/${task}/stat`, 'utf8'));
  while (!readdirSync(`/proc/${pid}/task`).every(isFrozen)) await nextTurn();
}

/** The ports from which a process has connections. */
export function portsOf(pid: number): ReadonlySet<number> {
  const folder = `/proc/${pid}/fd`;
  const own = new Set(readdirSync(folder).map((fd) => readlinkOf(join(folder, fd))));
  const lines = readFileSync('/proc/net/tcp', 'utf8').split('\n').slice(1);
  const fields = lines.map((text) => text.trim().split(/\s+/)).filter(({ length }) => length > 9);
  const mine = fields.filter(([, , , , , , , , , inode]) => own.has(`socket:[${inode}]`));
  return new Set(mine.map(([, local]) => Number.parseInt(local!.split(':')[1]!, 16)));
}

function readlinkOf(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined;
  }
}
