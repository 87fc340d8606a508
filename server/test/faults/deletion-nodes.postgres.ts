import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { send, track } from '../support/calls.ts';
import { filesWith, findPostgres, type Postgres, startPostgres } from '../support/postgres.ts';
import { makePlace, type Program, startProgram } from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';
import { lasting } from './waiting.ts';

/** A deletion waits for what each node says it has done, where several nodes share a database, and not for a time. */

const TOKEN = 'token-of-the-tests';
const USER = 'erased-7f3a';
const EVENTS = 60;

/** Longer than nodes take to follow each other, and shorter than a lease. */
const FROZEN_FOR = 5000;
/** Twice what the waits alone took when they were of a fixed length. */
const AT_MOST = 7000;

const bin = findPostgres();

interface Receipt {
  readonly id: string;
  readonly overallStatus: string;
  readonly createdAt: string;
  readonly finishedAt?: string;
  readonly erased: { readonly events: number };
}

describe.skipIf(bin === undefined)('a deletion and the nodes of a database', () => {
  let server: Postgres;
  let database: string;
  let crm: TestReceiver;
  const ended: (() => unknown)[] = [];

  beforeAll(async () => {
    server = await startPostgres(bin!, { fsync: 'off' });
  });
  afterAll(() => server.stop());
  afterEach(async () => {
    for (const end of ended.splice(0).reverse()) await end();
  });

  /** Two nodes; the first has the job of the deletion. */
  async function startNodes(): Promise<readonly [Program, Program]> {
    database = await server.makeDatabase();
    crm = await startReceiver();
    const settings = { endpoints: [{ url: crm.url }] };
    const place = makePlace(
      JSON.stringify({
        log: 'debug',
        egress: { allow: ['127.0.0.0/8'] },
        sources: [{ name: 'website', writeKeys: ['wk'] }],
        destinations: [{ name: 'crm', type: 'webhooks', sources: ['website'], settings }],
      }),
    );
    ended.push(
      () => place.remove(),
      () => crm.stop(),
    );
    const start = async (node: string) => {
      const args = ['start', '--config', place.config, '--data', `${place.data}-${node}`];
      const env = { MILLRACE_DATABASE: database, MILLRACE_NODE: node, MILLRACE_ADMIN_TOKEN: TOKEN };
      const program = await startProgram({ args: [...args, '--port', '0', '--host', '127.0.0.1'], env });
      ended.push(() => program.kill());
      return program;
    };
    const first = await start('a');
    await first.saw(/"job":"users".*"job\.begun"|"job\.begun".*"job":"users"/);
    return [first, await start('b')];
  }

  async function call({ url }: Program, mark: string): Promise<void> {
    const batch = Array.from({ length: EVENTS }, (_, n) => track(`${mark}-${n}`, { userId: USER }));
    expect((await send(url, '/v1/batch', { batch }, { writeKey: 'wk' })).status).toBe(200);
  }

  async function api<Answer>({ url }: Program, path: string, body?: object): Promise<Answer> {
    const response = await fetch(`${url}/api/v1/${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${TOKEN}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return (await response.json()) as Answer;
  }

  async function receipt(node: Program, id: string): Promise<Receipt> {
    for (;;) {
      const found = await api<Receipt>(node, `regulations/${id}`);
      if (found.finishedAt !== undefined) return found;
      await lasting(50);
    }
  }

  const erasing = (type: string) => ({ type, subjectIds: [USER] });

  it.each([0, 1])('ends as soon as both have done their part, asked of node %i', async (nth) => {
    const nodes = await startNodes();
    for (const [of, node] of nodes.entries()) await call(node, `m-${of}`);
    while (crm.arrivals.length < 2 * EVENTS) await lasting(20);
    const { id } = await api<Receipt>(nodes[nth]!, 'regulations', erasing('DELETE_ONLY'));
    const found = await receipt(nodes[nth]!, id);
    expect(found).toMatchObject({ overallStatus: 'FINISHED', erased: { events: 2 * EVENTS } });
    expect(Date.parse(found.finishedAt!) - Date.parse(found.createdAt)).toBeLessThan(AT_MOST);
    expect(await filesWith(database, USER)).toEqual([]);
  });

  it('waits for a node that stands still, and erases what that one takes before it knows', async () => {
    const [a, b] = await startNodes();
    await call(a, 'early');
    process.kill(b.pid, 'SIGSTOP');
    const late = call(b, 'late');
    const { id } = await api<Receipt>(a, 'regulations', erasing('SUPPRESS_WITH_DELETE'));
    await a.saw(/"step":"survey"/);
    await lasting(FROZEN_FOR);
    expect(a.out.stdout + a.out.stderr).not.toMatch(/"step":"erase"/);
    process.kill(b.pid, 'SIGCONT');
    await late;
    expect(await receipt(a, id)).toMatchObject({ overallStatus: 'FINISHED' });
    await call(b, 'later');
    expect(await filesWith(database, USER)).toEqual([]);
    const told = crm.arrivals.filter(({ body }) => body.includes('"type":"delete"'));
    expect(told).toHaveLength(1);
    expect(crm.arrivals.slice(crm.arrivals.indexOf(told[0]!) + 1)).toEqual([]);
  });

  it('does not wait for a node for longer than that node has its lease', async () => {
    const [a, b] = await startNodes();
    await call(a, 'early');
    await b.kill();
    const { id } = await api<Receipt>(a, 'regulations', erasing('DELETE_ONLY'));
    expect(await receipt(a, id)).toMatchObject({ overallStatus: 'FINISHED', erased: { events: EVENTS } });
  });

  it('ends with its node while it waits for another', async () => {
    const [a, b] = await startNodes();
    process.kill(b.pid, 'SIGSTOP');
    await api<Receipt>(a, 'regulations', erasing('DELETE_ONLY'));
    await a.saw(/"step":"survey"/);
    expect(await a.stop()).toBe(0);
    expect(a.out.stdout + a.out.stderr).not.toMatch(/"step":"erase"/);
    process.kill(b.pid, 'SIGCONT');
    await b.saw(/"regulation\.done"/);
  });
});
