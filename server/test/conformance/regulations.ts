import { describe, expect, it } from 'vitest';
import { REGULATION_TYPES, type RegulationSubject, type RegulationType } from '../../src/model/regulation.ts';
import { DAY, HOUR } from '../../src/model/time.ts';
import type { Regulations } from '../../src/ports/regulations.ts';
import type { Store } from '../../src/ports/store.ts';
import { batch, event, owedBatch } from './batches.ts';
import { START, type Subject } from './harness.ts';
import { FOR_EVER, findAll, keepUp } from './upkeep.ts';

const HOSTILE = ['constructor', '__proto__', '"}],"userId":"x', 'ü日本\u0000', ' ', 'a'.repeat(1000)];

/** ports/regulations.ts. That the bytes are gone is a matter of each adapter's own tests. */
export function regulationsConformance(subject: Subject): void {
  describe('regulations', () => {
    keepsRegulations(subject);
    letsGo(subject);
    suppresses(subject);
    countsErased(subject);
    findsAnonymous(subject);
  });
}

let made = 0;

async function create(store: Store, type: RegulationType, userIds: readonly string[], createdAt = START) {
  return await store.regulations.create({ id: `reg-${++made}`, type, createdAt, by: 'admin', userIds });
}

const found = (userId: string, more: Partial<RegulationSubject> = {}): RegulationSubject => ({
  ...{ userId, formerUserIds: [], anonymousIds: [], sources: [] },
  ...more,
});

/** The hashes of everything that is suppressed, as texts. */
async function suppressedIn({ regulations }: Store): Promise<string[]> {
  const all: string[] = [];
  await regulations.visitSuppressed((hashes) => {
    for (let at = 0; at < hashes.length; at += 2) all.push(`${hashes[at]}-${hashes[at + 1]}`);
  });
  return all.sort();
}

function hashes(
  { hashId }: Regulations,
  users: readonly string[],
  anonymous: readonly string[] = [],
): string[] {
  const words = new Uint32Array(2);
  const all = [
    ...users.map((id) => ['user', id] as const),
    ...anonymous.map((id) => ['anonymous', id] as const),
  ];
  return all
    .map(([kind, id]) => {
      hashId(kind, id, words, 0);
      return words.join('-');
    })
    .sort();
}

function keepsRegulations(subject: Subject): void {
  it('keeps a regulation and its subjects step by step, over restarts, until they are forgotten', async () => {
    const { id, number } = await create(subject.store, 'DELETE_ONLY', HOSTILE);
    const other = await create(subject.store, 'SUPPRESS_WITH_DELETE', ['b']);
    expect(other.number).toBeGreaterThan(number);
    await subject.restart();
    const kept = await subject.store.regulations.get(id);
    expect(kept).toEqual({
      ...{ id, number, type: 'DELETE_ONLY', by: 'admin', createdAt: START, subjects: HOSTILE.length },
      ...{ step: 'survey', overallStatus: 'INITIALIZED', streamStatus: [] },
      erased: { events: 0, deliveries: 0, deadLetters: 0 },
    });
    expect(await subject.store.regulations.subjects(id)).toEqual(HOSTILE.map((one) => found(one)));

    const subjects = HOSTILE.map((one) =>
      found(one, {
        formerUserIds: ['old'],
        anonymousIds: ['anon'],
        externalIds: ['ü@x.example'],
        sources: [1, 2],
      }),
    );
    await subject.store.regulations.advance(id, { step: 'erase', overallStatus: 'RUNNING', subjects });
    await subject.restart();
    expect(await subject.store.regulations.subjects(id)).toEqual(subjects);
    expect((await subject.store.regulations.open()).map((one) => one.id)).toEqual([id, other.id]);

    const stream = {
      source: 's',
      destination: 'd',
      endpoint: 'https://x',
      status: 'FINISHED',
      sent: 1,
      confirmed: 1,
    } as const;
    await subject.store.regulations.advance(id, { step: 'notify', erasedAt: START + 5 });
    await subject.restart();
    expect(await subject.store.regulations.get(id)).toMatchObject({ step: 'notify', erasedAt: START + 5 });
    await subject.store.regulations.advance(id, { step: 'finish', streamStatus: [stream] });
    await subject.store.regulations.advance(id, { step: 'clean' });
    await subject.store.regulations.scrub();
    expect(await subject.store.regulations.subjects(id)).toEqual([]);
    await subject.store.regulations.advance(id, {
      step: 'done',
      overallStatus: 'FINISHED',
      finishedAt: START + 9,
    });
    await subject.restart();
    const done = { step: 'done', overallStatus: 'FINISHED', streamStatus: [stream] };
    const times = { erasedAt: START + 5, finishedAt: START + 9 };
    expect(await subject.store.regulations.get(id)).toMatchObject({ ...done, ...times });
    expect((await subject.store.regulations.open()).map((one) => one.id)).toEqual([other.id]);
  });

  it('keeps visitors without a userId beside users', async () => {
    const { regulations } = subject.store;
    const { id, subjects } = await regulations.create({
      ...{ id: `reg-${++made}`, type: 'DELETE_ONLY', createdAt: START, by: 'admin' },
      ...{ userIds: ['u'], anonymousIds: HOSTILE },
    });
    expect(subjects).toBe(1 + HOSTILE.length);
    await subject.restart();
    expect(await subject.store.regulations.subjects(id)).toEqual([
      found('u'),
      ...HOSTILE.map((anonymousId) => ({ anonymousId, formerUserIds: [], anonymousIds: [], sources: [] })),
    ]);
  });

  it('adds who made a regulation to the audit trail in its commit, without the users', async () => {
    const names: string[] = [];
    for (const type of REGULATION_TYPES) names.unshift((await create(subject.store, type, ['u', 'v'])).id);
    const { entries } = await subject.store.settings.audit({ kind: 'regulation' }, 10);
    const shown = { at: START, by: 'admin', action: 'created', kind: 'regulation' };
    const types = [...REGULATION_TYPES].reverse();
    expect(entries).toEqual(
      names.map((name, nth) => ({ ...shown, name, after: { id: name, type: types[nth], subjects: 2 } })),
    );
  });

  it('lists them the newest first, in pages', async () => {
    const ids: string[] = [];
    for (const type of REGULATION_TYPES) ids.unshift((await create(subject.store, type, ['u'])).id);
    const first = await subject.store.regulations.list(3);
    expect(first.map(({ id }) => id)).toEqual(ids.slice(0, 3));
    const rest = await subject.store.regulations.list(3, first.at(-1)!.number);
    expect(rest.map(({ id }) => id)).toEqual(ids.slice(3));
    expect(await subject.store.regulations.get('none')).toBeUndefined();
    await expect(subject.store.regulations.advance('none', { step: 'done' })).rejects.toThrow();
  });
}

function letsGo(subject: Subject): void {
  it('lets receipts go of regulations that ended before a time, and nothing that is under way or suppressed', async () => {
    const { store } = subject;
    const old = await create(store, 'SUPPRESS_ONLY', ['old']);
    const underWay = await create(store, 'SUPPRESS_WITH_DELETE', ['under way']);
    const young = await create(store, 'SUPPRESS_ONLY', ['young']);
    const at: Record<string, number> = { [old.id]: START + DAY, [young.id]: START + 3 * DAY };
    for (const [id, finishedAt] of Object.entries(at)) {
      await store.regulations.advance(id, { step: 'clean' });
      await store.regulations.advance(id, { step: 'done', overallStatus: 'FINISHED', finishedAt });
    }
    const lots = Array.from({ length: 250 }, () => create(store, 'UNSUPPRESS', ['nobody']));
    await Promise.all(lots);
    const suppressed = await suppressedIn(store);
    expect(await store.regulations.endedBefore(START + 2 * DAY)).toBe(251);
    await keepUp(store, START, FOR_EVER);
    expect(await store.regulations.endedBefore(START + 2 * DAY)).toBe(251);
    await keepUp(store, START + 2 * HOUR, { ...FOR_EVER, regulationsBefore: START + 2 * DAY });
    await subject.crash();
    const { regulations } = subject.store;
    expect(await regulations.get(old.id)).toBeUndefined();
    expect((await regulations.list(10)).map(({ id }) => id)).toEqual([young.id, underWay.id]);
    expect((await regulations.open()).map(({ id }) => id)).toEqual([underWay.id]);
    expect(await regulations.endedBefore(START + 2 * DAY)).toBe(0);
    expect(await suppressedIn(subject.store)).toEqual(suppressed);
    expect(await regulations.suppression('old')).toMatchObject({ userId: 'old', regulation: old.id });
    expect((await create(subject.store, 'SUPPRESS_ONLY', ['new'])).number).toBeGreaterThan(young.number);
  });
}

function suppresses(subject: Subject): void {
  it('suppresses in the commit of the regulation, and keeps ids only where that is asked for', async () => {
    const only = await create(subject.store, 'SUPPRESS_ONLY', HOSTILE);
    const both = await create(subject.store, 'SUPPRESS_WITH_DELETE', ['gone'], START + 1);
    await create(subject.store, 'DELETE_ONLY', ['erased']);
    const look = async () => {
      const { regulations } = subject.store;
      expect(await suppressedIn(subject.store)).toEqual(hashes(regulations, [...HOSTILE, 'gone']));
      const one = { userId: 'constructor', since: START, regulation: only.id };
      expect(await regulations.suppression('constructor')).toEqual(one);
      expect(await regulations.suppression('gone')).toEqual({ since: START + 1, regulation: both.id });
      expect(await regulations.suppression('erased')).toBeUndefined();
      const listed: (string | undefined)[] = [];
      for (let after: string | undefined; ; ) {
        const page = await regulations.suppressions(2, after);
        if (page.length === 0) break;
        listed.push(...page.map(({ userId }) => userId));
        after = page.at(-1)!.userId;
      }
      expect(listed.sort()).toEqual([...HOSTILE].sort());
    };
    await look();
    await subject.restart();
    await look();
  });

  it('suppresses joined ids with their user, and ends that with the suppression of the user', async () => {
    const one = await create(subject.store, 'SUPPRESS_WITH_DELETE', ['u']);
    const two = await create(subject.store, 'SUPPRESS_ONLY', ['v', 'w']);
    const joined = [found('u', { formerUserIds: ['u0', 'w'], anonymousIds: ['a'] })];
    await subject.store.regulations.advance(one.id, { step: 'erase', subjects: joined });
    await subject.store.regulations.advance(two.id, {
      step: 'clean',
      subjects: [found('v', { anonymousIds: ['v'] }), found('w')],
    });
    const { regulations } = subject.store;
    expect(await suppressedIn(subject.store)).toEqual(hashes(regulations, ['u', 'u0', 'v', 'w'], ['a', 'v']));
    await create(subject.store, 'UNSUPPRESS', ['u', 'nobody']);
    await subject.restart();
    // `w` was suppressed on its own account.
    expect(await suppressedIn(subject.store)).toEqual(hashes(regulations, ['v', 'w'], ['v']));
    // The survey comes to an end after the suppression has.
    await subject.store.regulations.advance(one.id, { step: 'notify', subjects: joined });
    expect(await suppressedIn(subject.store)).toEqual(hashes(regulations, ['v', 'w'], ['v']));
  });

  it('suppresses visitors by their anonymous ids, keeps none of these, and ends it for those who belong to users', async () => {
    const regulate = (type: RegulationType, anonymousIds: readonly string[], createdAt = START) =>
      subject.store.regulations.create({
        ...{ id: `reg-${++made}`, type, createdAt, by: 'admin', userIds: ['v'], anonymousIds },
      });
    const visitor = (anonymousId: string, more: Partial<RegulationSubject> = {}): RegulationSubject => ({
      ...{ anonymousId, formerUserIds: [], anonymousIds: [], sources: [] },
      ...more,
    });
    const earlier = await regulate('SUPPRESS_WITH_DELETE', ['b']);
    const one = await regulate('SUPPRESS_ONLY', [...HOSTILE, 'a', 'b'], START + 1);
    const look = async (users: readonly string[], anonymous: readonly string[]) => {
      const { regulations } = subject.store;
      expect(await suppressedIn(subject.store)).toEqual(hashes(regulations, users, anonymous));
    };
    await look(['v'], [...HOSTILE, 'a', 'b']);
    await subject.restart();
    const { regulations } = subject.store;
    expect(await regulations.suppression('a', 'anonymous')).toEqual({ since: START + 1, regulation: one.id });
    expect(await regulations.suppression('a')).toBeUndefined();
    expect((await regulations.suppressions(9)).map(({ userId }) => userId)).toEqual(['v']);
    const subjects = [
      found('v'),
      ...HOSTILE.map((id) => visitor(id, { belongsToUser: true })),
      visitor('a', { anonymousIds: ['a', 'a2'] }),
      visitor('b', { belongsToUser: true }),
    ];
    await regulations.advance(one.id, { step: 'clean', subjects });
    await look(['v'], ['a', 'a2']);
    // What an earlier regulation finds now ends nothing of a later one.
    await regulate('SUPPRESS_ONLY', ['b'], START + 2);
    await subject.store.regulations.advance(earlier.id, {
      step: 'clean',
      subjects: [visitor('b', { belongsToUser: true })],
    });
    await look(['v'], ['a', 'a2', 'b']);
    await regulate('UNSUPPRESS', ['a', 'nobody']);
    await look([], ['b']);
  });

  it('keeps no id of a user who was deleted after all', async () => {
    await create(subject.store, 'SUPPRESS_ONLY', ['u', 'v']);
    const { id } = await create(subject.store, 'DELETE_ONLY', ['u']);
    await subject.store.regulations.advance(id, { step: 'clean' });
    expect(await subject.store.regulations.suppression('u')).not.toHaveProperty('userId');
    expect((await subject.store.regulations.suppressions(9)).map(({ userId }) => userId)).toEqual(['v']);
  });
}

function countsErased(subject: Subject): void {
  it('counts what is erased in the receipt, in the commits of the erasure', async () => {
    const { log } = subject.store;
    const { id } = await create(subject.store, 'DELETE_ONLY', ['u1']);
    await log.append(owedBatch([event('a'), event('b'), event('c', 1, { userId: 'u2' })], 'parked'));
    const seen: number[] = [];
    const counts = await log.erase({
      ...{ userIds: ['u1', 'constructor'], regulation: id },
      onErased: (positions) => seen.push(...positions),
    });
    expect(counts).toEqual({ events: 2, deliveries: 2, deadLetters: 0 });
    expect(seen).toHaveLength(2);
    await subject.restart();
    expect(await subject.store.regulations.get(id)).toMatchObject({ erased: counts });
    expect(await subject.store.log.erase({ userIds: ['u1'], regulation: id })).toMatchObject({ events: 0 });
    expect(await subject.store.regulations.get(id)).toMatchObject({ erased: counts });
  });

  it('leaves delete notifications of users alone until they are erased themselves', async () => {
    const { log } = subject.store;
    const notification = event('del_r_site_1', 1, { type: 'delete' });
    const look = event('look', 1, { properties: { a: 'x', type: 'delete' } });
    const { positions } = await log.append(owedBatch([event('a'), notification, look], 'parked'));
    expect(await log.erase({ userIds: ['u1'] })).toMatchObject({ events: 2, deliveries: 2 });
    expect(await findAll(subject.store, { messageId: 'del_r_site_1' })).toEqual([positions[1]]);
    expect(await log.eraseAt([positions[0]!, positions[1]!])).toMatchObject({ events: 1, deliveries: 1 });
    expect(await findAll(subject.store, { messageId: 'del_r_site_1' })).toEqual([]);
  });

  it('does not tell that a delete notification is gone that stays', async () => {
    const { log } = subject.store;
    const notification = event('del_r_site_1', 1, { type: 'delete' });
    const { positions } = await log.append(owedBatch([event('a'), notification], 'held'));
    const seen: number[] = [];
    await log.erase({ userIds: ['u1'], onErased: (gone) => seen.push(...gone) });
    expect(seen).toEqual([positions[0]]);
  });
}

function findsAnonymous(subject: Subject): void {
  const anonymous = (messageId: string, anonymousId: string, fields = {}) =>
    event(messageId, 1, { userId: undefined as never, anonymousId, ...fields });

  it('finds and erases the events of an anonymousId without a userId', async () => {
    const { log } = subject.store;
    for (const id of HOSTILE) {
      const of = [anonymous(`1${id}`, id), anonymous(`2${id}`, id), event(`3${id}`, 1, { anonymousId: id })];
      const { positions } = await log.append(batch(of));
      expect(await findAll(subject.store, { anonymousId: id })).toEqual([positions[1], positions[0]]);
    }
    expect(await findAll(subject.store, { userId: HOSTILE[0]! })).toEqual([]);
    await subject.restart();
    expect(await findAll(subject.store, { anonymousId: HOSTILE[2]! })).toHaveLength(2);
    const { events } = await subject.store.log.erase({ userIds: [], anonymousIds: HOSTILE });
    expect(events).toBe(2 * HOSTILE.length);
    expect(await findAll(subject.store, { anonymousId: HOSTILE[2]! })).toEqual([]);
    expect(await findAll(subject.store, { userId: 'u1' })).toHaveLength(HOSTILE.length);
  });

  it('erases the events of ids that earlier versions have stored and calls may not have, and of no others', async () => {
    const { log } = subject.store;
    const ids = ['half\ud800', 'half\ud801', 'x'.repeat(1025), 'x'.repeat(1026)];
    await log.append(
      batch(ids.flatMap((id, nth) => [event(`u${nth}`, 1, { userId: id }), anonymous(`a${nth}`, id)])),
    );
    const [half = '', , long = ''] = ids;
    const { events } = await log.erase({ userIds: [half], anonymousIds: [long] });
    expect(events).toBe(2);
    for (const [nth, id] of ids.entries()) {
      expect(await findAll(subject.store, { userId: id })).toHaveLength(nth === 0 ? 0 : 1);
      expect(await findAll(subject.store, { anonymousId: id })).toHaveLength(nth === 2 ? 0 : 1);
    }
  });

  it('finds the events of thousands of owners in one query, and erases them', async () => {
    const { log } = subject.store;
    for (let nth = 0; nth < 20; nth++) {
      const some = Array.from({ length: 50 }, (_, n) => n);
      await log.append(
        batch([
          ...some.map((n) => event(`u${nth}-${n}`, 1, { userId: `user-${nth}-${n}`, anonymousId: `a-${n}` })),
          ...some.map((n) => anonymous(`a${nth}-${n}`, `a-${n}`)),
        ]),
      );
    }
    const userIds = Array.from({ length: 2000 }, (_, n) => `user-${n % 20}-${Math.floor(n / 20) * 2}`);
    const anonymousIds = [...HOSTILE, 'a-1', 'a-3', 'user-0-1'];
    const found = await findAll(subject.store, { userIds, anonymousIds });
    // Of each batch every second user, and two anonymous ids; the newest first.
    expect(found).toHaveLength(20 * (25 + 2));
    expect(found).toEqual([...found].sort((a, b) => b - a));
    const one = await Promise.all([
      findAll(subject.store, { userId: 'user-3-4' }),
      findAll(subject.store, { anonymousId: 'a-3' }),
    ]);
    for (const position of one.flat()) expect(found).toContain(position);
    expect((await log.erase({ userIds, anonymousIds })).events).toBe(found.length);
    expect(await findAll(subject.store, { userIds, anonymousIds })).toEqual([]);
  });

  it('erases nothing at or above the position that is given', async () => {
    const { log } = subject.store;
    await log.append(batch([event('a'), anonymous('b', 'anon')]));
    const { end } = await log.size();
    await log.append(batch([event('c'), anonymous('d', 'anon')]));
    expect((await log.erase({ userIds: ['u1'], anonymousIds: ['anon'], below: end })).events).toBe(2);
    expect(await findAll(subject.store, { userId: 'u1' })).toEqual([end]);
  });

  it('tells which ids other users have used too', async () => {
    const { log } = subject.store;
    await log.append(
      batch([
        ...[
          event('a', 1, { anonymousId: 'mine' }),
          anonymous('b', 'mine'),
          event('c', 1, { anonymousId: 'ours' }),
        ],
        ...[event('d', 1, { userId: 'u2', anonymousId: 'ours' }), anonymous('e', 'constructor')],
        event('f', 1, { userId: 'u3', type: 'alias', previousId: 'former"' }),
        // Anybody can send it, so it says nothing of whose the id is.
        event('g', 2, { userId: 'u4', type: 'alias', previousId: 'mine' }),
      ]),
    );
    const ids = ['mine', 'ours', 'former"', 'constructor', 'nobody'];
    const sharedWith = async (owners: readonly string[]) => {
      const all: string[] = [];
      for (let from: number | undefined = 0; from !== undefined; ) {
        const { shared, next } = await log.sharedIds({ ids, owners, trusted: [1] }, from);
        all.push(...shared);
        from = next;
      }
      return all.sort();
    };
    expect(await sharedWith(['u1'])).toEqual(['former"', 'ours']);
    expect(await sharedWith(['u1', 'u2'])).toEqual(['former"']);
    expect(await sharedWith(['u1', 'u2', 'u3'])).toEqual([]);
  });
}
