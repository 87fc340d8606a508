import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { SqliteStore } from '../../src/adapters/sqlite/store.ts';
import { hasProfiles } from '../../src/adapters/sqlite/users/profile-store.ts';
import { createSystemClock } from '../../src/adapters/system/clock.ts';
import type { AudienceDefinition } from '../../src/model/definition.ts';
import { StorageError } from '../../src/ports/event-log.ts';
import type { LogFields } from '../../src/ports/logger.ts';
import { UsersClient, type UsersClientDependencies } from '../../src/users/client.ts';
import { DEFAULT_IDENTITY_SETTINGS, KEEP_PROFILES, type UsersSettings } from '../../src/users/contract.ts';
import { startUsersThread } from '../../src/wiring/users.ts';
import { batch, event } from '../conformance/batches.ts';
import { openStore } from '../support/shared-writer.ts';
import { until } from '../support/until.ts';

const NOTHING: UsersSettings = {
  computations: [],
  identities: DEFAULT_IDENTITY_SETTINGS,
  serverSources: [],
  hearing: [],
  retention: KEEP_PROFILES,
};

const PRO: AudienceDefinition = {
  kind: 'audience',
  id: 1,
  version: 1,
  name: 'Pro users',
  key: 'pro_users',
  text: `plan = 'pro'`,
  destinations: [],
  enabled: true,
  includeAnonymous: false,
  definition: { op: '=', value: { op: 'trait', name: 'plan' }, to: 'pro' },
};

/** The real thread on the real files, as the main thread sees it. */
describe('the users thread', () => {
  const clock = createSystemClock();
  let folder: string;
  let store: SqliteStore;
  let users: UsersClient;
  let logged: [event: string, facts: LogFields][];

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-thread-'));
    store = await openStore({ folder });
    logged = [];
  });
  afterEach(async () => {
    await users.stop();
    await store.stop();
    rmSync(folder, { recursive: true });
  });

  function start(
    profiles: UsersClientDependencies['profiles'],
    settings = NOTHING,
    parts: Partial<UsersClientDependencies> = {},
  ): UsersClient {
    const log = (facts: LogFields, name: string) => void logged.push([name, facts]);
    const options = () => ({ folder, store: store.identity, clock: clock.mark(), cache: 1024 * 1024 });
    const logger = { debug: log, info: log, warn: log, error: log };
    users = new UsersClient(
      {
        ...{ profiles, options, hasFile: () => hasProfiles(folder), startThread: startUsersThread },
        ...{ busyShare: () => 0, clock, logger, ...parts },
      },
      settings,
    );
    users.start();
    return users;
  }

  let appends = 0;

  /** Appends `track` calls of a user, each time others. */
  async function append(userId: string, n: number): Promise<void> {
    appends++;
    const events = Array.from({ length: n }, (_, nth) => event(`${userId}-${nth}-${appends}`, 1, { userId }));
    await store.log.append(batch(events, { receivedAt: clock.monotonic() }));
    users.committed();
  }

  const untilLive = () =>
    until('profiles are live', async () =>
      expect(await users.status()).toMatchObject({ state: 'live', behind: 0 }),
    );
  const untilKnown = (userId: string) =>
    until(`${userId} has a profile`, async () => expect(await users.profile({ userId })).toBeDefined());

  it('makes profiles of the log, and follows it when it is told of commits', async () => {
    start('on');
    await append('u1', 20);
    await untilLive();
    expect(await users.profile({ userId: 'u1' })).toMatchObject({ userId: 'u1' });
    expect(await users.profile({ userId: 'u2' })).toBeUndefined();
    await append('u2', 1);
    await untilKnown('u2');
    expect(await users.status()).toMatchObject({ profiles: 2 });
  });

  it('goes on where it stopped', async () => {
    start('on');
    await append('u1', 20);
    await untilLive();
    await users.stop();
    await append('u1', 3);
    start('auto');
    await untilLive();
    expect(users.progress()).toMatchObject({ applied: 3, profiles: 1 });
  });

  it('starts no thread and makes no file until something needs profiles', async () => {
    start('auto');
    await append('u1', 3);
    expect(await users.status()).toMatchObject({ state: 'off' });
    expect(await users.joinedIds(['u1'])).toMatchObject([{ userId: 'u1', anonymousIds: [] }]);
    expect(await users.erase(['u1'], [])).toBe(0);
    expect(existsSync(join(folder, 'users.db'))).toBe(false);
    users.configure({ ...NOTHING, computations: [PRO] });
    await untilLive();
    expect(await users.status()).toMatchObject({ profiles: 1, computations: [{ id: 1 }] });
  });

  it('starts when a profile is asked for', async () => {
    start('auto');
    await append('u1', 3);
    await untilKnown('u1');
  });

  it('keeps nothing when profiles are off, and still erases what was kept', async () => {
    start('on');
    await append('u1', 3);
    await append('u2', 3);
    await untilLive();
    await users.stop();
    start('off', { ...NOTHING, computations: [PRO] });
    expect(await users.status()).toMatchObject({ state: 'off' });
    expect(await users.profile({ userId: 'u1' })).toBeUndefined();
    await expect(users.rebuild({ dryRun: true })).rejects.toThrow(/profiles are off/);
    expect(await users.erase(['u1'], [])).toBe(1);
    await users.stop();
    start('on');
    expect(await users.profile({ userId: 'u1' })).toBeUndefined();
    expect(await users.profile({ userId: 'u2' })).toBeDefined();
  });

  it.runIf(process.platform === 'linux')('has the lowest priority, and no other thread has', async () => {
    start('on');
    await append('u1', 1);
    await untilLive();
    const niceOf = (thread: string) => {
      const stat = readFileSync(`/proc/self/task/${thread}/stat`, 'utf8');
      return Number(stat.slice(stat.lastIndexOf(')')).split(' ')[17]);
    };
    expect(readdirSync('/proc/self/task').filter((thread) => niceOf(thread) === 19)).toHaveLength(1);
    // By its number: a thread may have a lower one than the main thread when the numbers have begun anew.
    expect(niceOf(String(process.pid))).not.toBe(19);
  });

  it('is started again when it dies, and says so meanwhile', async () => {
    const given = () => ({ folder, store: store.identity, clock: clock.mark() });
    const broken = () => ({ ...given(), store: undefined }) as unknown as ReturnType<typeof given>;
    let starts = 0;
    start('on', NOTHING, { options: () => (starts++ === 0 ? broken() : given()) });
    await until('the end of the thread is told', () =>
      expect(users.degraded()).toEqual([expect.stringMatching(/the users thread has ended/)]),
    );
    expect(await users.status()).toMatchObject({ state: 'failed' });
    await expect(users.profile({ userId: 'u1' })).rejects.toThrow(StorageError);
    await append('u1', 3);
    await untilLive();
    expect(users.degraded()).toEqual([]);
    expect(users.health()).toMatchObject({ restarts: 1, isFailed: false });
    expect(logged.map(([name]) => name)).toEqual(['profiles.started', 'profiles.ended', 'profiles.started']);
  });

  it('says nobody belongs to a user only when it knows', async () => {
    start('on');
    await append('u1', 3);
    await untilLive();
    await users.stop();
    const given = () => ({ folder, store: store.identity, clock: clock.mark() });
    const broken = () => ({ ...given(), store: undefined }) as unknown as ReturnType<typeof given>;
    let starts = 0;
    start('auto', NOTHING, { options: () => (starts++ === 0 ? broken() : given()) });
    await until('the end of the thread is told', () => expect(users.degraded()).toHaveLength(1));
    await expect(users.joinedIds(['u1'])).rejects.toThrow(StorageError);
    await expect(users.usersOf(['a1'])).rejects.toThrow(StorageError);
    await expect(users.visitors(['a1'])).rejects.toThrow(StorageError);
    await expect(users.erase(['u1'], [])).rejects.toThrow(StorageError);
    await untilLive();
    expect(await users.joinedIds(['u1'])).toMatchObject([{ sources: [1] }]);
    expect(await users.erase(['u1'], [])).toBe(1);
  });

  it('answers while another process takes the profiles over, and while it does itself', async () => {
    start('on', { ...NOTHING, computations: [PRO] });
    await append('u1', 3);
    await untilLive();
    await users.stop();
    start('auto', { ...NOTHING, computations: [PRO] }, { isShared: true });
    expect(await users.status()).toMatchObject({ state: 'live', computations: [{ id: 1 }] });
    for (const change of ['start', 'stop', 'start'] as const) {
      const before = users.status();
      const changed = users.leadership[change]();
      const answers = [before, users.status(), users.status()];
      for (const answer of await Promise.all(answers))
        expect(answer).toMatchObject({ state: 'live', computations: [{ id: 1 }] });
      await changed;
      if (change === 'start') await untilKnown('u1');
      expect(await users.joinedIds(['u1'])).toMatchObject([{ sources: [1] }]);
    }
  });

  it('says what to do about a file that it cannot open, and rebuilds it', async () => {
    writeFileSync(join(folder, 'users.db'), 'no database'.repeat(200));
    start('on');
    await append('u1', 7);
    await until('the damage is told', () =>
      expect(users.degraded()[0]).toMatch(/profiles stand still: .*users\.db is damaged.*rebuild/),
    );
    expect(await users.status()).toMatchObject({ state: 'failed' });
    expect(await users.rebuild({ dryRun: true })).toMatchObject({ events: 7 });
    await users.rebuild({ dryRun: false });
    await untilLive();
    expect(await users.profile({ userId: 'u1' })).toBeDefined();
    expect(users.degraded()).toEqual([]);
  });

  it('holds up neither the erasure of the log nor its write-ahead log', async () => {
    start('on');
    await append('u1', 200);
    await untilLive();
    await store.log.erase({ userIds: ['u1'] });
    await store.regulations.scrub();
    expect(readFileSync(join(folder, 'millrace.db-wal'))).toHaveLength(0);
  });
});
