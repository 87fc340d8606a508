import { describe, expect, it } from 'vitest';
import type { Entry } from '../backlog.ts';
import type { FailureCode } from '../failure.ts';
import type { KeyValueStorage } from './page.ts';
import { StorageBacklog } from './storage-backlog.ts';

/** Web Storage with a quota in characters. */
function storageOf(quota = 1_000_000): KeyValueStorage & { readonly all: Map<string, string> } {
  const all = new Map<string, string>();
  return {
    all,
    get length() {
      return all.size;
    },
    key: (index) => [...all.keys()][index] ?? null,
    getItem: (key) => all.get(key) ?? null,
    setItem(key, value) {
      const size = [...all].reduce((sum, [name, text]) => sum + name.length + text.length, 0);
      if (size + key.length + value.length > quota) throw new Error('QuotaExceededError');
      all.set(key, value);
    },
    removeItem: (key) => void all.delete(key),
  };
}

const HOUR = 3_600_000;
const LIMITS = { maxCalls: 100, maxBytes: 100_000, whenFull: 'refuse' } as const;
const entry = (id: string): Entry => {
  const json = `{"messageId":"${id}"}`;
  return { json, bytes: json.length };
};

describe('calls in the storage of a site', () => {
  let pages = 0;

  function open(
    storage: KeyValueStorage,
    now: () => number,
    limits: ConstructorParameters<typeof StorageBacklog>[1] = LIMITS,
  ) {
    const backlog = new StorageBacklog(storage, limits, { writeKey: 'wk', page: `p${++pages}`, now });
    const found: number[] = [];
    const lost: [string, FailureCode][] = [];
    backlog.start({
      found: (count) => found.push(count),
      lost: (entries, code) => lost.push(...entries.map(({ json }) => [json, code] as [string, FailureCode])),
    });
    return { backlog, found, lost, rest: () => backlog.take(100, 100_000).map(({ json }) => json) };
  }

  it('are kept until they are answered for', async () => {
    const storage = storageOf();
    const { backlog } = open(storage, () => 0);
    backlog.add(entry('m1'));
    const taken = backlog.take(10, 1_000);
    expect([...storage.all.values()]).toEqual(['{"messageId":"m1"}']);
    backlog.settle(taken);
    expect(storage.all.size).toBe(0);
    await backlog.close();
  });

  it('are taken up by a later page, in order, but not while their own page may still send them', async () => {
    const storage = storageOf();
    let now = 0;
    const first = open(storage, () => now);
    for (const id of ['m1', 'm2', 'm3']) {
      first.backlog.add(entry(id));
      now += 10;
    }
    await first.backlog.close();
    const early = open(storage, () => now);
    expect(early.rest()).toEqual([]);
    now += 60_000;
    early.backlog.adopt();
    expect(early.found).toEqual([1, 1, 1]);
    expect(early.rest()).toEqual(['m1', 'm2', 'm3'].map((id) => entry(id).json));
    early.backlog.adopt();
    expect(early.rest()).toEqual([]);
    await early.backlog.close();
  });

  it('are not taken from a site with another write key', async () => {
    const storage = storageOf();
    storage.setItem('millrace:other:0.p.0', '{"messageId":"m1"}');
    storage.setItem('something else', 'of the site');
    const { backlog, rest } = open(storage, () => HOUR);
    expect(rest()).toEqual([]);
    await backlog.close();
  });

  it('are not sent a second time when the server would no longer know them', async () => {
    const storage = storageOf();
    const { backlog } = open(storage, () => 0);
    backlog.add(entry('sent'));
    backlog.mark(backlog.take(10, 1_000));
    backlog.add(entry('never sent'));
    await backlog.close();
    const soon = open(storage, () => HOUR);
    expect(soon.rest()).toEqual([entry('sent').json, entry('never sent').json]);
    await soon.backlog.close();
    const late = open(storage, () => 30 * HOUR);
    expect(late.lost).toEqual([[entry('sent').json, 'expired']]);
    expect(late.rest()).toEqual([entry('never sent').json]);
    await late.backlog.close();
  });

  it('are reported when something else has written over them', async () => {
    const storage = storageOf();
    storage.setItem('millrace:wk:0.p.0', '{"messageId":');
    const { backlog, lost, found } = open(storage, () => HOUR);
    expect([found, lost]).toEqual([[1], [['{"messageId":', 'spool_damaged']]]);
    expect(storage.all.size).toBe(0);
    await backlog.close();
  });

  it('stay in memory when the storage is full, and are reported when the client is closed', async () => {
    const { backlog, lost } = open(storageOf(60), () => 0);
    expect(backlog.add(entry('m1'))).toBeUndefined();
    expect(backlog.add(entry('m2'))).toBeUndefined();
    expect(backlog.take(10, 1_000)).toHaveLength(2);
    await backlog.close();
    expect(lost).toEqual([[entry('m2').json, 'closed']]);
  });

  it('leave the storage when they are dropped for newer ones', async () => {
    const storage = storageOf();
    const { backlog, lost } = open(storage, () => 0, { ...LIMITS, maxCalls: 1, whenFull: 'drop-oldest' });
    backlog.add(entry('m1'));
    backlog.add(entry('m2'));
    expect(lost).toEqual([[entry('m1').json, 'dropped']]);
    expect([...storage.all.values()]).toEqual([entry('m2').json]);
    await backlog.close();
  });
});
