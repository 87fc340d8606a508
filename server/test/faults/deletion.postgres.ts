import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { send, track } from '../support/calls.ts';
import { chanceOf } from '../support/disk-faults/random.ts';
import { connectTo, filesWith } from '../support/postgres.ts';
import { HAS_POSTGRES, usePostgres } from '../support/postgres-fixture.ts';
import { makePlace, type Program, startProgram } from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';
import { IS_LONG, replayOf, SEED } from '../support/runs.ts';
import { until, within } from '../support/until.ts';
import { passed } from './passed.ts';

/**
 * Deletions on PostgreSQL whose node is killed as soon as it says that it is in a step: another node ends
 * them, nobody is notified twice by another id, and no file of the database holds a byte of the user. Each
 * waits for the requests that the dead node may have had in flight: the gate tries some of the steps, and the
 * long run all.
 */

const TOKEN = 'token-of-the-tests';
const NOTIFICATION = '"type":"delete"';
const EVENTS = 300;

/** Log lines of a node at the beginning of each step, and of each part of an erasure. */
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

const SOME = 2;

/** The steps of this run. */
function chosenSteps(): [name: string, said: RegExp][] {
  const left = Object.entries(STEPS);
  if (IS_LONG) return left;
  const chance = chanceOf(SEED);
  return Array.from({ length: SOME }, () => left.splice(chance.between(0, left.length - 1), 1)[0]!);
}

const ended: (() => unknown)[] = [];

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

  static async start(database: string, nth: number): Promise<Pair> {
    const crm = await startReceiver();
    ended.push(() => crm.stop());
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
    ended.push(() => place.remove());
    const start = async (node: string) => {
      const args = ['start', '--config', place.config, '--data', `${place.data}-${node}`];
      const env = { MILLRACE_DATABASE: database, MILLRACE_NODE: node, MILLRACE_ADMIN_TOKEN: TOKEN };
      const program = await startProgram({ args: [...args, '--port', '0', '--host', '127.0.0.1'], env });
      ended.push(() => program.kill());
      return program;
    };
    // The first one takes the single jobs.
    const nodes = [await start('a'), await start('b')] as const;
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
    await until('all events are delivered', () => this.#crm.arrivals.length >= 2 * EVENTS);
    const status = () => this.api<{ sources?: readonly string[] }>('GET', `profiles/${this.user}`);
    await until('both sources are in the profile', async () => (await status()).sources?.length === 2);
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

  /**
   * Asks the first node for the deletion, and kills it when it says this. Resolves when it is dead, and its
   * lease over.
   */
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
    await within(`the node says ${said}`, isThere);
    await first.kill();
    // What it has sent is read in these turns.
    for (let turn = 0; turn < 3; turn++) await nextTurn();
    const client = await connectTo(this.#database);
    await client.query(`update process set expires = clock_timestamp() where node = 'a'`);
    await client.end();
  }

  async receipt(): Promise<Receipt & { readonly id: string }> {
    return await until('the deletion has ended', async () => {
      const { data } = await this.api<{ data: readonly (Receipt & { id: string })[] }>('GET', 'regulations');
      if (data.length > 1) throw new Error('there are two deletions');
      return data[0]?.finishedAt !== undefined && data[0];
    });
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

describe.skipIf(!HAS_POSTGRES)(`a deletion on PostgreSQL whose node is killed (${replayOf(SEED)})`, () => {
  const postgres = usePostgres();
  afterEach(async () => {
    for (const end of ended.splice(0).reverse()) await end();
  });

  it.each(chosenSteps())('is ended by another node: %s', async (name, said) => {
    const nth = Object.keys(STEPS).indexOf(name);
    const pair = await Pair.start(await postgres.makeDatabaseWithTables(), nth);
    await pair.fill();
    await pair.deleteAndKill(said);
    const before = pair.notifications();
    const { id, ...receipt } = await pair.receipt();
    expect(receipt).toMatchObject({ overallStatus: 'FINISHED', profiles: 1, erased: { events: EVENTS } });
    const told = pair.notifications();
    expect([...new Set(told)]).toEqual([`del_${id}_app_1`, `del_${id}_website_1`]);
    // Those of the dead node may come once more: nobody knows their results.
    const again = told.filter((one, at) => told.indexOf(one) < at);
    expect(before).toEqual(expect.arrayContaining(again));
    expect(again).toEqual([...new Set(again)]);
    const { data } = await pair.api<{ data: object[] }>('GET', `audit?kind=regulation&name=${id}`);
    expect(data).toMatchObject([{ action: 'created', by: 'admin' }]);
    expect(await pair.api('GET', 'ledger')).toMatchObject({ balanced: true });
    expect(await pair.left()).toEqual([[], []]);
    passed('deletion on PostgreSQL', { killed: name });
  });
});
