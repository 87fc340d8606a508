import { randomInt } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { send, track } from '../support/calls.ts';
import { filesWith, findPostgres, type Postgres, startPostgres } from '../support/postgres.ts';
import { makePlace, type Program, startProgram } from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';
import { passed } from './passed.ts';
import { lasting } from './waiting.ts';

/**
 * Deletions on PostgreSQL whose node is killed as soon as it says that it is in a step: another node ends them, nobody is notified
 * twice by another id, and no file of the database holds a byte of the user. Each takes half a minute, most of which is the lease of the
 * dead node: a run tries some of the steps, others each time; MILLRACE_CLUSTER_LONG=1 tries all.
 */

const TOKEN = 'token-of-the-tests';
const NOTIFICATION = '"type":"delete"';
const EVENTS = 300;

/** What a node says at the beginning of each step, and of each part of an erasure. */
const STEPS: Readonly<Record<string, RegExp>> = {
  'the record was made': /"regulation\.made"/,
  'the survey': /"step":"survey"/,
  'the erasure': /"part":"events"/,
  profiles: /"part":"profiles"/,
  'requests in flight': /"part":"requests"/,
  samples: /"part":"samples"/,
  'saved answers': /"part":"answers"/,
  'the space of what is gone': /"part":"space"/,
  notifications: /"step":"notify"/,
  'their deliveries': /"step":"await"/,
  'their erasure': /"step":"finish"/,
  'the last cleaning': /"step":"clean"/,
  'the receipt': /"regulation\.done"/,
};

const SOME = 3;

/** The steps of this run. */
function chosenSteps(): [name: string, said: RegExp][] {
  const left = Object.entries(STEPS);
  if (process.env['MILLRACE_CLUSTER_LONG'] === '1') return left;
  return Array.from({ length: SOME }, () => left.splice(randomInt(left.length), 1)[0]!);
}

/** Steps whose kill cannot make a delivery that was made be made again. */
const BEFORE_DELIVERIES = Object.keys(STEPS).indexOf('their deliveries');

const ended: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ended.splice(0).reverse()) await end();
});

const bin = findPostgres();

interface Receipt {
  readonly overallStatus: string;
  readonly finishedAt?: string;
  readonly erased: { readonly events: number };
  readonly profiles?: number;
}

/** Two nodes on a database of their own, with a user that is to be erased. */
class Pair {
  readonly user: string;
  readonly mark: string;
  readonly #database: string;
  readonly #crm: TestReceiver;
  readonly #nodes: readonly [Program, Program];

  private constructor(
    nth: number,
    parts: { database: string; nodes: readonly [Program, Program]; crm: TestReceiver },
  ) {
    this.user = `erase-${nth}-7f3a`;
    this.mark = `mark-${nth}-55d0`;
    this.#database = parts.database;
    this.#nodes = parts.nodes;
    this.#crm = parts.crm;
  }

  static async start(server: Postgres, nth: number): Promise<Pair> {
    const database = await server.makeDatabase();
    const crm = await startReceiver();
    const place = makePlace(
      JSON.stringify({
        log: 'debug',
        profiles: 'on',
        egress: { allow: ['127.0.0.0/8'] },
        sources: [
          { name: 'website', writeKeys: ['wk'] },
          { name: 'app', writeKeys: ['wk_app'] },
        ],
        destinations: [
          {
            ...{ name: 'crm', type: 'webhooks', sources: ['website', 'app'] },
            settings: { endpoints: [{ url: crm.url }] },
          },
        ],
      }),
    );
    const start = (node: string) => {
      const args = ['start', '--config', place.config, '--data', `${place.data}-${node}`];
      const env = { MILLRACE_DATABASE: database, MILLRACE_NODE: node, MILLRACE_ADMIN_TOKEN: TOKEN };
      return startProgram({ args: [...args, '--port', '0', '--host', '127.0.0.1'], env });
    };
    // The first one takes the single jobs.
    const nodes = [await start('a'), await start('b')] as const;
    ended.push(
      () => place.remove(),
      () => crm.stop(),
      () => nodes[1].kill(),
      () => nodes[0].kill(),
    );
    return new Pair(nth, { database, nodes, crm });
  }

  async fill(): Promise<void> {
    for (const [nth, { url }] of this.#nodes.entries()) {
      const batch = Array.from({ length: EVENTS }, (_, n) =>
        track(`${this.mark}-${nth}-${n}`, {
          userId: n % 2 === 0 ? this.user : `other-${n}`,
          properties: { mark: n % 2 === 0 ? this.mark : n },
        }),
      );
      const writeKey = nth === 0 ? 'wk' : 'wk_app';
      expect((await send(url, '/v1/batch', { batch }, { writeKey })).status).toBe(200);
    }
    while (this.#crm.arrivals.length < 2 * EVENTS) await lasting(50);
    const status = () => this.api<{ sources?: readonly string[] }>('GET', `profiles/${this.user}`);
    while ((await status()).sources?.length !== 2) await lasting(50);
  }

  /** Asks the second node, which lives. */
  async api<Answer>(method: string, path: string, body?: object): Promise<Answer> {
    const response = await fetch(`${this.#nodes[1].url}/api/v1/${path}`, {
      method,
      headers: { authorization: `Bearer ${TOKEN}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return (await response.json()) as Answer;
  }

  /** Asks the first node for the deletion, and kills it when it says this. Resolves when it is dead. */
  async deleteAndKill(said: RegExp): Promise<void> {
    const [first] = this.#nodes;
    const isThere = first.saw(said);
    const asked = fetch(`${first.url}/api/v1/regulations`, {
      method: 'POST',
      headers: { authorization: `Bearer ${TOKEN}` },
      body: JSON.stringify({ type: 'DELETE_ONLY', subjectIds: [this.user] }),
    });
    // The node may die before it answers.
    asked.catch(() => {});
    await isThere;
    await first.kill();
  }

  async receipt(): Promise<Receipt & { readonly id: string }> {
    for (;;) {
      const { data } = await this.api<{ data: readonly (Receipt & { id: string })[] }>('GET', 'regulations');
      expect(data.length).toBeLessThan(2);
      if (data[0]?.finishedAt !== undefined) return data[0];
      await lasting(100);
    }
  }

  notifications(): string[] {
    const found = this.#crm.arrivals.filter(
      ({ body }) => body.includes(NOTIFICATION) && body.includes(this.user),
    );
    return found.map(({ headers }) => String(headers['webhook-id'])).sort();
  }

  left(): Promise<string[][]> {
    return Promise.all([this.user, this.mark].map((text) => filesWith(this.#database, text)));
  }
}

describe.skipIf(bin === undefined)('a deletion on PostgreSQL whose node is killed', () => {
  let server: Postgres;
  beforeAll(async () => {
    server = await startPostgres(bin!, { fsync: 'off', settings: { max_connections: '400' } });
  });
  afterAll(() => server.stop());

  it.each(chosenSteps())('is ended by another node: %s', async (name, said) => {
    const nth = Object.keys(STEPS).indexOf(name);
    const pair = await Pair.start(server, nth);
    await pair.fill();
    await pair.deleteAndKill(said);
    const { id, ...receipt } = await pair.receipt();
    expect(receipt).toMatchObject({ overallStatus: 'FINISHED', profiles: 1, erased: { events: EVENTS } });
    const told = pair.notifications();
    expect([...new Set(told)]).toEqual([`del_${id}_app_1`, `del_${id}_website_1`]);
    if (nth < BEFORE_DELIVERIES) expect(told).toHaveLength(2);
    const { data } = await pair.api<{ data: object[] }>('GET', `audit?kind=regulation&name=${id}`);
    expect(data).toMatchObject([{ action: 'created', by: 'admin' }]);
    expect(await pair.api('GET', 'ledger')).toMatchObject({ balanced: true });
    expect(await pair.left()).toEqual([[], []]);
    passed('deletion on PostgreSQL', { killed: name });
  });
});
