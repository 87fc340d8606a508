import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { hasPatroni, PatroniCluster } from '../support/patroni.ts';
import { connectTo, findPostgres } from '../support/postgres.ts';
import { HAS_POSTGRES } from '../support/postgres-fixture.ts';
import { IS_LONG } from '../support/runs.ts';
import { Cluster } from './cluster.ts';
import { passed } from './passed.ts';
import { lasting } from './waiting.ts';

const canRun = HAS_POSTGRES && hasPatroni();

if (HAS_POSTGRES && !canRun)
  console.log('left out: a failover that Patroni decides, because patroni and etcd-server are not installed');

const SECOND = 1000;
const DATABASE = 'millrace';

/**
 * As many have it in production: nobody tells the nodes which server is the primary, and their address names
 * both.
 */
describe.runIf(canRun)('a cluster on two servers of Patroni', () => {
  let servers: PatroniCluster | undefined;
  let cluster: Cluster | undefined;

  beforeAll(async () => {
    servers = await PatroniCluster.start(findPostgres()!);
    const admin = await connectTo(`postgres://millrace@127.0.0.1:${servers.members[0]!.port}/postgres`);
    await admin.query(`create database ${DATABASE}`);
    await admin.end();
  });
  afterAll(() => servers?.stop());
  afterEach(() => cluster?.stop());

  it('loses nothing when the machine of the primary dies, and finds the new primary by itself', async () => {
    const { members } = servers!;
    const hosts = members.map(({ port }) => `127.0.0.1:${port}`).join(',');
    cluster = await Cluster.at(`postgres://millrace@${hosts}/${DATABASE}`, ['a', 'b']);
    cluster.beginLoad();
    await lasting(2 * SECOND);
    const at = performance.now();
    const since = () => Math.round(performance.now() - at);
    members[0]!.kill();
    // Patroni waits for twenty seconds at least, in which nobody takes a call.
    if (!IS_LONG) await servers!.endLease();
    await members[1]!.isPrimary();
    const promoted = since();
    expect(cluster.acknowledged.size).toBeGreaterThan(0);
    await cluster.takes(1);
    const back = since();
    await lasting(SECOND);
    const { acknowledged, lost, repeated } = await cluster.settle();
    passed('cluster, failover by Patroni', {
      ...{ acknowledged, lost, repeated: repeated.length },
      ...{ 'promoted after, ms': promoted, 'taken again after, ms': back },
    });
  });
});
