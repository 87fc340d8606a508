import { afterEach, describe, expect, it } from 'vitest';
import { connectTo, filesWith } from '../support/postgres.ts';
import { HAS_POSTGRES, usePostgres } from '../support/postgres-fixture.ts';
import type { Program } from '../support/program.ts';
import { until, within } from '../support/until.ts';
import { ErasingNodes, EVENTS, USER } from './erasing-nodes.ts';
import { lasting } from './waiting.ts';

/** Longer than nodes take to follow each other, and shorter than a lease. */
const FROZEN_FOR = 3000;

/**
 * A deletion waits for what each node says it has done, where several nodes share a database, and not for a
 * time. How long it takes: deletion-nodes.timing.ts.
 */
describe.skipIf(!HAS_POSTGRES)('a deletion and the nodes of a database', () => {
  const postgres = usePostgres();
  let database: string;
  let erasing: ErasingNodes | undefined;

  afterEach(async () => {
    await erasing?.stop();
    erasing = undefined;
  });

  /** Two nodes, the first of which has the job of the deletion. */
  async function startNodes(): Promise<ErasingNodes & { readonly pair: readonly [Program, Program] }> {
    database = await postgres.makeDatabaseWithTables();
    erasing = await ErasingNodes.start(database, ['a', 'b']);
    const [a, b] = erasing.nodes as [Program, Program];
    return Object.assign(erasing, { pair: [a, b] as const });
  }

  /** The lease of a node ends so many seconds from now. */
  async function setLease(node: string, seconds: number): Promise<void> {
    const client = await connectTo(database);
    await client.query(
      `update process set expires = clock_timestamp() + ${seconds} * interval '1 s' where node = '${node}'`,
    );
    await client.end();
  }

  const outputOf = ({ out }: Program) => out.stdout + out.stderr;

  it.each([0, 1])('ends when both have done their part, asked of node %i', async (nth) => {
    const nodes = await startNodes();
    for (const [of, node] of nodes.pair.entries()) await nodes.call(node, `m-${of}`);
    await within('all events are delivered', nodes.crm.count(2 * EVENTS));
    const id = await nodes.erase(nodes.pair[nth]!, 'DELETE_ONLY');
    const found = await nodes.receipt(nodes.pair[nth]!, id);
    expect(found).toMatchObject({ overallStatus: 'FINISHED', erased: { events: 2 * EVENTS } });
    expect(await filesWith(database, USER)).toEqual([]);
  });

  it('waits for a node that stands still, and erases what that one takes before it knows', async () => {
    const nodes = await startNodes();
    const [a, b] = nodes.pair;
    await nodes.call(a, 'early');
    process.kill(b.pid, 'SIGSTOP');
    const late = nodes.call(b, 'late');
    // However long that takes here, it has its lease.
    await setLease('b', 600);
    const id = await nodes.erase(a, 'SUPPRESS_WITH_DELETE');
    await within('the deletion begins', a.saw(/"step":"survey"/));
    await lasting(FROZEN_FOR);
    expect(outputOf(a)).not.toMatch(/"step":"erase"/);
    process.kill(b.pid, 'SIGCONT');
    await late;
    expect(await nodes.receipt(a, id)).toMatchObject({ overallStatus: 'FINISHED' });
    await nodes.call(b, 'later');
    expect(await filesWith(database, USER)).toEqual([]);
    const { arrivals } = nodes.crm;
    const told = arrivals.filter(({ body }) => body.includes('"type":"delete"'));
    expect(told).toHaveLength(1);
    expect(arrivals.slice(arrivals.indexOf(told[0]!) + 1)).toEqual([]);
  });

  it('waits no more for a node that has lost its lease, when its requests are over', async () => {
    const nodes = await startNodes();
    const [a, b] = nodes.pair;
    await nodes.call(a, 'early');
    await b.kill();
    await setLease('b', 600);
    const id = await nodes.erase(a, 'DELETE_ONLY');
    await within('the deletion begins', a.saw(/"step":"survey"/));
    await lasting(FROZEN_FOR);
    expect(outputOf(a)).not.toMatch(/"step":"erase"/);
    await setLease('b', 0);
    expect(await nodes.receipt(a, id)).toMatchObject({
      overallStatus: 'FINISHED',
      erased: { events: EVENTS },
    });
  });

  it('ends with its node while it waits for another', async () => {
    const nodes = await startNodes();
    const [a, b] = nodes.pair;
    process.kill(b.pid, 'SIGSTOP');
    await setLease('b', 600);
    await nodes.erase(a, 'DELETE_ONLY');
    await within('the deletion begins', a.saw(/"step":"survey"/));
    expect(await a.stop()).toBe(0);
    expect(outputOf(a)).not.toMatch(/"step":"erase"/);
    process.kill(b.pid, 'SIGCONT');
    await until('the other node ends the deletion', () => /"regulation\.done"/.test(outputOf(b)));
  });
});
