import { createHash, randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { DESTINATION_TYPES } from '../../src/destinations/list.ts';
import type { RegulationType } from '../../src/model/regulation.ts';
import { HOUR, SECOND } from '../../src/model/time.ts';
import type { DeliveryQueue, DeliveryResult } from '../../src/ports/delivery-queue.ts';
import { StorageError } from '../../src/ports/event-log.ts';
import type { Store } from '../../src/ports/store.ts';
import type { JoinedIds, Visitor } from '../../src/ports/users.ts';
import { RegulationService } from '../../src/regulations/service.ts';
import { SuppressionFilter } from '../../src/regulations/suppression-filter.ts';
import { Router } from '../../src/routing/router.ts';
import { batch, event } from '../conformance/batches.ts';
import { expectBalanced, START } from '../conformance/harness.ts';
import { emptyContents, openMemoryStore } from '../memory-store/store.ts';
import { handClock } from '../support/clock.ts';
import { targetsIn } from '../support/lanes.ts';
import { amountOf } from '../support/runs.ts';

const ENDPOINT = 'https://crm.example/in';
const SITE = {
  name: 'website',
  writeKeys: ['wk'],
  enabled: true,
  mode: 'standard',
  whenDisabled: 'refuse',
} as const;
const DESTINATION = {
  ...{ name: 'crm', sources: ['website', 'app'], enabled: true },
  type: 'webhooks',
  settings: { endpoints: [{ url: ENDPOINT, headers: {} }], format: 'documented' },
} as const;

/**
 * The part that crashes: every call of the store from a certain one on fails, as in a process that is dead.
 */
class Lives {
  readonly contents = emptyContents();
  readonly clock = handClock(START);
  store!: Store;
  service!: RegulationService;
  filter!: SuppressionFilter;
  /** Called while the profiles of deleted users are erased. */
  whileErasing: () => Promise<void> = async () => {};
  /** How many profiles an erasure finds; as many as ids when absent. */
  erasedProfiles: number | undefined;
  /** Joined ids, by the profiles. */
  joined: Readonly<Record<string, JoinedIds>> = {};
  /** Visitors, by the profiles. */
  visitors: Readonly<Record<string, Visitor>> = {};
  /** Calls that the store carries out, and answers with an error. */
  losesAnswer: (name: string, args: readonly unknown[]) => boolean = () => false;
  /** Lanes that were told of deliveries on disk. */
  readonly parked: number[] = [];
  /** Calls of the store that are left before the process dies. */
  left = Number.POSITIVE_INFINITY;

  static async begin(): Promise<Lives> {
    const lives = new Lives();
    const store = openMemoryStore({ contents: lives.contents });
    const browser = { ...SITE, name: 'browser', trust: 'client' } as const;
    await store.settings.apply({
      sources: [SITE, { ...SITE, name: 'app' }, browser],
      destinations: [DESTINATION],
    });
    await lives.open();
    return lives;
  }

  /** A new process on what the last one has stored. */
  async open(): Promise<void> {
    const real = openMemoryStore({ contents: this.contents });
    const store = { ...real, log: this.#mortal(real.log), regulations: this.#mortal(real.regulations) };
    this.store = real;
    const settings = await real.settings.load();
    const router = new Router(settings.destinations, DESTINATION_TYPES);
    this.filter = new SuppressionFilter(real.regulations.hashId);
    await this.filter.load(real.regulations);
    this.service = new RegulationService({
      ...{ regulations: store.regulations, log: store.log, history: real.history },
      settings: () => settings,
      targetsOf: targetsIn,
      users: {
        joinedIds: async (ids) => ids.map((userId) => this.joined[userId] ?? { userId, ...NOTHING }),
        usersOf: async (ids) => ids.map(() => undefined),
        visitors: async (ids) => ids.map((id) => this.visitors[id]),
        erase: async (ids) => {
          await this.whileErasing();
          return this.erasedProfiles ?? ids.length;
        },
      },
      identities: { blocked: ['null'], alias: 'join' },
      plan: (one, source) => router.plan(one, source),
      callsStored: async () => {},
      delivery: {
        drop: () => {},
        requestsEnded: async () => {},
        redact: async () => {},
        parked: (lane) => this.parked.push(lane),
      },
      forgetSamples: () => {},
      filter: this.filter,
      newId: () => `reg-${randomUUID()}`,
      clock: this.clock,
      logger: { debug: () => {}, info: () => {}, error: () => {} },
    });
    this.service.start();
  }

  #mortal<Port extends object>(port: Port): Port {
    return new Proxy(port, {
      get: (target, name) => {
        const part = Reflect.get(target, name);
        if (typeof part !== 'function' || name === 'hashId') return part;
        return async (...args: unknown[]) => {
          if (this.left-- <= 0) throw new StorageError('the process is dead');
          const answer = await part.apply(target, args);
          if (this.losesAnswer(String(name), args)) throw new StorageError('the answer is lost');
          return answer;
        };
      },
    });
  }

  async write(...events: ReturnType<typeof event>[]): Promise<void> {
    await this.store.log.append(batch(events));
  }

  async regulate(type: RegulationType, ...userIds: string[]): Promise<string> {
    return (await this.service.create({ type, userIds, anonymousIds: [], by: 'admin' })).id;
  }

  async regulateVisitors(type: RegulationType, ...anonymousIds: string[]): Promise<string> {
    return (await this.service.create({ type, userIds: [], anonymousIds, by: 'admin' })).id;
  }

  /** Ends every delivery that is due, as the worker would. */
  async deliver(
    decide: (position: number) => DeliveryResult['decision'] = () => ({ kind: 'delivered' }),
  ): Promise<void> {
    const { deliveries } = await this.store.queue.claim(1, 1000, this.clock.monotonic());
    const results = deliveries.map(({ set, delivery: { position } }): DeliveryResult => {
      const decision = decide(position);
      const outcome =
        decision.kind === 'delivered'
          ? ({ kind: 'accepted', reason: 'status_200', status: 200 } as const)
          : ({ kind: 'retryable', reason: 'status_500', status: 500 } as const);
      const attempt = { endpoint: ENDPOINT, startedAt: this.clock.monotonic(), latencyMs: 5, outcome };
      const answer = decision.kind === 'delivered' ? {} : { answer: 'I have ERASE-ME here' };
      return { set, destination: 1, position, attempts: [{ ...attempt, ...answer }], decision };
    });
    await (this.store.queue as DeliveryQueue).settle(results);
  }

  async stepOf(id: string): Promise<string | undefined> {
    return (await this.store.regulations.get(id))?.step;
  }

  /** Delivers until a regulation is done. */
  async finish(id: string, decide?: (position: number) => DeliveryResult['decision']): Promise<void> {
    for (let n = 0; n < 200; n++) {
      await this.clock.pass(SECOND);
      if ((await this.stepOf(id)) === 'done') return;
      await this.deliver(decide);
    }
    throw new Error(`it is still at ${await this.stepOf(id)}`);
  }
}

const NOTHING = { formerUserIds: [], anonymousIds: [], sources: [] };
const of = (userId: string, messageId: string, fields = {}) => event(messageId, 1, { userId, ...fields });

/** Everything that was owed as a delete notification, by the ledger: pending or not, each is owed once. */
async function owed({ store }: Lives): Promise<number> {
  return (await store.queue.ledger()).destinations.get(1)?.owed ?? 0;
}

describe('a regulation', () => {
  it('comes to the same end when the process dies at any call of the store', async () => {
    let died = 0;
    for (let at = 1; ; at++) {
      const lives = await Lives.begin();
      await lives.write(of('erase-me', 'a', { anonymousId: 'anon' }), of('other', 'b'));
      await lives.write(event('c', 2, { userId: 'erase-me' }));
      const id = await lives.regulate('SUPPRESS_WITH_DELETE', 'erase-me');
      lives.left = at;
      for (let n = 0; n < 40 && (await lives.stepOf(id)) !== 'done'; n++) {
        await lives.clock.pass(2 * SECOND);
        await lives.deliver();
      }
      const isDone = (await lives.stepOf(id)) === 'done';
      if (!isDone) {
        died++;
        await lives.service.stop();
        lives.left = Number.POSITIVE_INFINITY;
        await lives.open();
        await lives.store.queue.recoverOrphans();
        await lives.finish(id);
      }
      const receipt = await lives.store.regulations.get(id);
      expect(receipt).toMatchObject({ overallStatus: 'FINISHED', erased: { events: 2 } });
      expect(receipt?.erasedAt).toBeLessThanOrEqual(receipt!.finishedAt!);
      expect(receipt?.streamStatus.map(({ source, confirmed }) => `${source} ${confirmed}`).sort()).toEqual([
        'app 1',
        'website 1',
      ]);
      expect([at, await owed(lives)]).toEqual([at, 2]);
      expect(lives.filter.names({ userId: 'erase-me' })).toBe(true);
      expect(lives.filter.names({ anonymousId: 'anon' })).toBe(true);
      expect([...lives.contents.events.values()].map(({ messageId }) => messageId)).toEqual(['b']);
      expect(await lives.store.regulations.subjects(id)).toEqual([]);
      await expectBalanced(lives.store);
      await lives.service.stop();
      if (isDone) break;
    }
    expect(died).toBeGreaterThan(15);
  });

  it.each([true, false])('rests after a long step while calls arrive, and only then: %s', async (isBusy) => {
    const lives = await Lives.begin();
    await lives.write(of('erase-me', 'a'));
    lives.whileErasing = async () => {
      await new Promise<void>((resolve) => void lives.clock.after(100, resolve));
      if (isBusy) await lives.write(of('other', 'b'));
    };
    const id = await lives.regulate('DELETE_ONLY', 'erase-me');
    await lives.clock.pass(100);
    // Notified and waiting for its deliveries, unless it rests three times as long as the step took.
    expect(await lives.stepOf(id)).toBe(isBusy ? 'notify' : 'await');
    await lives.clock.pass(299);
    expect(await lives.stepOf(id)).toBe(isBusy ? 'notify' : 'await');
    await lives.clock.pass(1);
    expect(await lives.stepOf(id)).toBe('await');
    await lives.finish(id);
    await lives.service.stop();
  });

  it('is found by the request that is sent again, also by the next process, for a day', async () => {
    const lives = await Lives.begin();
    const repeat = { key: '["token","/api/v1/regulations","k1"]', body: '{"subjectIds":["u1"]}' };
    const request = { type: 'SUPPRESS_ONLY', userIds: ['u1'], anonymousIds: [], by: 'admin' } as const;
    expect(await lives.service.repeated(repeat)).toBeUndefined();
    const { id } = await lives.service.create({ ...request, repeat });
    await lives.finish(id);
    // More than a page of others came since then.
    for (let n = 0; n < 600; n++) await lives.regulate('UNSUPPRESS', `other-${n}`);
    await lives.service.stop();
    await lives.open();
    expect(await lives.service.repeated(repeat)).toMatchObject({ id, overallStatus: 'FINISHED' });
    expect(await lives.service.repeated({ ...repeat, body: '{}' })).toBe('other_body');
    expect(await lives.service.repeated({ ...repeat, key: 'k2' })).toBeUndefined();
    // Whoever reads the store cannot find out by trying whom the request named.
    const stored = JSON.stringify(await lives.store.regulations.get(id));
    for (const text of ['k1', 'u1', createHash('sha256').update(repeat.body).digest('hex').slice(0, 16)])
      expect(stored).not.toContain(text);
    await lives.clock.pass(24 * HOUR);
    expect(await lives.service.repeated(repeat)).toBeUndefined();
    await lives.service.stop();
  });

  it('is no longer counted as open as soon as it has ended, while others of the queue are worked on', async () => {
    const lives = await Lives.begin();
    const open: number[] = [];
    lives.whileErasing = async () => void open.push(lives.service.health().open);
    await lives.service.stop();
    for (const user of ['u1', 'u2', 'u3']) await lives.regulate('DELETE_ONLY', user);
    lives.service.start();
    await lives.clock.pass(SECOND);
    expect(open).toEqual([3, 2, 1]);
    expect(lives.service.health().open).toBe(0);
    await lives.service.stop();
  });

  it('says when the bytes of the user were gone, while an endpoint has not yet confirmed', async () => {
    const lives = await Lives.begin();
    await lives.write(of('erase-me', 'a'));
    const id = await lives.regulate('DELETE_ONLY', 'erase-me');
    const suppression = await lives.regulate('SUPPRESS_ONLY', 'other');
    await lives.clock.pass(5 * SECOND);
    const waiting = await lives.store.regulations.get(id);
    expect(waiting).toMatchObject({ step: 'await', overallStatus: 'RUNNING', erasedAt: expect.any(Number) });
    await lives.finish(id);
    const { createdAt, erasedAt, finishedAt } = (await lives.store.regulations.get(id))!;
    expect(erasedAt).toBe(waiting?.erasedAt);
    expect(erasedAt).toBeGreaterThanOrEqual(createdAt);
    expect(erasedAt).toBeLessThan(finishedAt!);
    expect(await lives.store.regulations.get(suppression)).not.toHaveProperty('erasedAt');
    await lives.service.stop();
  });

  it('erases a change of an audience that was on its way into the log', async () => {
    const lives = await Lives.begin();
    await lives.write(of('erase-me', 'a'));
    lives.whileErasing = () => lives.write(of('erase-me', 'aud_1_v1_1.1.1', { type: 'identify' }));
    const id = await lives.regulate('DELETE_ONLY', 'erase-me');
    await lives.finish(id);
    expect(lives.contents.events.size).toBe(0);
    expect(await lives.store.regulations.get(id)).toMatchObject({ erased: { events: 2 } });
    await expectBalanced(lives.store);
    await lives.service.stop();
  });

  it('means all ids of a user, whichever of them it names, and counts profiles once although a crash comes between', async () => {
    const lives = await Lives.begin();
    const profile = { userId: 'new', formerUserIds: ['old'], anonymousIds: ['anon'], sources: [1] };
    lives.joined = { new: profile, old: profile };
    await lives.write(of('new', 'a'), event('b', 2, { userId: 'old' }), of('other', 'c'));
    const crashes: (() => Promise<void>)[] = [
      () => Promise.reject(new StorageError('the process dies when the profile is gone')),
    ];
    lives.whileErasing = async () => {
      await crashes.pop()?.();
      lives.erasedProfiles = 0;
    };
    const id = await lives.regulate('SUPPRESS_WITH_DELETE', 'old');
    await lives.finish(id);
    expect([...lives.contents.events.values()].map(({ messageId }) => messageId)).toEqual(['c']);
    for (const userId of ['new', 'old']) expect(lives.filter.names({ userId })).toBe(true);
    expect(await owed(lives)).toBe(4);
    expect(await lives.store.regulations.get(id)).toMatchObject({ profiles: 1, erased: { events: 2 } });
    await expectBalanced(lives.store);
    await lives.service.stop();
  });

  it('erases visitors without a userId and their other ids, and tells nobody', async () => {
    const lives = await Lives.begin();
    const anonymous = (messageId: string, anonymousId: string, more: object = {}) =>
      event(messageId, 1, { userId: undefined as never, anonymousId, ...more });
    await lives.write(
      anonymous('m1', 'visitor'),
      anonymous('m2', 'second'),
      anonymous('m3', 'other'),
      anonymous('m4', 'device'),
      event('m5', 1, { userId: 'ann', anonymousId: 'device' }),
      anonymous('m6', 'known'),
    );
    lives.visitors = {
      visitor: { profile: 7, anonymousIds: ['visitor', 'second'], sources: [1] },
      known: { profile: 8, userId: 'bob', anonymousIds: ['known'], sources: [1] },
    };
    lives.erasedProfiles = 1;
    const ids = ['visitor', 'device', 'known', 'nobody'];
    const request = { type: 'SUPPRESS_WITH_DELETE', userIds: [], anonymousIds: ids } as const;
    expect(await lives.service.foresee(request)).toMatchObject({
      unknown: ['nobody'],
      belongToUsers: ['device', 'known'],
      ...{ events: 2, profiles: 1, destinations: [] },
    });
    const id = await lives.regulateVisitors('SUPPRESS_WITH_DELETE', ...ids);
    await lives.finish(id);
    const receipt = await lives.store.regulations.get(id);
    expect(receipt).toMatchObject({
      ...{ overallStatus: 'FINISHED', subjects: 4, unknown: 1, belongToUsers: 2, profiles: 1 },
      ...{ streamStatus: [], erased: { events: 2 } },
    });
    const left = [...lives.contents.events.values()].map(({ messageId }) => messageId);
    expect(left).toEqual(['m3', 'm4', 'm5', 'm6']);
    const suppressed = (anonymousId: string) => lives.filter.names({ anonymousId });
    expect(['visitor', 'second', 'nobody', 'device', 'known', 'other'].map(suppressed)).toEqual([
      ...[true, true, true],
      ...[false, false, false],
    ]);
    expect(JSON.stringify(receipt)).not.toMatch(/visitor|second|device/);
  });

  it('leaves an anonymous id that another user has used too, although the profile has had it first', async () => {
    const lives = await Lives.begin();
    await lives.write(
      of('erase-me', 'a', { anonymousId: 'tablet' }),
      of('other', 'b', { anonymousId: 'tablet' }),
      event('c', 1, { userId: undefined as never, anonymousId: 'tablet' }),
      event('d', 1, { userId: undefined as never, anonymousId: 'own' }),
    );
    const profile = { userId: 'erase-me', formerUserIds: [], anonymousIds: ['own', 'tablet'], sources: [1] };
    lives.joined = { 'erase-me': profile };
    const id = await lives.regulate('SUPPRESS_WITH_DELETE', 'erase-me');
    await lives.finish(id);
    const left = [...lives.contents.events.values()].map(({ json }) => JSON.parse(json).messageId);
    expect(left).toEqual(['b', 'c']);
    expect(['own', 'tablet'].map((anonymousId) => lives.filter.names({ anonymousId }))).toEqual([
      true,
      false,
    ]);
    await lives.service.stop();
  });

  it('leaves a user whom an alias named but whose profile was too large to be merged', async () => {
    const lives = await Lives.begin();
    await lives.write(of('large', 'a'), of('erase-me', 'b', { type: 'alias', previousId: 'large' }));
    const large = { userId: 'large', formerUserIds: [], anonymousIds: [], sources: [1] };
    lives.joined = { large, 'erase-me': { ...large, userId: 'erase-me' } };
    await lives.finish(await lives.regulate('DELETE_ONLY', 'erase-me'));
    expect([...lives.contents.events.values()].map(({ messageId }) => messageId)).toEqual(['a']);
    await lives.service.stop();
  });

  describe('without profiles, by what stored events say', () => {
    const [SERVER, CLIENT] = [1, 3];
    const alias = (previousId: string, source: number) =>
      event(`alias of ${previousId}`, source, { type: 'alias', userId: 'erase-me', previousId });
    const visit = (anonymousId: string, source: number) =>
      event(`visit of ${anonymousId}`, source, { userId: undefined as never, anonymousId });
    const left = async (...events: Parameters<Lives['write']>) => {
      const lives = await Lives.begin();
      await lives.write(...events);
      await lives.finish(await lives.regulate('DELETE_ONLY', 'erase-me'));
      await lives.service.stop();
      return [...lives.contents.events.values()].map(({ messageId }) => messageId);
    };

    it('takes a former user with it, whom an alias of a server source has named after its events', async () => {
      expect(await left(of('former', 'a'), alias('former', SERVER))).toEqual([]);
      expect(await left(alias('later', SERVER), of('later', 'a'))).toEqual(['a']);
    });

    it('takes nobody with it whom an alias of a client source has named', async () => {
      const others = [of('victim', 'a'), visit('visitor', SERVER)];
      const aliases = [alias('victim', CLIENT), alias('visitor', CLIENT)];
      expect(await left(...others, ...aliases)).toEqual(['a', 'visit of visitor']);
    });

    it('takes an anonymous id with it that the client source of its alias has used', async () => {
      expect(await left(visit('own', CLIENT), alias('own', CLIENT))).toEqual([]);
      expect(await left(visit('own', SERVER), alias('own', SERVER))).toEqual([]);
    });
  });

  it('is in force and carried out when it is stored, although its answer was an error', async () => {
    const lives = await Lives.begin();
    await lives.write(of('erase-me', 'a'));
    lives.losesAnswer = (name) => name === 'create';
    await expect(lives.regulate('SUPPRESS_WITH_DELETE', 'erase-me')).rejects.toThrow('the answer is lost');
    expect(lives.filter.names({ userId: 'erase-me' })).toBe(true);
    const [made] = await lives.store.regulations.open();
    await lives.finish(made!.id);
    expect(lives.contents.events.size).toBe(0);
    await lives.service.stop();
  });

  it('tells the lanes of its notifications although the answer to the step behind them is an error', async () => {
    const lives = await Lives.begin();
    await lives.write(of('erase-me', 'a'));
    lives.losesAnswer = (name, [, change]) =>
      name === 'advance' && (change as { step?: string }).step === 'await';
    const id = await lives.regulate('DELETE_ONLY', 'erase-me');
    await lives.clock.pass(SECOND);
    // The step is stored: nobody comes back to tell them.
    expect(await lives.stepOf(id)).toBe('await');
    expect(lives.parked).toEqual([1]);
    await lives.service.stop();
  });

  it('does not erase the notifications of another one for the same user', async () => {
    const lives = await Lives.begin();
    await lives.write(of('erase-me', 'a'));
    const first = await lives.regulate('DELETE_ONLY', 'erase-me');
    const second = await lives.regulate('DELETE_ONLY', 'erase-me', 'other');
    await lives.clock.pass(5 * SECOND);
    // It has nothing to notify. The notification of the first one still holds the id.
    expect(await lives.stepOf(second)).toBe('finish');
    expect(await lives.stepOf(first)).toBe('await');
    await lives.finish(first);
    await lives.finish(second);
    expect(await lives.store.regulations.get(first)).toMatchObject({
      overallStatus: 'FINISHED',
      erased: { events: 1 },
    });
    expect(await lives.store.regulations.get(second)).toMatchObject({
      streamStatus: [],
      erased: { events: 0 },
    });
    expect(lives.contents.events.size).toBe(0);
    await lives.service.stop();
  });

  it.each(['notify', 'await', 'finish'] as const)(
    'that loses its user ids to damage in the step "%s" fails, and leaves no notification that holds them',
    async (step) => {
      const lives = await Lives.begin();
      const ids = ['erase-me', 'erase-too', 'erase-three'];
      for (const [n, userId] of ids.entries())
        await lives.write(of(userId, `m${n}`), event(`n${n}`, 2, { userId }));
      const id = await lives.regulate('DELETE_ONLY', ...ids);
      await lives.clock.pass(5 * SECOND);
      expect(await lives.stepOf(id)).toBe('await');
      await lives.service.stop();
      lives.contents.regulationSubjects.delete(id);
      await lives.store.regulations.advance(id, { step });
      if (step === 'finish') await lives.store.log.eraseAt([6]);
      await lives.open();
      await lives.clock.pass(5 * SECOND);
      if (step !== 'finish') expect(await lives.store.regulations.get(id)).toMatchObject({ step: 'await' });
      await lives.finish(id);
      expect(await lives.store.regulations.get(id)).toMatchObject({
        overallStatus: 'FAILED',
        reason: expect.stringContaining('ask for it anew'),
      });
      expect(lives.contents.events.size).toBe(0);
      await expectBalanced(lives.store);
      await lives.service.stop();
    },
  );

  it('suppresses nothing more when the suppression ends while the user is being deleted', async () => {
    const lives = await Lives.begin();
    await lives.write(of('erase-me', 'a', { anonymousId: 'anon' }));
    const id = await lives.regulate('SUPPRESS_WITH_DELETE', 'erase-me');
    expect(lives.filter.names({ userId: 'erase-me' })).toBe(true);
    await lives.regulate('UNSUPPRESS', 'erase-me');
    expect(lives.filter.isEmpty).toBe(true);
    await lives.finish(id);
    expect(lives.filter.isEmpty).toBe(true);
    expect(await lives.store.regulations.suppression('erase-me')).toBeUndefined();
    await lives.service.stop();
  });

  it('ends with what the endpoint said when it did not confirm within the retry window', async () => {
    const lives = await Lives.begin();
    await lives.write(of('erase-me', 'a'));
    const id = await lives.regulate('DELETE_ONLY', 'erase-me');
    await lives.clock.pass(5 * SECOND);
    await lives.deliver((position) => ({
      kind: 'retry',
      at: START + 4 * HOUR,
      next: { position, rounds: 1 },
    }));
    await lives.clock.pass(30 * SECOND);
    expect(await lives.store.regulations.get(id)).toMatchObject({
      overallStatus: 'RUNNING',
      streamStatus: [{ status: 'RUNNING', answer: { status: 500, body: 'I have … here' } }],
    });
    await lives.clock.pass(4 * HOUR);
    await lives.finish(id, () => ({ kind: 'dead', reason: 'retry_window_over' }));
    expect(await lives.store.regulations.get(id)).toMatchObject({
      overallStatus: 'PARTIAL_SUCCESS',
      streamStatus: [
        { status: 'FAILED', sent: 1, confirmed: 0, answer: { status: 500, body: 'I have … here' } },
      ],
    });
    expect((await lives.store.queue.ledger()).destinations.get(1)).toMatchObject({ dead: {}, erased: 1 });
    await lives.service.stop();
  });

  it('takes thousands of users with hostile ids of 100 characters', async () => {
    const users = amountOf({ gate: 1000, long: 5000 });
    const lives = await Lives.begin();
    const ids = Array.from({ length: users }, (_, n) =>
      `${n}"}],ü\u0000__proto__constructor`.padEnd(100, '\\'),
    );
    for (let from = 0; from < users; from += 500)
      await lives.write(...ids.slice(from, from + 500).map((userId) => of(userId, userId)));
    const id = await lives.regulate('DELETE_ONLY', ...ids);
    for (let n = 0; n < 400 && (await lives.stepOf(id)) !== 'done'; n++) {
      await lives.clock.pass(10 * SECOND);
      await lives.deliver();
    }
    expect(await lives.store.regulations.get(id)).toMatchObject({
      overallStatus: 'FINISHED',
      erased: { events: users },
      streamStatus: [{ sent: users, confirmed: users }],
    });
    expect(lives.contents.events.size).toBe(0);
    await lives.service.stop();
  });
});
