import { describe, expect, it } from 'vitest';
import { StorageError } from '../../ports/event-log.ts';
import type { Backup, BackupProgress } from '../../ports/store.ts';
import { backupOperations } from './backups.ts';

/** A store whose backups come as far as a test lets them. */
function world() {
  const asked: { folder: string; progress: BackupProgress; end: PromiseWithResolvers<Backup> }[] = [];
  const logged: string[] = [];
  let now = Date.parse('2026-03-04T05:06:07Z');
  const log = (_facts: object, name: string) => void logged.push(name);
  const operations = backupOperations({
    backup: (folder, progress = () => {}) => {
      const end = Promise.withResolvers<Backup>();
      asked.push({ folder, progress, end });
      return end.promise;
    },
    clock: { now: () => now, monotonic: () => now } as never,
    logger: { debug: log, info: log, warn: log, error: log },
    newId: () => `b${asked.length + 1}`,
  });
  const run = (method: string, path: string, input: object = {}) => {
    const found = operations.find((one) => one.method === method && one.path === path)!;
    return found.run({
      names: {},
      query: { limit: 100 },
      body: {},
      by: 'ci',
      ifMatch: undefined,
      ...input,
    } as never);
  };
  return {
    asked,
    logged,
    pass: (ms: number) => {
      now += ms;
    },
    post: (folder = '/b') => run('POST', 'backups', { body: { folder } }),
    get: (id: string) => run('GET', 'backups/:id', { names: { id } }),
    list: (query: object) =>
      run('GET', 'backups', { query }) as Promise<{ data: { id: string }[]; next: string }>,
  };
}

const DONE = { bytes: 1000, events: 7 };

describe('a backup asked for', () => {
  it('is answered when it has begun, tells how far it is, and what it holds in the end', async () => {
    const { asked, post, get, pass, logged } = world();
    const begun = post();
    asked[0]!.progress(0, 1000);
    const at = '2026-03-04T05:06:07.000Z';
    const record = { id: 'b1', folder: '/b', at };
    expect(await begun).toEqual({ ...record, state: 'running', written: 0, bytes: 1000, seconds: 0 });
    pass(1500);
    asked[0]!.progress(600, 1000);
    expect(await get('b1')).toMatchObject({ state: 'running', written: 600, seconds: 1.5 });
    asked[0]!.end.resolve(DONE);
    await asked[0]!.end.promise;
    pass(5000);
    const done = { ...record, ...DONE, state: 'done', written: 1000, seconds: 1.5 };
    expect(await get('b1')).toEqual(done);
    expect(logged).toEqual(['backup.done']);
  });

  it('is refused with what is wrong with the folder, and then not remembered', async () => {
    const { asked, post, list } = world();
    const begun = post();
    asked[0]!.end.reject(new StorageError('/b is not empty'));
    await expect(begun).rejects.toMatchObject({
      code: 'invalid_parameters',
      errors: [{ path: 'body.folder', message: '/b is not empty' }],
    });
    expect(await list({ limit: 100 })).toEqual({ data: [], next: null });
  });

  it('that fails later says why', async () => {
    const { asked, post, get, logged } = world();
    const begun = post();
    asked[0]!.progress(0, 1000);
    await begun;
    asked[0]!.end.reject(new StorageError('the disk is full'));
    await asked[0]!.end.promise.catch(() => {});
    expect(await get('b1')).toMatchObject({ state: 'failed', reason: 'the disk is full' });
    expect(logged).toEqual(['backup.failed']);
  });

  it('is refused while another one is made', async () => {
    const { asked, post } = world();
    const begun = post();
    asked[0]!.progress(0, 1000);
    await begun;
    await expect(post('/c')).rejects.toMatchObject({ code: 'backup_running' });
    asked[0]!.end.resolve(DONE);
    await asked[0]!.end.promise;
    const second = post('/c');
    asked[1]!.progress(0, 1000);
    expect(await second).toMatchObject({ folder: '/c', state: 'running' });
  });

  it('is listed, the newest first, among the last twenty', async () => {
    const { asked, post, list, get } = world();
    for (let nth = 0; nth < 22; nth++) {
      const begun = post();
      asked[nth]!.end.resolve(DONE);
      await begun;
    }
    const first = await list({ limit: 15 });
    expect(first.data.map(({ id }) => id).slice(0, 2)).toEqual(['b22', 'b21']);
    const second = await list({ limit: 15, cursor: first.next });
    expect(second.data.map(({ id }) => id)).toEqual(['b7', 'b6', 'b5', 'b4', 'b3']);
    expect(second.next).toBeNull();
    await expect(get('b1')).rejects.toMatchObject({ code: 'unknown_name' });
  });
});
