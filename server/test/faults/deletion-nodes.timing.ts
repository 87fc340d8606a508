import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { findPostgres, type Postgres, startPostgres } from '../support/postgres.ts';
import { within } from '../support/until.ts';
import { ErasingNodes, EVENTS } from './erasing-nodes.ts';
import { passed } from './passed.ts';

const bin = findPostgres();

/**
 * Milliseconds that several nodes may need to follow each other: they look every tenth of a second while a
 * deletion is young.
 */
const FOLLOWING = 3000;

/**
 * A deletion waits for what each node says, and not for a time. The reference is the same deletion where a
 * node is alone.
 */
describe.skipIf(bin === undefined)('a deletion on PostgreSQL', () => {
  let server: Postgres;
  let erasing: ErasingNodes | undefined;

  beforeAll(async () => {
    server = await startPostgres(bin!, { fsync: 'off' });
  });
  afterAll(() => server.stop());
  afterEach(() => erasing?.stop());

  /** Milliseconds from the request for a deletion to its end. */
  async function duration(names: readonly string[]): Promise<number> {
    erasing = await ErasingNodes.start(await server.makeDatabase(), names);
    for (const [of, node] of erasing.nodes.entries()) await erasing.call(node, `m-${of}`);
    await within('all events are delivered', erasing.crm.count(names.length * EVENTS));
    const [first] = erasing.nodes;
    const found = await erasing.receipt(first!, await erasing.erase(first!, 'DELETE_ONLY'));
    await erasing.stop();
    return Date.parse(found.finishedAt!) - Date.parse(found.createdAt);
  }

  it('of two nodes ends about as soon as that of one', async () => {
    const alone = await duration(['a']);
    const both = await duration(['a', 'b']);
    passed('deletion of two nodes', { ms: both, 'of one node, ms': alone });
    expect(both).toBeLessThan(3 * alone + FOLLOWING);
  });
});
