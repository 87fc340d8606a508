import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { Database } from '../../../src/adapters/postgres/database.ts';
import { PostgresNodes } from '../../../src/adapters/postgres/nodes.ts';
import { systemClock } from '../../../src/adapters/system/clock.ts';
import { leasesConformance } from '../../conformance/leases.ts';
import { type NodesHarness, nodesConformance } from '../../conformance/nodes.ts';
import { emptyContents } from '../../memory-store/contents.ts';
import { openLeasedPorts } from '../../memory-store/store.ts';
import { until } from '../../support/until.ts';
import { portsThrough } from '../store.ts';
import { clientsOf, type LeaseClient } from './client.ts';
import { INSTALLATION, LeaseServer, STORE_OPERATION, type StoreOperation } from './server.ts';
import { STATEMENTS } from './statements.ts';
import { LeaseChannel } from './store.ts';

/** A server beside the tests, on the real clock. */
function serverOf(contents = emptyContents()) {
  return new LeaseServer({
    wire: {
      now: () => systemClock.monotonic(),
      arrive: (delay, _life, _name, run) => {
        if (delay > 100) return systemClock.after(delay, run);
        const timer = setImmediate(run);
        return () => clearImmediate(timer);
      },
    },
    contents,
  });
}

let server = serverOf();

const WAY = {
  ...{ delayTo: () => 0, delayBack: () => 0, isClosed: () => false, holdsBack: () => false },
  effect: () => {},
};

const harness: NodesHarness = {
  async open(node) {
    const { contents } = server.tables;
    const clients: LeaseClient[] = [];
    const Client = clientsOf(server, { way: WAY, made: (client) => void clients.push(client) });
    const database = new Database({ url: 'postgres://simulated', Client });
    database.belongTo(INSTALLATION);
    const nodes = await PostgresNodes.join(database, { node, clock: systemClock });
    const ports = openLeasedPorts(
      { contents },
      { opening: () => database.process, adopt: () => nodes.adopt() },
    );
    const life = { name: node, isOver: false, stillUntil: 0, areSocketsFirst: false };
    const listener = { applied: () => {}, looked: () => {}, refused: () => {}, appliedByThread: () => {} };
    const channel = new LeaseChannel(database, { life, listener, park: () => {}, mayWrite: () => true });
    let isAbandoned = false;
    return {
      ...portsThrough(channel, ports),
      nodes,
      process: () => nodes.process,
      stop: async () => {
        if (isAbandoned) return;
        await nodes.stop(true);
        await database.stop();
      },
      abandon: async () => {
        isAbandoned = true;
        await nodes.stop(false);
        await database.abandon();
        for (const client of clients) client.die(false, 0);
      },
    };
  },
  async lapse(node, seconds) {
    const { process } = server.tables;
    for (const [name, row] of process.rows)
      if (row.id === node.process())
        process.rows.set(name, { ...row, expires: systemClock.monotonic() + seconds * 1000 });
  },
  async close() {
    server = serverOf();
  },
};

nodesConformance('the rows of worlds', harness);

const opened: Database[] = [];
let names: string[] = [];

leasesConformance('the rows of worlds', {
  async open(connections) {
    const Client = clientsOf(server, { way: WAY, made: () => undefined });
    const database = new Database({
      ...{ url: 'postgres://simulated', Client },
      ...(connections !== undefined && { connections }),
    });
    opened.push(database);
    return database;
  },
  async lapse(node, seconds) {
    const { process } = server.tables;
    process.rows.set(node, {
      ...process.rows.get(node)!,
      expires: systemClock.monotonic() + seconds * 1000,
    });
  },
  put: (write, name) => {
    const operation: StoreOperation = {
      ...{ name, isDoubtable: false },
      apply: async () => names.push(name),
      ended: () => {},
    };
    return write.rows({ name: STORE_OPERATION, text: name }, [operation]);
  },
  names: async () => names,
  isBlocked: async () => {
    await until('a statement waits', () => server.waiting.size > 0);
  },
  async close() {
    for (const database of opened.splice(0)) await database.stop();
    server = serverOf();
    names = [];
  },
});

/** Below `server/src/adapters/postgres`: the SQL that each function was written for. */
const WRITTEN_FOR: Readonly<Record<string, readonly string[]>> = {
  'member.ts': [
    'lease.take eb766e8b',
    'lease.of_node e464d641',
    'lease.renew 699522ba',
    'lease.give_back f92df157',
    'adopt.has_expired b72400c5',
    'adopt.alone f9cd1dbe',
    'adopt.gone 26929be8',
    'adopt.forget_gone 57c3da6c',
    'adopt.park 01ba3140',
    'adopt.fold 81bbcbcb',
  ],
  'nodes.ts': [
    'job.take d4abcff7',
    'job.give_back 71b730c3',
    'node.list 6e5d2e89',
    'node.gone 9a765b5a',
    'node.changes 0f3d2fef',
    'node.erased_after 17194b05',
    'probe.take b5427d90',
    'probe.give_back 6d9b9d9b',
    'node.clock f33bf51f',
  ],
  'acknowledgements.ts': [
    'acknowledgement.put 9091d416',
    'acknowledgement.note_gone 62afbd8c',
    'acknowledgement.to_wait_for 9c70550d',
  ],
  'migration/moved.ts': ['migration.standing 61571647'],
};

describe('the statements of the rows', () => {
  it.each(Object.entries(WRITTEN_FOR))('do what those of %s do', (path, expected) => {
    const source = readFileSync(new URL(`../../../src/adapters/postgres/${path}`, import.meta.url), 'utf8');
    const found = [...source.matchAll(/name: '([a-z_.]+)',\s*text:\s*([`'])([\s\S]*?)\2/g)];
    const digests = found.map(([, statement, , text]) => {
      const digest = createHash('sha256').update(text!.replaceAll(/\s+/g, ' ')).digest('hex').slice(0, 8);
      return `${statement} ${digest}`;
    });
    expect(found.every(([, statement]) => statement! in STATEMENTS)).toBe(true);
    // A statement has changed: change its function in statements.ts first, then note it here.
    expect(digests).toEqual(expected);
  });

  it('are all that the rows know', () => {
    const written = Object.values(WRITTEN_FOR).flatMap((all) => all.map((one) => one.split(' ')[0]));
    expect(Object.keys(STATEMENTS).toSorted()).toEqual(written.toSorted());
  });
});
