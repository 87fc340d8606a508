import { lasting } from '../faults/waiting.ts';
import { send, track } from '../support/calls.ts';
import type { Postgres } from '../support/postgres.ts';
import { type PostgresLine, startPostgresLine } from '../support/postgres-line.ts';
import { makePlace, oneDestination, type Place, type Program, startServer } from '../support/program.ts';
import { until } from '../support/until.ts';

/** Milliseconds between two questions of the load balancer. */
const ASK_EVERY = 50;

/** A fault between a node and its database, and its end. */
export interface DatabaseFault {
  readonly name: string;
  readonly begin: (asked: AskedNode) => unknown;
  readonly end: (asked: AskedNode) => unknown;
  /** Answer of the node about it. */
  readonly said: RegExp;
}

/** Each way in which a database is gone. */
export const DATABASE_FAULTS: readonly DatabaseFault[] = [
  {
    name: 'its server was killed',
    begin: ({ server }) => server.crash(),
    end: ({ server }) => server.restart(),
    said: /cannot use the database/,
  },
  {
    name: 'its server stands still',
    begin: ({ server }) => server.freeze(),
    end: ({ server }) => server.thaw(),
    said: /has not answered for more than 2 s/,
  },
  {
    name: 'the network carries nothing',
    begin: ({ line }) => line.swallow(),
    end: ({ line }) => line.carry(),
    said: /has not answered for more than 2 s/,
  },
];

/** A node on a server of its own, which a load balancer asks whether it is ready. */
export class AskedNode {
  readonly server: Postgres;
  readonly line: PostgresLine;
  readonly node: Program;
  /** The address of its database, without the line between. */
  readonly url: string;
  readonly #place: Place;

  private constructor(parts: Pick<AskedNode, 'server' | 'line' | 'node' | 'url'>, place: Place) {
    this.server = parts.server;
    this.line = parts.line;
    this.node = parts.node;
    this.url = parts.url;
    this.#place = place;
  }

  static async start(server: Postgres): Promise<AskedNode> {
    const [line, place] = [
      await startPostgresLine(server.folder),
      makePlace(oneDestination(['http://127.0.0.1:9/in'])),
    ];
    try {
      const url = await server.makeDatabase();
      const env = { MILLRACE_DATABASE: line.through(url), MILLRACE_NODE: 'a' };
      const node = await startServer(place, { env });
      return new AskedNode({ server, line, node, url }, place);
    } catch (error) {
      line.close();
      place.remove();
      throw error;
    }
  }

  async stop(): Promise<void> {
    await this.node.kill();
    this.line.close();
    this.#place.remove();
  }

  async ask(): Promise<{ readonly status: number; readonly body: string }> {
    const answer = await fetch(`${this.node.url}/readyz`);
    return { status: answer.status, body: await answer.text() };
  }

  /** Sends a call with this messageId; resolves to the status of its answer. */
  async call(messageId: string): Promise<number> {
    return (await send(this.node.url, '/v1/track', track(messageId))).status;
  }

  /** Resolves when the node answers so, to the body. */
  async answers(status: number): Promise<string> {
    const look = async () => {
      const { body, ...answer } = await this.ask();
      return answer.status === status && body;
    };
    return await until(`the node answers ${status}`, look, { pause: ASK_EVERY });
  }

  /** Asks until something has ended; resolves to every status that was seen. */
  async statusesWhile(work: Promise<unknown>): Promise<Set<number>> {
    const seen = new Set<number>();
    let isOver = false;
    const over = work.finally(() => {
      isOver = true;
    });
    over.catch(() => undefined);
    for (; !isOver; await lasting(ASK_EVERY)) seen.add((await this.ask()).status);
    await over;
    return seen;
  }
}
