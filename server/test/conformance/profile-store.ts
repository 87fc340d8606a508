import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MINUTE } from '../../src/model/time.ts';
import { StorageError } from '../../src/ports/event-log.ts';
import type { MergeRecord, ProfileChanges, ProfileStore } from '../../src/ports/profile-store.ts';
import { START } from './harness.ts';

export interface ProfileStoreHarness {
  /** An empty store. */
  open(): Promise<ProfileStore>;
  /** As after a SIGKILL and a new start. */
  reopen(store: ProfileStore): Promise<ProfileStore>;
  close(store: ProfileStore): Promise<void>;
}

/** A slice that changes nothing but what `parts` says. */
export function slice(position: number, parts: Partial<ProfileChanges> = {}): ProfileChanges {
  const cursor = { position, clock: START + position, nextProfile: 1000, nextOutbox: 1000 };
  const none = {
    put: [],
    removed: [],
    bind: [],
    unbind: [],
    timers: [],
    firedTimers: [],
    outbox: [],
    merges: [],
  };
  return { cursor, ...none, ...parts };
}

/** A state of one or more times 128 bytes that begins with a text. */
export function state(text: string, blocks = 1): Uint8Array {
  const bytes = Buffer.alloc(128 * blocks);
  bytes.write(text);
  return bytes;
}

/** The text in a state. */
export function textIn(bytes: Uint8Array | undefined): string | undefined {
  return bytes && Buffer.from(bytes).toString('utf8').replaceAll('\0', '');
}

interface Subject {
  store: ProfileStore;
  restart(): Promise<void>;
}

/** The duties of every `ProfileStore` (ports/profile-store.ts). */
export function profileStoreConformance(name: string, harness: ProfileStoreHarness): void {
  describe(name, () => {
    let store: ProfileStore;
    beforeEach(async () => {
      store = await harness.open();
    });
    afterEach(() => harness.close(store));
    const subject: Subject = {
      get store() {
        return store;
      },
      async restart() {
        store = await harness.reopen(store);
      },
    };
    keepsSlices(subject);
    keepsTimersAndOutbox(subject);
    keepsMerges(subject);
    removes(subject);
  });
}

function keepsSlices(subject: Subject): void {
  it('is empty at first, and begins at the beginning', async () => {
    const { store } = subject;
    expect(await store.cursor()).toEqual({ position: 0, clock: 0, nextProfile: 1, nextOutbox: 1 });
    expect(await store.resolve([1, 2 ** 53 - 1])).toEqual([undefined, undefined]);
    expect(await store.get([1])).toEqual([undefined]);
    expect(await store.scan(0, 10)).toEqual([]);
    expect(await store.outbox(0, 10)).toEqual([]);
    expect(await store.document('x')).toBeUndefined();
    expect(await store.size()).toMatchObject({ profiles: 0, damaged: 0 });
  });

  it('keeps profiles and identities with the cursor, also after a crash', async () => {
    const { store } = subject;
    const put = [
      { id: 7, state: state('seven') },
      { id: 3, state: state('three', 9) },
      { id: 2 ** 40, state: state('far') },
    ];
    const bind = [
      { key: 0, profile: 7 },
      { key: 2 ** 53 - 1, profile: 2 ** 40 },
      { key: 12_345_678_901, profile: 3 },
    ];
    await store.commit(slice(50, { put, bind }));
    const look = async () => {
      const now = subject.store;
      expect(await now.cursor()).toEqual(slice(50).cursor);
      expect(await now.resolve([2 ** 53 - 1, 5, 0, 12_345_678_901])).toEqual([2 ** 40, undefined, 7, 3]);
      const states = await now.get([3, 4, 7, 3]);
      expect(states.map(textIn)).toEqual(['three', undefined, 'seven', 'three']);
      expect(states[0]).toHaveLength(128 * 9);
    };
    await look();
    await subject.restart();
    await look();
  });

  it('replaces, removes and moves what a later slice says', async () => {
    const { store } = subject;
    await store.commit(
      slice(1, {
        cursor: { ...slice(1).cursor, nextProfile: 3 },
        put: [
          { id: 1, state: state('one') },
          { id: 2, state: state('two') },
        ],
        bind: [
          { key: 10, profile: 1 },
          { key: 20, profile: 2 },
          { key: 21, profile: 2 },
        ],
      }),
    );
    await store.commit(
      slice(2, {
        put: [{ id: 1, state: state('one and two', 3) }],
        removed: [2],
        bind: [{ key: 20, profile: 1 }],
        unbind: [21],
      }),
    );
    expect((await store.get([1, 2])).map(textIn)).toEqual(['one and two', undefined]);
    expect(await store.resolve([10, 20, 21])).toEqual([1, 1, undefined]);
    await subject.restart();
    expect((await subject.store.size()).profiles).toBe(1);
  });

  it('keeps 10,000 profiles of one slice, and scans them in the order of their ids', async () => {
    const { store } = subject;
    const ids = Array.from({ length: 10_000 }, (_, n) => ((n * 7919) % 10_000) + 1);
    await store.commit(
      slice(1, {
        put: ids.map((id) => ({ id, state: state(`p${id}`) })),
        bind: ids.map((id) => ({ key: id * 1_000_003, profile: id })),
      }),
    );
    const owners = await store.resolve(ids.map((id) => id * 1_000_003));
    expect(owners).toEqual(ids);
    expect((await store.get(ids)).map(textIn)).toEqual(ids.map((id) => `p${id}`));
    const scanned: number[] = [];
    for (let after = 0; ; ) {
      const page = await store.scan(after, 999);
      if (page.length === 0) break;
      for (const one of page) expect(textIn(one.state)).toBe(`p${one.id}`);
      scanned.push(...page.map(({ id }) => id));
      after = page.at(-1)!.id;
    }
    expect(scanned).toEqual([...ids].sort((a, b) => a - b));
    expect((await store.size()).profiles).toBe(10_000);
  });

  it('keeps documents by name until they are removed', async () => {
    const { store } = subject;
    await store.commit(slice(1, { documents: { one: { at: [1, 'ä'] }, two: 2 } }));
    await store.commit(slice(2, { documents: { two: null, three: 'x' } }));
    await subject.restart();
    const names = ['one', 'two', 'three'];
    expect(await Promise.all(names.map((name) => subject.store.document(name)))).toEqual([
      { at: [1, 'ä'] },
      undefined,
      'x',
    ]);
  });
}

function keepsTimersAndOutbox(subject: Subject): void {
  it('gives timers that are due, the earliest first, until they are removed', async () => {
    const minute = Math.floor(START / MINUTE);
    const timers = [
      { minute: minute + 2, profile: 1 },
      { minute, profile: 2 },
      { minute: minute + 1, profile: 3 },
      { minute, profile: 1 },
    ];
    await subject.store.commit(slice(1, { timers: [...timers, timers[1]!] }));
    expect(await subject.store.due(START - MINUTE, 10)).toEqual([]);
    const due = [timers[3], timers[1], timers[2]];
    expect(await subject.store.due(START + MINUTE, 10)).toEqual(due);
    expect(await subject.store.due(START + MINUTE, 2)).toEqual(due.slice(0, 2));
    await subject.store.commit(slice(2, { firedTimers: [timers[3]!, timers[1]!] }));
    await subject.restart();
    expect(await subject.store.due(START + 10 * MINUTE, 10)).toEqual([timers[2], timers[0]]);
  });

  it('sets a timer again that the same slice has fired', async () => {
    const timer = { minute: Math.floor(START / MINUTE), profile: 1 };
    await subject.store.commit(slice(1, { timers: [timer] }));
    await subject.store.commit(slice(2, { timers: [timer], firedTimers: [timer] }));
    expect(await subject.store.due(START, 10)).toEqual([timer]);
  });

  it('keeps entries for the log in their order until they are sent', async () => {
    const entry = (sequence: number) => ({ sequence, profile: sequence * 2, json: `{"n":"ä${sequence}"}` });
    await subject.store.commit(slice(1, { outbox: [1, 2, 3].map(entry) }));
    await subject.store.commit(slice(2, { outbox: [4, 5].map(entry), sentTo: 2 }));
    await subject.restart();
    expect(await subject.store.outbox(0, 10)).toEqual([3, 4, 5].map(entry));
    expect(await subject.store.outbox(3, 1)).toEqual([entry(4)]);
    await subject.store.commit(slice(3, { sentTo: 5 }));
    expect(await subject.store.outbox(0, 10)).toEqual([]);
  });
}

/** The merge of one profile into another at a position. */
function merge(winner: number, loser: number, position: number): MergeRecord {
  const identity = { kind: 'anonymous', value: `anon-${loser}` };
  return { winner, loser, rule: 'identify', identity, messageId: `m${position}`, at: START, position };
}

function keepsMerges(subject: Subject): void {
  it('gives the merges of a profile and of those that became part of it, the newest first', async () => {
    await subject.store.commit(slice(10, { merges: [merge(1, 2, 3), merge(4, 5, 7)] }));
    await subject.store.commit(slice(20, { merges: [merge(1, 4, 15), merge(9, 8, 16)] }));
    await subject.restart();
    const merges = [merge(1, 4, 15), { ...merge(4, 5, 7), winner: 1 }, merge(1, 2, 3)];
    expect(await subject.store.merges(1, 10)).toEqual(merges);
    expect(await subject.store.merges(1, 2)).toEqual(merges.slice(0, 2));
    expect(await subject.store.merges(4, 10)).toEqual([]);
    expect(await subject.store.merges(9, 10)).toEqual([merge(9, 8, 16)]);
    // One that is taken apart takes its merges along, but not those that the same slice makes.
    const [one, two] = [{ ...merge(1, 6, 20), source: 7 }, merge(9, 10, 21)];
    await subject.store.commit(slice(30, { removed: [1, 9], dissolved: [1, 9], merges: [one, two] }));
    expect(await subject.store.merges(1, 10)).toEqual([one]);
    expect(await subject.store.merges(9, 10)).toEqual([two]);
  });
}

function removes(subject: Subject): void {
  it('erases profiles with all that belongs to them, and leaves the others', async () => {
    const minute = Math.floor(START / MINUTE);
    await subject.store.commit(
      slice(10, {
        put: [1, 3].map((id) => ({ id: id + 1000, state: state(`p${id}`) })),
        bind: [
          { key: 10, profile: 1001 },
          { key: 11, profile: 1001 },
          { key: 30, profile: 1003 },
        ],
        timers: [
          { minute, profile: 1001 },
          { minute, profile: 1003 },
        ],
        outbox: [1001, 1002, 1003].map((profile, n) => ({ sequence: n + 1, profile, json: '{}' })),
        merges: [merge(1001, 1002, 5), merge(1003, 1004, 6)],
      }),
    );
    await subject.store.erase([1001, 555], ['p1']);
    await subject.restart();
    const { store } = subject;
    expect((await store.get([1001, 1003])).map(textIn)).toEqual([undefined, 'p3']);
    expect(await store.resolve([10, 11, 30])).toEqual([undefined, undefined, 1003]);
    expect(await store.due(START, 10)).toEqual([{ minute, profile: 1003 }]);
    // What was owed to the profile that was merged into it goes too.
    expect((await store.outbox(0, 10)).map(({ profile }) => profile)).toEqual([1003]);
    expect(await store.merges(1001, 10)).toEqual([]);
    expect(await store.merges(1003, 10)).toHaveLength(1);
    expect(await store.cursor()).toEqual(slice(10).cursor);
    expect((await store.size()).profiles).toBe(1);
  });

  it('stores documents in the step that erases profiles', async () => {
    const { store } = subject;
    const put = [1, 3].map((id) => ({ id: id + 1000, state: state(`p${id}`) }));
    await store.commit(slice(10, { put, documents: { kept: 1, changed: 2, gone: 3 } }));
    await store.erase([1001], ['p1'], { changed: 1, gone: null, fresh: { a: 1 } });
    await store.erase([], [], { fresh: { a: 2 } });
    await subject.restart();
    const names = ['kept', 'changed', 'gone', 'fresh'];
    const documents = await Promise.all(names.map((name) => subject.store.document(name)));
    expect(documents).toEqual([1, 1, undefined, { a: 2 }]);
    expect((await subject.store.size()).profiles).toBe(1);
  });

  it('lets profiles go with all that is known of them, but for what is owed to the log', async () => {
    const minute = Math.floor(START / MINUTE);
    const timer = { minute, profile: 1001 };
    await subject.store.commit(
      slice(10, {
        put: [1001, 1003].map((id) => ({ id, state: state(`p${id}`) })),
        bind: [
          { key: 10, profile: 1001 },
          { key: 11, profile: 1001 },
          { key: 30, profile: 1003 },
        ],
        timers: [timer],
        merges: [merge(1001, 1002, 5), merge(1003, 1004, 6)],
      }),
    );
    const entry = { sequence: 1, profile: 1001, json: '{}' };
    const forgotten = [{ profile: 1001, keys: [10, 11, 30] }];
    await subject.store.commit(slice(11, { forgotten, firedTimers: [timer], outbox: [entry] }));
    await subject.restart();
    const { store } = subject;
    expect((await store.get([1001, 1003])).map(textIn)).toEqual([undefined, 'p1003']);
    expect(await store.resolve([10, 11, 30])).toEqual([undefined, undefined, 1003]);
    expect(await store.due(START, 10)).toEqual([]);
    expect(await store.outbox(0, 10)).toEqual([entry]);
    expect(await store.merges(1001, 10)).toEqual([]);
    expect(await store.merges(1003, 10)).toHaveLength(1);
    expect((await store.size()).profiles).toBe(1);
  });

  it('says how much its rows take, and gives room that they have left back to the disk', async () => {
    const ids = Array.from({ length: 4000 }, (_, n) => n + 1000);
    const keysOf = (id: number) => [id * 1_000_003];
    await subject.store.commit(
      slice(1, {
        put: ids.map((id) => ({ id, state: state(`p${id}`, 8) })),
        bind: ids.flatMap((id) => keysOf(id).map((key) => ({ key, profile: id }))),
      }),
    );
    const full = await subject.store.usedBytes();
    const { bytes } = await subject.store.size();
    expect(full).toBeGreaterThan(4000 * 8 * 100);
    const forgotten = ids.slice(400).map((profile) => ({ profile, keys: keysOf(profile) }));
    await subject.store.commit(slice(2, { forgotten }));
    expect(await subject.store.usedBytes()).toBeLessThan(full / 3);
    while (await subject.store.giveBack());
    expect((await subject.store.size()).bytes).toBeLessThanOrEqual(bytes);
    await subject.restart();
    expect((await subject.store.size()).profiles).toBe(400);
    expect(await subject.store.resolve([...keysOf(1000), ...keysOf(3000)])).toEqual([1000, undefined]);
  });

  it('keeps the outbox when it is cleared, and the documents of that step', async () => {
    const entry = { sequence: 7, profile: 1, json: '{"messageId":"m"}' };
    await subject.store.commit(
      slice(10, { put: [{ id: 1, state: state('one') }], outbox: [entry], documents: { a: 1 } }),
    );
    await subject.store.clear({ b: { c: 2 } });
    await subject.restart();
    const { store } = subject;
    expect(await store.outbox(0, 10)).toEqual([entry]);
    expect(await store.document('a')).toBeUndefined();
    expect(await store.document('b')).toEqual({ c: 2 });
    await store.commit(slice(3, { sentTo: 7 }));
    expect(await store.outbox(0, 10)).toEqual([]);
  });

  it('is empty when it was cleared, and gives no number again', async () => {
    await subject.store.commit(
      slice(10, {
        put: [{ id: 1, state: state('one') }],
        bind: [{ key: 10, profile: 1 }],
        documents: { a: 1 },
      }),
    );
    await subject.store.clear();
    await subject.restart();
    const { store } = subject;
    expect(await store.cursor()).toEqual({ position: 0, clock: 0, nextProfile: 1000, nextOutbox: 1000 });
    expect(await store.get([1])).toEqual([undefined]);
    expect(await store.resolve([10])).toEqual([undefined]);
    expect(await store.document('a')).toBeUndefined();
    expect((await store.size()).profiles).toBe(0);
    await store.commit(slice(3, { put: [{ id: 1000, state: state('again') }] }));
    expect((await store.size()).profiles).toBe(1);
  });

  it('refuses everything when it is stopped', async () => {
    const { store } = subject;
    await store.stop();
    await expect(store.cursor()).rejects.toThrow(StorageError);
    await expect(store.commit(slice(1))).rejects.toThrow(StorageError);
    await subject.restart();
  });
}
