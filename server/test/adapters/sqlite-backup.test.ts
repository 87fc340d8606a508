import { createHash, randomBytes } from 'node:crypto';
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { restoreBackup } from '../../src/adapters/sqlite/backup/backup.ts';
import { openLogReader } from '../../src/adapters/sqlite/log/log-reader.ts';
import { reapplyRegulations } from '../../src/adapters/sqlite/regulations/reapply.ts';
import type { SqliteStore } from '../../src/adapters/sqlite/store.ts';
import { openProfileStore } from '../../src/adapters/sqlite/users/profile-store.ts';
import { event, events, owedBatch } from '../conformance/batches.ts';
import { expectBalanced } from '../conformance/harness.ts';
import { slice, state, textIn } from '../conformance/profile-store.ts';
import { openStore } from '../support/shared-writer.ts';

let folder: string;
let store: SqliteStore;

beforeEach(async () => {
  folder = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'millrace-backup-'));
  store = await openStore({ folder: join(folder, 'data') });
});

afterEach(async () => {
  await store.stop();
  rmSync(folder, { recursive: true });
});

const inFolder = (...names: string[]) => join(folder, ...names);

/** Some megabytes of incompressible text: a copy then has several pieces. */
async function fill(megabytes: number): Promise<void> {
  const text = () => randomBytes(5_000).toString('base64');
  for (let n = 0; n < megabytes; n++) {
    const batch = Array.from({ length: 200 }, (_, nth) =>
      event(`f${n}-${nth}`, undefined, { properties: { text: text() } }),
    );
    await store.log.append(owedBatch(batch, 'parked'));
  }
}

describe('a backup', () => {
  it('is a store with everything that was committed before it, and nothing that came later', async () => {
    await store.log.append(owedBatch(events(30, 'before'), 'held'));
    const { bytes } = await store.backup(inFolder('b'));
    await store.log.append(owedBatch(events(5, 'after'), 'held'));
    expect(readdirSync(inFolder('b')).sort()).toEqual(['manifest.json', 'millrace.db']);
    expect(readFileSync(inFolder('b', 'millrace.db')).length).toBe(bytes);

    restoreBackup(inFolder('b'), inFolder('new'));
    const restored = await openStore({ folder: inFolder('new') });
    try {
      await expectBalanced(restored);
      expect((await restored.log.size()).events).toBe(30);
      // The copy has no process that holds the sets of the original, so they are due.
      expect(await restored.queue.recoverOrphans()).toBe(30);
    } finally {
      await restored.stop();
    }
  });

  it('tells how far it is, and takes commits meanwhile', async () => {
    await fill(3);
    const told: number[] = [];
    const made = store.backup(inFolder('b'), (written) => told.push(written));
    const appended = store.log.append(owedBatch(events(5, 'meanwhile'), 'held'));
    await Promise.all([made, appended]);
    expect(told[0]).toBe(0);
    expect(told.length).toBeGreaterThan(2);
    expect(told).toEqual(told.toSorted((one, other) => one - other));
  });

  it('refuses a folder that is not empty, is none, or stands in none, and touches nothing there', async () => {
    mkdirSync(inFolder('full'));
    writeFileSync(inFolder('full', 'mine'), 'x');
    mkdirSync(inFolder('half'));
    writeFileSync(inFolder('half', 'millrace.db.unfinished'), 'x');
    const refused: [string, string][] = [
      ['full', 'is not empty'],
      ['half', 'holds a backup that came to no end'],
      ['full/mine', 'is no folder'],
      ['nowhere/b', 'does not exist on the machine of the server'],
      ['data', 'is not empty'],
    ];
    for (const [name, reason] of refused) await expect(store.backup(inFolder(name))).rejects.toThrow(reason);
    expect(readdirSync(inFolder('full'))).toEqual(['mine']);
  });

  it('is made one at a time', async () => {
    await fill(2);
    const first = store.backup(inFolder('b'));
    await expect(store.backup(inFolder('c'))).rejects.toThrow('another backup is being made');
    await first;
    await store.backup(inFolder('c'));
  });

  it('is broken off by a stop of the store, and leaves nothing behind', async () => {
    await fill(5);
    const { promise: begun, resolve } = Promise.withResolvers<void>();
    const made = store.backup(inFolder('b'), () => resolve());
    const outcome = expect(made).rejects.toThrow('the server is being stopped');
    await begun;
    await store.stop();
    await outcome;
    expect(existsSync(inFolder('b'))).toBe(false);
  });
});

describe('restoring', () => {
  it('refuses a data folder that is not empty', async () => {
    await store.backup(inFolder('b'));
    expect(() => restoreBackup(inFolder('b'), inFolder('data'))).toThrow('is not empty');
  });

  it('refuses what is no whole backup of ours, and leaves no data folder behind', async () => {
    await store.log.append(owedBatch(events(500), 'parked'));
    await store.backup(inFolder('b'));
    const whole = readFileSync(inFolder('b', 'millrace.db'));
    const changed = (change: (bytes: Buffer) => unknown) => {
      const bytes = Buffer.from(whole);
      change(bytes);
      return bytes;
    };
    const wrong: [string, Buffer | undefined, string][] = [
      ['nothing', undefined, 'holds no backup'],
      ['text', Buffer.from('hello'.repeat(100)), 'was not written by Millrace'],
      ['other', changed((bytes) => bytes.writeUInt32BE(7, 68)), 'was not written by Millrace'],
      ['newer', changed((bytes) => bytes.writeUInt32BE(999, 60)), 'made by a newer Millrace (format 999'],
      ['cut', whole.subarray(0, whole.length - 8192), 'is damaged'],
      ['bad page', changed((bytes) => bytes.fill(7, 4096 * 2, 4096 * 6)), 'is damaged'],
    ];
    for (const [name, bytes, reason] of wrong) {
      mkdirSync(inFolder(name));
      if (bytes !== undefined) writeFileSync(inFolder(name, 'millrace.db'), bytes);
      expect(() => restoreBackup(inFolder(name), inFolder('new'))).toThrow(reason);
      expect(existsSync(inFolder('new'))).toBe(false);
    }
  });

  it('names what differs from the manifest, and goes on without one, saying what it could not check', async () => {
    await store.log.append(owedBatch(events(5), 'parked'));
    await openProfileStore({ folder: inFolder('data'), log: store.identity.id, cache: 1024 * 1024 }).stop();
    const { bytes } = await store.backup(inFolder('b'));
    const manifest = JSON.parse(readFileSync(inFolder('b', 'manifest.json'), 'utf8'));
    const sha256 = (name: string) =>
      createHash('sha256')
        .update(readFileSync(inFolder('b', name)))
        .digest('hex');
    expect(manifest).toEqual({
      ...{ format: 1, at: expect.stringMatching(/^\d{4}-.*Z$/) },
      files: ['users.db', 'millrace.db'].map((name) => ({
        ...{ name, size: statSync(inFolder('b', name)).size, sha256: sha256(name) },
      })),
    });
    expect(statSync(inFolder('b', 'manifest.json')).mode & 0o777).toBe(0o600);
    const notes = [expect.stringMatching(/was made without secrets\.key: .*could not be checked/)];
    expect(restoreBackup(inFolder('b'), inFolder('whole'))).toEqual({ bytes, notes });

    // A store that is whole in itself and as long, and is another one.
    const other = new DatabaseSync(inFolder('b', 'millrace.db'));
    other.exec('pragma journal_mode = delete; update ledger set value = value');
    other.close();
    expect(() => restoreBackup(inFolder('b'), inFolder('new'))).toThrow(
      /is not as it was made \(millrace\.db holds other bytes than when it was made\): .*--accept-damage/,
    );
    appendFileSync(inFolder('b', 'users.db'), 'x');
    expect(() => restoreBackup(inFolder('b'), inFolder('new'))).toThrow(
      /users\.db has \d+ bytes, and had \d+ when it was made/,
    );
    rmSync(inFolder('b', 'users.db'));
    expect(() => restoreBackup(inFolder('b'), inFolder('new'))).toThrow('users.db is missing');
    const accepted = restoreBackup(inFolder('b'), inFolder('accepted'), { acceptDamage: true });
    expect(accepted.notes).toEqual([
      expect.stringMatching(/^millrace\.db holds other bytes/),
      'users.db is missing',
      ...notes,
    ]);
    writeFileSync(inFolder('b', 'manifest.json'), '{');
    expect(() => restoreBackup(inFolder('b'), inFolder('new'))).toThrow(/manifest\.json cannot be read/);
    rmSync(inFolder('b', 'manifest.json'));
    expect(restoreBackup(inFolder('b'), inFolder('new')).notes).toEqual([
      expect.stringMatching(/has no manifest\.json, .*could not be checked/),
    ]);
  });

  describe('of a store with a key', () => {
    const [key, other] = [randomBytes(32), randomBytes(32)];
    const keys = { current: key, previous: [] };

    beforeEach(async () => {
      await store.stop();
      store = await openStore({ folder: inFolder('data'), secretKeys: keys });
      await store.backup(inFolder('b'));
    });

    const rewrite = (change: (manifest: { at: string; mac?: string }) => void) => {
      const manifest = JSON.parse(readFileSync(inFolder('b', 'manifest.json'), 'utf8'));
      change(manifest);
      writeFileSync(inFolder('b', 'manifest.json'), JSON.stringify(manifest));
    };

    it('has a manifest that only who has the key can write', () => {
      expect(restoreBackup(inFolder('b'), inFolder('new'), { secretKeys: keys }).notes).toBeUndefined();
      rewrite((manifest) => {
        manifest.at = '2020-01-01T00:00:00.000Z';
      });
      expect(() => restoreBackup(inFolder('b'), inFolder('forged'), { secretKeys: keys })).toThrow(
        /is not as it was made \(manifest\.json is not what was written with secrets\.key\)/,
      );
      const options = { secretKeys: keys, acceptDamage: true };
      expect(restoreBackup(inFolder('b'), inFolder('accepted'), options).notes).toEqual([
        'manifest.json is not what was written with secrets.key',
      ]);
    });

    it('is restored without the key or with another, and it is said what could not be checked and what the start needs', () => {
      const notes = [
        expect.stringMatching(/^manifest\.json is proved by the key [0-9a-f]{16}, .*could not be checked$/),
        expect.stringMatching(/^its secrets are encrypted with the key [0-9a-f]{16}: the start needs it/),
      ];
      expect(restoreBackup(inFolder('b'), inFolder('none')).notes).toEqual(notes);
      const wrong = { secretKeys: { current: other, previous: [] } };
      expect(restoreBackup(inFolder('b'), inFolder('other'), wrong).notes).toEqual(notes);
      const rotated = { secretKeys: { current: other, previous: [key] } };
      expect(restoreBackup(inFolder('b'), inFolder('rotated'), rotated).notes).toEqual([
        expect.stringMatching(/leave it under secrets\.previousKeys for the first start/),
      ]);
    });

    it('says that a manifest without the proof that a key would give could not be checked', () => {
      rewrite((manifest) => {
        delete manifest.mac;
      });
      expect(restoreBackup(inFolder('b'), inFolder('new'), { secretKeys: keys }).notes).toEqual([
        expect.stringMatching(/was made without secrets\.key/),
      ]);
    });

    it('takes the regulations of a journal without the key', async () => {
      const regulation = {
        id: 'r1',
        type: 'DELETE_ONLY',
        createdAt: 1,
        by: 'admin',
        userIds: ['u1'],
      } as const;
      await store.regulations.create(regulation);
      await store.stop();
      cpSync(inFolder('data', 'regulations.journal'), inFolder('b', 'regulations.journal'));
      restoreBackup(inFolder('b'), inFolder('new'), { awaitsRegulations: true });
      expect(await reapplyRegulations(inFolder('b'), inFolder('new'))).toMatchObject({ regulations: 1 });
    });
  });

  it('refuses a backup into which somebody has put a trigger', async () => {
    await store.backup(inFolder('b'));
    const other = new DatabaseSync(inFolder('b', 'millrace.db'));
    other.exec('create trigger spy after insert on chunk begin delete from chunk; end');
    other.close();
    const restoring = () => restoreBackup(inFolder('b'), inFolder('new'), { acceptDamage: true });
    expect(restoring).toThrow(/holds the trigger "spy"/);
    expect(existsSync(inFolder('new'))).toBe(false);
  });

  it('refuses a data folder in use in place of a backup: a part of it is still in its write-ahead log', async () => {
    await store.log.append(owedBatch(events(3), 'parked'));
    expect(() => restoreBackup(inFolder('data'), inFolder('new'))).toThrow('was in use and no backup');
  });
});

describe('a backup of a store with profiles', () => {
  const profiles = (data = 'data', of = store) =>
    openProfileStore({ folder: inFolder(data), log: of.identity.id, cache: 1024 * 1024 });

  /** The bytes of all files of a folder. */
  const bytesIn = (data: string) =>
    readdirSync(inFolder(data))
      .sort()
      .map((name) => [name, readFileSync(inFolder(data, name)).toString('base64')]);

  it('takes no other folder that comes into the place of its own, and leaves that one as it is', async () => {
    const other = await openStore({ folder: inFolder('open') });
    const users = profiles('open', other);
    await users.commit(slice(0, { put: [{ id: 1, state: state('of another') }] }));
    // As a server leaves it that was killed: the profiles stand in their write-ahead log.
    cpSync(inFolder('open'), inFolder('other'), { recursive: true });
    await users.stop();
    await other.stop();
    const before = bytesIn('other');
    await store.log.append(owedBatch(events(3), 'parked'));
    await profiles().stop();

    renameSync(inFolder('data'), inFolder('away'));
    renameSync(inFolder('other'), inFolder('data'));
    // Before the writer has noticed.
    await expect(store.backup(inFolder('b'))).rejects.toThrow(/another|was replaced/);
    expect(bytesIn('data')).toEqual(before);
    expect(existsSync(inFolder('b'))).toBe(false);
    renameSync(inFolder('data'), inFolder('other'));
    renameSync(inFolder('away'), inFolder('data'));
  });

  it('holds profiles that have seen no event which its log does not hold, whatever is written meanwhile', async () => {
    await fill(3);
    const users = profiles();
    const reader = openLogReader(inFolder('data'));
    let isDone = false;
    const writing = (async () => {
      for (let n = 0; !isDone; n++) {
        await store.log.append(owedBatch(events(20, `w${n}-`), 'parked'));
        const { end } = await reader.bounds();
        await users.commit(slice(end, { put: [{ id: 1, state: state(`at ${end}`) }] }));
        await new Promise((resolve) => setImmediate(resolve));
      }
    })();
    const { bytes } = await store.backup(inFolder('b'));
    isDone = true;
    await writing;
    await reader.stop();
    await users.stop();
    expect(readdirSync(inFolder('b')).sort()).toEqual(['manifest.json', 'millrace.db', 'users.db']);
    expect(statSync(inFolder('b', 'users.db')).mode & 0o777).toBe(0o600);

    expect(restoreBackup(inFolder('b'), inFolder('new'))).toMatchObject({ bytes });
    const restored = await openStore({ folder: inFolder('new') });
    const copy = profiles('new');
    const again = openLogReader(inFolder('new'));
    try {
      const { position } = await copy.cursor();
      expect(position).toBeGreaterThan(0);
      expect((await again.bounds()).end).toBeGreaterThanOrEqual(position);
      expect((await copy.get([1])).map(textIn)).toEqual([`at ${position}`]);
    } finally {
      await again.stop();
      await copy.stop();
      await restored.stop();
    }
  });

  it('copies profiles that no thread has open', async () => {
    const users = profiles();
    await users.commit(slice(0, { put: [{ id: 1, state: state('one') }] }));
    await users.stop();
    await store.backup(inFolder('b'));
    restoreBackup(inFolder('b'), inFolder('new'));
    const copy = profiles('new');
    expect((await copy.get([1])).map(textIn)).toEqual(['one']);
    await copy.stop();
  });

  it('leaves damaged profiles out and says so', async () => {
    await store.log.append(owedBatch(events(3), 'parked'));
    writeFileSync(inFolder('data', 'users.db'), 'no database'.repeat(300));
    const { damage } = await store.backup(inFolder('b'));
    expect(damage?.others).toEqual([expect.stringContaining('users.db')]);
    expect(readdirSync(inFolder('b')).sort()).toEqual(['manifest.json', 'millrace.db']);
    restoreBackup(inFolder('b'), inFolder('new'));
  });

  it('is refused with damaged profiles, and taken without them when that is accepted', async () => {
    await store.log.append(owedBatch(events(3), 'parked'));
    const users = profiles();
    await users.stop();
    await store.backup(inFolder('b'));
    writeFileSync(inFolder('b', 'users.db'), 'no database'.repeat(300));
    expect(() => restoreBackup(inFolder('b'), inFolder('new'))).toThrow(/profiles .* --accept-damage/);
    expect(existsSync(inFolder('new'))).toBe(false);
    restoreBackup(inFolder('b'), inFolder('new'), { acceptDamage: true });
    expect(existsSync(inFolder('new', 'users.db'))).toBe(false);
    expect(existsSync(inFolder('new', 'millrace.db'))).toBe(true);
  });
});
