import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hasPatroni, PatroniCluster } from '../support/patroni.ts';
import { connectTo, findPostgres } from '../support/postgres.ts';
import { Cluster } from './cluster.ts';
import { passed } from './passed.ts';
import { lasting } from './waiting.ts';

const bin = findPostgres();
const canRun = bin !== undefined && hasPatroni();

if (bin !== undefined && !canRun)
  console.log('left out: a failover that Patroni decides, because patroni and etcd-server are not installed');

const SECOND = 1000;
const DATABASE = 'millrace_1';

/** As many have it in production: nobody tells the nodes which server is the primary, and their address names both. */
describe.runIf(canRun)('a cluster on two servers of Patroni', () => {
  let servers: PatroniCluster;

  beforeAll(async () => {
    servers = await PatroniCluster.start(bin!);
    const admin = await connectTo(`postgres://millrace@127.0.0.1:${servers.members[0]!.port}/postgres`);
    await admin.query(`create database ${DATABASE}`);
    await admin.end();
  });
  afterAll(() => servers.stop());

  it('loses nothing when the machine of the primary dies, and finds the new primary by itself', async () => {
    const hosts = servers.members.map(({ port }) => `127.0.0.1:${port}`).join(',');
    const cluster = await Cluster.at(`postgres://millrace@${hosts}/${DATABASE}`, ['a', 'b']);
    try {
      cluster.beginLoad();
      await lasting(2 * SECOND);
      const at = performance.now();
      const since = () => Math.round(performance.now() - at);
      servers.members[0]!.kill();
      await servers.members[1]!.isPrimary();
      const promoted = since();
      const { size } = cluster.acknowledged;
      expect(size).toBeGreaterThan(0);
      while (cluster.acknowledged.size === size) await lasting(20);
      const back = since();
      await lasting(2 * SECOND);
      const { acknowledged, lost, repeated } = await cluster.settle();
      passed('cluster, failover by Patroni', {
        ...{ acknowledged, lost, repeated: repeated.length },
        ...{ 'promoted after, ms': promoted, 'taken again after, ms': back },
      });
      // Of the lease of the nodes, which the primary took along.
      expect(back - promoted).toBeLessThan(20 * SECOND);
    } finally {
      await cluster.stop();
    }
  });
});
