import { execFile } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { blocksOf } from '../docs/pages.ts';
import { DiskFaults, HAS_DISK_FAULTS, sayWhatIsLeftOut } from '../support/disk-faults/faults.ts';
import { type Chance, chanceOf } from '../support/disk-faults/random.ts';
import { failuresOf, makePlace, oneDestination, type Place, ROOT } from '../support/program.ts';
import { freePort } from '../support/receiver.ts';
import { IS_LONG, roundsOf, SEED } from '../support/runs.ts';
import { until } from '../support/until.ts';
import { audit, lost } from './books.ts';
import { Calls } from './calls.ts';
import { Endpoint } from './endpoint.ts';
import { endAll, type Instance, launch, start } from './instance.ts';
import { passed } from './passed.ts';
import { everythingAccepted } from './recovery.ts';
import { Client, Traffic } from './traffic.ts';
import { lasting } from './waiting.ts';

const CONNECTIONS = 4;
/** Number of calls acknowledged before files are removed. */
const BEFORE = 300;
/** Milliseconds after a removal from which every request is answered 503. */
const NOTICED = 1000;

let place: Place;
let endpoint: Endpoint;

beforeEach(async () => {
  endpoint = new Endpoint(await freePort(), chanceOf(SEED));
  await endpoint.be('up');
  place = makePlace(oneDestination([`http://127.0.0.1:${endpoint.port}/in`]));
});

afterEach(async () => {
  await endAll();
  await endpoint.stop();
  place.remove();
});

const db = (folder: string) => join(folder, 'millrace.db');
const wal = (folder: string) => join(folder, 'millrace.db-wal');
const away = (folder: string) => join(dirname(folder), 'away');

/** Takes something from a folder in use; returns a function that puts it back, where that is possible. */
type Removal = (folder: string) => (() => void) | undefined;

const gone = (...names: ((folder: string) => string)[]): Removal => {
  return (folder) => {
    for (const name of names) rmSync(name(folder), { recursive: true });
    return undefined;
  };
};

const moved = (...names: ((folder: string) => string)[]): Removal => {
  return (folder) => {
    const moves = names.map(
      (name) => [name(folder), `${away(folder)}-${name(folder).split('/').at(-1)}`] as const,
    );
    for (const [from, to] of moves) renameSync(from, to);
    return () => {
      for (const [from, to] of moves) renameSync(to, from);
    };
  };
};

const whole = (folder: string) => folder;

describe('files removed under a running server', () => {
  /** Sends calls until something is taken away, and then until they are refused. */
  async function takeAway(removal: Removal, calls: Calls): Promise<Noticed> {
    const live = await start(place);
    const client = new Client(live.url, 1);
    const traffic = new Traffic(live.url, { calls, chance: chanceOf(SEED), connections: CONNECTIONS });
    await traffic.until(() => calls.acknowledged.size > BEFORE);
    const before = [...calls.acknowledged];
    const putBack = removal(place.data);
    const at = performance.now();
    const refusals = () => traffic.statuses.get(503) ?? 0;
    await traffic.until(() => refusals() > 0);
    const after = performance.now() - at;
    await traffic.stop();
    expect(traffic.wrong).toEqual([]);
    await lasting(Math.max(0, NOTICED - after));
    for (let nth = 0; nth < 20; nth++) {
      const answer = await client.send(calls.make(1));
      expect(answer?.status).toBe(503);
      expect(JSON.stringify(answer?.body)).toContain('storage_unavailable');
    }
    const ready = await client.get('/readyz');
    expect(ready?.status).toBe(503);
    expect(ready?.body).toMatch(/changed under the running server \(millrace\.db/);
    expect((await client.get('/healthz'))?.status).toBe(200);
    expect(live.said()).toMatch(/"level":"error".*"event":"storage.amiss"/);
    client.close();
    return { live, before, putBack, ms: after };
  }

  it.each<[string, Removal]>([
    ['millrace.db and its log', gone(db, wal)],
    ['millrace.db', gone(db)],
    ['the whole folder', gone(whole)],
  ])(
    '%s: calls are answered 503, nothing is made in their place, and it stops in order',
    async (what, removal) => {
      const { live, ms } = await takeAway(removal, new Calls('gone'));
      expect(await live.stop()).toMatchObject({ code: 0 });
      expect(existsSync(db(place.data))).toBe(false);
      if (existsSync(place.data)) await expectRefused(/the store of the data folder .* is gone/);
      passed(`removed under the server: ${what}`, { 'ms until the first 503': Math.round(ms) });
    },
  );

  it('both: what the process holds open can be saved as the runbook says, before it is stopped', async () => {
    const calls = new Calls('saved');
    const { live, before } = await takeAway(gone(db, wal), calls);
    await shell('mkdir', { pid: String(live.pid) });
    await live.kill();
    const books = await audit(join(place.folder, 'saved'));
    // Calls acknowledged before the removal was noticed are included.
    expect(calls.acknowledged.size).toBeGreaterThanOrEqual(before.length);
    expect(lost(calls.acknowledged, books)).toEqual([]);
  });

  it('its log alone: what is in it is copied into the file, whether the server is stopped or killed then', async () => {
    for (const end of ['stop', 'kill'] as const) {
      const calls = new Calls(end);
      const { live, before } = await takeAway(gone(wal), calls);
      await live[end]();
      const books = await audit(place.data);
      expect(lost(before, books)).toEqual([]);
      expect(lost(calls.acknowledged, books)).toEqual([]);
      rmSync(place.data, { recursive: true });
    }
  });

  const MOVES: [string, Removal][] = [
    ['the folder', moved(whole)],
    ['millrace.db', moved(db)],
    ['its log', moved(wal)],
    ['both', moved(db, wal)],
  ];
  it.each(MOVES.filter((_, nth) => IS_LONG || nth % 2 === 0))(
    '%s moved away and back: the same process goes on, and nothing acknowledged is lost',
    async (_, removal) => {
      const calls = new Calls('moved');
      const { live, putBack } = await takeAway(removal, calls);
      putBack!();
      await everythingAccepted(live.url, calls);
      expect(live.said()).toMatch(/"event":"storage.intact"/);
      await endpoint.drain(calls.acknowledged);
      expect(await live.stop()).toMatchObject({ code: 0 });
      const { source, destination, stored } = await audit(place.data);
      expect(lost(calls.acknowledged, { source, destination, stored })).toEqual([]);
      expect(destination).toMatchObject({ pending: 0 });
      expect(endpoint.repeats.unexplained).toEqual([]);
    },
  );

  it('replaced by copies: calls are answered 503 until a restart, which looks at what is there', async () => {
    const calls = new Calls('replaced');
    const { live, before } = await takeAway((folder) => {
      renameSync(folder, away(folder));
      cpSync(away(folder), folder, { recursive: true });
      return undefined;
    }, calls);
    const copies = readdirSync(place.data);
    expect(await live.stop()).toMatchObject({ code: 0 });
    // The folder there now belongs to another program: the end of this process touched no file of it.
    expect(readdirSync(place.data)).toEqual(copies);
    rmSync(place.data, { recursive: true });
    renameSync(away(place.data), place.data);
    expect(lost(before, await audit(place.data))).toEqual([]);
  });

  // Under traffic the files may grow again before the next check, which does not see holes.
  it.each<[string, (folder: string) => void]>([
    ['millrace.db', (folder) => truncateSync(db(folder))],
    ['its log', (folder) => truncateSync(wal(folder))],
  ])(
    '%s emptied in place while nothing arrives: calls are answered 503, and the next start is refused',
    async (_, empty) => {
      const live = await start(place);
      const calls = new Calls('emptied');
      await everythingAccepted(live.url, calls);
      await endpoint.drain(calls.acknowledged);
      empty(place.data);
      const client = new Client(live.url, 1);
      await until('it is not ready', async () => (await client.get('/readyz'))?.status === 503);
      expect((await client.send(calls.make(1)))?.status).toBe(503);
      client.close();
      await live.kill();
      await expectRefused(/data folder/);
    },
  );

  it('the mark alone: it is written anew, and everything goes on', async () => {
    const live = await start(place);
    const calls = new Calls('mark');
    await everythingAccepted(live.url, calls);
    const mark = join(place.data, 'high-water-mark');
    rmSync(mark);
    await until('the mark is written anew', () => existsSync(mark));
    await everythingAccepted(live.url, calls);
    await live.kill();
    rmSync(wal(place.data));
    await expectRefused(/has lost its last \d+ commits?/);
  });
});

describe('a store that vanished while the program did not run', () => {
  it.each<[string, Removal, RegExp]>([
    ['millrace.db', gone(db), /is gone: millrace.db is missing/],
    [
      'its log',
      gone(wal),
      /has lost its last \d+ commits? of \d+: its write-ahead log, millrace.db-wal, is missing/,
    ],
  ])(
    '%s: the start after a kill ends with 1 and one line, and with it back everything is there',
    async (_, removal, line) => {
      const calls = new Calls('killed');
      const live = await start(place);
      const traffic = new Traffic(live.url, { calls, chance: chanceOf(SEED), connections: CONNECTIONS });
      await traffic.until(() => calls.acknowledged.size > BEFORE);
      await live.kill();
      await traffic.stop();
      const kept = join(place.folder, 'kept');
      cpSync(place.data, kept, { recursive: true });
      removal(place.data);
      await expectRefused(line);
      for (const file of [db, wal]) copyFileSync(file(kept), file(place.data));
      expect(lost(calls.acknowledged, await audit(place.data))).toEqual([]);
    },
  );
});

/** States of the log and of the file after a crash. The start finds everything, or is refused. */
const DAMAGES: readonly [string, (folder: string, older: string, chance: Chance) => void][] = [
  ['the log removed', (folder) => rmSync(wal(folder))],
  ['the log emptied', (folder) => truncateSync(wal(folder))],
  [
    'the log cut off',
    (folder, _, chance) => truncateSync(wal(folder), chance.between(1, sizeOf(wal(folder)) - 1)),
  ],
  ['a flipped bit in the log', (folder, _, chance) => flipBit(wal(folder), chance)],
  ['a block of the log zeroed', (folder, _, chance) => zeroBlock(wal(folder), chance)],
  ['the log of an earlier time', (folder, older) => copyFileSync(wal(older), wal(folder))],
  ['the file removed', (folder) => rmSync(db(folder))],
  [
    'both of an earlier time',
    (folder, older) => [db, wal].map((file) => copyFileSync(file(older), file(folder))),
  ],
  ['a flipped bit in the mark', (folder, _, chance) => flipBit(join(folder, 'high-water-mark'), chance)],
];

describe('files taken away after a kill at any moment', () => {
  it('a start finds everything that was acknowledged or is refused, and what is brought back is whole', async () => {
    const calls = new Calls('any');
    const copies = { older: join(place.folder, 'older'), kept: join(place.folder, 'kept') };
    const tally = { rounds: 0, refused: 0, whole: 0 };
    cpSync(await firstLife(calls), copies.older, { recursive: true });
    for (const { nth, seed, chance } of roundsOf('vanished', { gate: 1, long: 20 })) {
      const live = await start(place);
      const traffic = new Traffic(live.url, { calls, chance, connections: CONNECTIONS });
      const enough = calls.acknowledged.size + chance.between(20, 400);
      await traffic.until(() => calls.acknowledged.size > enough);
      await live.kill();
      endpoint.crashed();
      await traffic.stop();
      rmSync(copies.kept, { recursive: true, force: true });
      cpSync(place.data, copies.kept, { recursive: true });
      for (const [what, damage] of DAMAGES) {
        const damaged = join(place.folder, 'damaged');
        rmSync(damaged, { recursive: true, force: true });
        cpSync(copies.kept, damaged, { recursive: true });
        damage(damaged, copies.older, chance);
        const found = await audit(damaged).catch((error: unknown) => String(error));
        const context = `round ${nth}, seed ${seed}: ${what}: ${typeof found === 'string' ? found : 'started'}`;
        if (typeof found === 'string')
          // What is left of two times may also look damaged.
          expect(found, context).toMatch(
            /StorageError: (the store of the data folder|.* damaged: restore a backup)/,
          );
        else expect(lost(calls.acknowledged, found), context).toEqual([]);
        if (typeof found === 'string') tally.refused++;
        else tally.whole++;
        tally.rounds++;
        for (const file of [db, wal]) copyFileSync(file(copies.kept), file(damaged));
        if (what !== 'the file removed') continue;
        expect(lost(calls.acknowledged, await audit(damaged)), context).toEqual([]);
      }
    }
    expect(tally.refused).toBeGreaterThan(tally.rounds / 2);
    passed('taken away after a kill', { ...tally, acknowledged: calls.acknowledged.size, lost: 0 });
  });

  /** Sends some calls and kills the program. */
  async function firstLife(calls: Calls): Promise<string> {
    const live = await start(place);
    const traffic = new Traffic(live.url, { calls, chance: chanceOf(SEED), connections: CONNECTIONS });
    await traffic.until(() => calls.acknowledged.size > BEFORE);
    await live.kill();
    endpoint.crashed();
    await traffic.stop();
    return place.data;
  }
});

function sizeOf(path: string): number {
  return statSync(path).size;
}

function flipBit(path: string, chance: Chance): void {
  const bytes = readFileSync(path);
  bytes[chance.between(0, bytes.length - 1)]! ^= 1 << chance.between(0, 7);
  writeFileSync(path, bytes);
}

function zeroBlock(path: string, chance: Chance): void {
  const bytes = readFileSync(path);
  const at = chance.between(0, bytes.length - 1);
  writeFileSync(path, bytes.fill(0, at, at + 4096));
}

describe('a store whose log is damaged', () => {
  it('can be saved without it as the runbook says', async () => {
    const calls = new Calls('rescued');
    const first = await start(place);
    await everythingAccepted(first.url, calls);
    expect(await first.stop()).toMatchObject({ code: 0 });
    const before = [...calls.acknowledged];
    const second = await start(place);
    await everythingAccepted(second.url, calls);
    await second.kill();
    writeFileSync(wal(place.data), readFileSync(wal(place.data)).fill(0, 0, 32));
    await expectRefused(/move \S+millrace.db-wal away.*millrace restore \S+ --data NEW/);
    await shell('mv', {});
    expect([...(await audit(join(place.folder, 'rescued'))).stored]).toEqual(before);
  });
});

/** Runs the block of the runbook that begins with this command, where the data folder is. */
async function shell(command: string, env: Readonly<Record<string, string>>): Promise<void> {
  const [block] = blocksOf('docs/operations/runbook.md').filter(
    ({ runBy, text }) => runBy?.endsWith('vanished.faults.ts') && text.startsWith(`${command} `),
  );
  const bin = [join(ROOT, 'node_modules/.bin'), dirname(process.execPath), process.env['PATH']].join(':');
  await promisify(execFile)('sh', ['-euc', block!.text], { cwd: place.folder, env: { ...env, PATH: bin } });
}

sayWhatIsLeftOut('a start on a disk that does not answer');

describe.runIf(HAS_DISK_FAULTS)('a start on a disk that does not answer', () => {
  it('is ended by SIGTERM all the same', async () => {
    mkdirSync(place.data);
    writeFileSync(join(place.data, 'owner'), '');
    const disk = new DiskFaults(place.data);
    disk.delay('open', 3_600_000);
    const instance = launch(place, { env: disk.env });
    await until('a file is opened', () => disk.calls('open') > 0);
    await instance.stop();
    expect(instance.said()).toContain('the start does not come to an end');
    disk.remove();
  });
});

async function expectRefused(line: RegExp): Promise<void> {
  const instance = launch(place);
  expect(await instance.ready).toBeUndefined();
  expect(await instance.ended).toBe(1);
  expect(failuresOf(instance.said())).toEqual([expect.stringMatching(line)]);
}

interface Noticed {
  readonly live: Instance & { url: string };
  /** Acknowledged before anything was taken away. */
  readonly before: readonly string[];
  readonly putBack: (() => void) | undefined;
  /** Until the first 503. */
  readonly ms: number;
}
