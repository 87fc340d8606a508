import { afterEach, describe, expect, it } from 'vitest';
import { quoted } from '../../../clients/e2e/sentences/quoted.ts';
import { send, track } from '../support/calls.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';
import { storedIn } from '../support/test-database.ts';
import { until } from '../support/until.ts';

const ended: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ended.splice(0).reverse()) await end();
});

interface Receipt {
  readonly id: string;
  readonly overallStatus: string;
  readonly createdAt: string;
  readonly erasedAt?: string;
  readonly finishedAt?: string;
  readonly erased: object;
  readonly streamStatus: readonly object[];
}

let scenes = 0;

/**
 * Sources `website` and `app` of one test, and receivers of the first, or of both. Each test has users of its
 * own.
 */
class Scene {
  readonly #server: SharedServer;
  readonly #nth = ++scenes;

  private constructor(server: SharedServer) {
    this.#server = server;
  }

  static async open(server: SharedServer, receivers: readonly TestReceiver[]): Promise<Scene> {
    const scene = new Scene(server);
    const { website, app } = scene;
    for (const name of [website, app])
      await server.add('sources', { name, writeKeys: [name], trust: 'server' });
    for (const [nth, { url }] of receivers.entries()) {
      const name = scene.destination(nth);
      await server.add('destinations', {
        ...{ name, type: 'webhooks', sources: nth === 0 ? [website] : [website, app] },
        settings: { endpoints: [{ url }], filter: { types: ['track', 'alias', 'identify'] } },
      });
      // Whatever it is still owed would go on being sent.
      ended.push(() => server.api.ask('DELETE', `destinations/${name}?confirm=true`));
    }
    return scene;
  }

  get website(): string {
    return `website${this.#nth}`;
  }

  get app(): string {
    return `app${this.#nth}`;
  }

  /** The name of that of the nth receiver. */
  destination(nth: number): string {
    return `d${this.#nth}-${nth}`;
  }

  async restart(): Promise<void> {
    await this.#server.program.stop();
    await this.#server.start();
  }

  async call(type: string, body: object, source = this.website): Promise<void> {
    const { status } = await send(this.#server.url, `/v1/${type}`, body, { writeKey: source });
    expect(status).toBe(200);
  }

  api<Answer>(
    method: string,
    path: string,
    body?: object,
    headers?: Readonly<Record<string, string>>,
  ): Promise<{ status: number; answer: Answer }> {
    return this.#server.api.ask<Answer>(method, path, body, headers);
  }

  async regulate(type: string, ...subjectIds: string[]): Promise<string> {
    const { status, answer } = await this.api<Receipt>('POST', 'regulations', { type, subjectIds });
    expect(status).toBe(201);
    return answer.id;
  }

  async receipt(id: string): Promise<Receipt> {
    return until(`the regulation ${id} has ended`, async () => {
      const { answer } = await this.api<Receipt & { finishedAt?: string }>('GET', `regulations/${id}`);
      return answer.finishedAt !== undefined && answer;
    });
  }

  async ledger() {
    const { answer } = await this.api<{
      balanced: boolean;
      sources: Record<string, { received: number; accepted: number; discarded: Record<string, number> }>;
      destinations: Record<string, Record<string, unknown>>;
    }>('GET', 'ledger');
    return answer;
  }

  filesWith(text: string): Promise<readonly string[]> {
    return storedIn(this.#server.place.data, text);
  }
}

async function receiver(options: Parameters<typeof startReceiver>[0] = {}): Promise<TestReceiver> {
  const started = await startReceiver(options);
  ended.push(() => started.stop());
  return started;
}

const deletionsIn = ({ arrivals }: TestReceiver) =>
  arrivals.map(({ body }) => body.toString()).filter((body) => body.includes('"type":"delete"'));

const server = sharedServer(() => 'egress: { allow: [127.0.0.0/8] }');

describe('deleting a user', () => {
  it('erases everything of the user, tells each affected source, and leaves a receipt without the id', async () => {
    const [one, two] = [await receiver(), await receiver()];
    const scene = await Scene.open(server, [one, two]);
    await scene.call('track', track('m1', { userId: 'erase-me', anonymousId: 'anon-of-mine' }));
    await scene.call('track', track('m2', { userId: undefined, anonymousId: 'anon-of-mine' }));
    await scene.call('track', track('m3', { userId: 'erase-me' }), scene.app);
    await scene.call('track', track('m4', { userId: 'other', anonymousId: 'shared-one' }));
    await scene.call('track', track('m5', { userId: 'erase-me', anonymousId: 'shared-one' }));
    await scene.call('track', track('m6', { userId: undefined, anonymousId: 'shared-one' }));
    await two.count(6);
    const receipt = await scene.receipt(await scene.regulate('DELETE_ONLY', 'erase-me'));
    expect(receipt).toMatchObject({
      overallStatus: 'FINISHED',
      erased: { events: 4, deliveries: 0, deadLetters: 0 },
    });
    const times = [receipt.createdAt, receipt.erasedAt, receipt.finishedAt];
    expect(times).toEqual([expect.any(String), expect.any(String), expect.any(String)]);
    expect(times).toEqual([...times].sort());
    const stream = { status: 'FINISHED', sent: 1, confirmed: 1, answer: { status: 200 } };
    expect(receipt.streamStatus).toHaveLength(3);
    for (const [source, destination] of [
      [scene.website, scene.destination(0)],
      [scene.website, scene.destination(1)],
      [scene.app, scene.destination(1)],
    ])
      expect(receipt.streamStatus).toContainEqual(
        expect.objectContaining({ source, destination, ...stream }),
      );
    expect(JSON.stringify(receipt)).not.toContain('erase-me');
    const body = /^\{"type":"delete","userId":"erase-me","timestamp":"[^"]+"\}$/;
    expect(deletionsIn(one)).toEqual([expect.stringMatching(body)]);
    expect(deletionsIn(two)).toEqual([expect.stringMatching(body), expect.stringMatching(body)]);
    for (const text of ['erase-me', 'anon-of-mine'])
      expect([text, ...(await scene.filesWith(text))]).toEqual([text]);
    expect(await scene.filesWith('shared-one')).not.toEqual([]);
    expect((await scene.ledger()).balanced).toBe(true);
    // The user may come back.
    await scene.call('track', track('m7', { userId: 'erase-me' }));
    expect((await scene.ledger()).sources[scene.website]).toMatchObject({ discarded: {} });
  });

  it('erases what waits for an endpoint, and does not send it any more', async () => {
    let isUp = false;
    const slow = await receiver({
      answer: (response, { body }) => response.writeHead(isUp ? 200 : 500).end(`I got ${body}`),
    });
    const scene = await Scene.open(server, [slow]);
    const batch = Array.from({ length: 300 }, (_, n) =>
      track(`m${n}`, { userId: n % 3 === 0 ? 'erase-waiting' : `u${n}` }),
    );
    await scene.call('batch', { batch });
    await slow.count(1);
    const id = await scene.regulate('DELETE_ONLY', 'erase-waiting');
    await until('the notifications have been planned', async () => {
      const { answer } = await scene.api<Receipt>('GET', `regulations/${id}`);
      return answer.streamStatus.length > 0;
    });
    const before = slow.arrivals.length;
    isUp = true;
    await scene.api('POST', `destinations/${scene.destination(0)}/pause`);
    await scene.api('POST', `destinations/${scene.destination(0)}/resume`);
    const receipt = await scene.receipt(id);
    expect(receipt).toMatchObject({ overallStatus: 'FINISHED', erased: { events: 100 } });
    await slow.until(() => slow.arrivals.length >= before + 201);
    const sent = slow.arrivals.slice(before).map(({ body }) => body.toString());
    expect(sent.filter((body) => body.includes('erase-waiting'))).toEqual(deletionsIn(slow).slice(-1));
    const { destinations, balanced } = await scene.ledger();
    expect(balanced).toBe(true);
    expect(destinations[scene.destination(0)]).toMatchObject({ erased: 100 });
    expect(await scene.filesWith('erase-waiting')).toEqual([]);
  });

  it('says which endpoint did not confirm, without the id that it echoes', async () => {
    const refusing = await receiver({
      answer: (response, { body }) => response.writeHead(410).end(`no: ${body}`),
    });
    const scene = await Scene.open(server, [refusing]);
    await scene.call('track', track('m1', { userId: 'erase-refused' }));
    await refusing.count(1);
    // The result is written a moment after the answer.
    await until('its delivery is dead', async () => {
      const { destinations } = await scene.ledger();
      expect(destinations[scene.destination(0)]).toMatchObject({ dead: { status_410: 1 } });
    });
    const receipt = await scene.receipt(await scene.regulate('DELETE_ONLY', 'erase-refused'));
    expect(receipt).toMatchObject({
      overallStatus: 'PARTIAL_SUCCESS',
      erased: { events: 1, deliveries: 0, deadLetters: 1 },
      streamStatus: [
        {
          ...{ source: scene.website, destination: scene.destination(0) },
          ...{ status: 'FAILED', sent: 1, confirmed: 0 },
          answer: { status: 410, reason: 'status_410', body: expect.stringContaining('"userId":"…"') },
        },
      ],
    });
    expect(await scene.filesWith('erase-refused')).toEqual([]);
    const { destinations, balanced } = await scene.ledger();
    expect(destinations[scene.destination(0)]).toMatchObject({ owed: 2, dead: {}, erased: 2 });
    expect(balanced).toBe(true);
  });
});

describe('an answer of an endpoint that mentions a user who is deleted later', () => {
  it('loses the id, whether it answered an event of another user or a notification that another receipt shows', async () => {
    let text = 'later in one batch: User%2DTO-ERASE and \\u0075ser-to-erase';
    const echoing = await receiver({
      answer: (response, { body }) => response.writeHead(body.includes('waits') ? 500 : 410).end(text),
    });
    const scene = await Scene.open(server, [echoing]);
    await scene.call('track', track('echoed', { userId: 'other' }));
    await scene.call('track', track('m2', { userId: 'other', properties: { waits: true } }));
    await scene.call('track', track('m3', { userId: 'another' }));
    await scene.call('track', track('m4', { userId: 'user-to-erase' }));
    await echoing.count(4);
    const first = await scene.regulate('DELETE_ONLY', 'another');
    const kept = (await scene.receipt(first)).streamStatus;
    expect(JSON.stringify(kept)).toContain('User%2DTO-ERASE');
    text = 'no';
    const receipt = await scene.receipt(await scene.regulate('DELETE_ONLY', 'user-to-erase'));
    expect(receipt).toMatchObject({ erased: { events: 1 } });
    expect((await scene.receipt(first)).streamStatus).toEqual(
      kept.map((stream) => ({
        ...stream,
        answer: expect.objectContaining({ body: expect.stringContaining('… and …') }),
      })),
    );
    const { answer } = await scene.api<object>('GET', 'events/echoed');
    expect(JSON.stringify(answer)).toContain('later in one batch: … and …');
    for (const form of ['user-to-erase', 'User%2DTO-ERASE', 'u0075ser-to-erase'])
      expect([form, ...(await scene.filesWith(form))]).toEqual([form]);
  });
});

describe('users with hostile ids, each deleted twice at once', () => {
  it('are gone, and their ids from answers to events of others, while words that only look like them stay', async () => {
    const ids = [
      ...['5', 'null', 'a.*[b', 'say "hi" \\ there', '\\u0041lpha-user', '100%41-percent', '<b>&amp;</b>'],
      ...['jo\u0308rg-decomposed', 'j\u00f6rg-composed', '__proto__', "Robert'); drop"],
    ];
    const known = JSON.stringify({ knows: ids, at: 1500, nullable: 15 });
    const echoing = await receiver({ answer: (response) => response.writeHead(410).end(known) });
    const scene = await Scene.open(server, [echoing]);
    await scene.call('track', track('kept', { userId: 'other' }));
    for (const [n, userId] of ids.entries()) await scene.call('track', track(`m${n}`, { userId }));
    await echoing.count(1 + ids.length);
    const made = await Promise.all([...ids, ...ids].map((id) => scene.regulate('DELETE_ONLY', id)));
    await Promise.all(made.map((id) => scene.receipt(id)));
    // A receipt loses what a later deletion finds in it.
    const receipts = await Promise.all(made.map((id) => scene.receipt(id)));
    const erased = receipts.map((receipt) => (receipt.erased as { events: number }).events);
    expect(erased.reduce((sum, n) => sum + n, 0)).toBe(ids.length);
    for (const { answer } of receipts.flatMap(
      ({ streamStatus }) => streamStatus as { answer: { body: string } }[],
    ))
      expect(answer.body).not.toMatch(/say|lpha|percent|drop/);
    const { answer } = await scene.api<object>('GET', 'events/kept');
    const left = JSON.stringify({ knows: ids.map(() => '…'), at: 1500, nullable: 15 });
    expect(JSON.stringify(answer)).toContain(JSON.stringify(left).slice(1, -1));
    for (const part of [
      'say \\"hi',
      'lpha-user',
      '41-percent',
      '&amp;</b>',
      '-decomposed',
      '-composed',
      "Robert');",
    ])
      expect([part, ...(await scene.filesWith(part))]).toEqual([part]);
    expect((await scene.ledger()).balanced).toBe(true);
  });
});

describe('delete notifications', () => {
  it('"While a destination is paused or disabled they wait, and the regulation with them"', async () => {
    const [one, two] = [await receiver(), await receiver()];
    const scene = await Scene.open(server, [one, two]);
    const paused = scene.destination(0);
    await scene.call('track', track('m1', { userId: 'erase-paused' }));
    await Promise.all([one.count(1), two.count(1)]);
    await scene.api('POST', `destinations/${paused}/pause`);
    const id = await scene.regulate('DELETE_ONLY', 'erase-paused');
    await two.until(() => deletionsIn(two).length === 1);
    expect((await scene.api('GET', `regulations/${id}`)).answer).toMatchObject({ overallStatus: 'RUNNING' });
    expect(deletionsIn(one)).toEqual([]);
    // "the deliveries to a removed destination are dead", and "a replay does not repeat them".
    expect((await scene.api('DELETE', `destinations/${paused}?confirm=true`)).status).toBeLessThan(300);
    const receipt = await scene.receipt(id);
    expect(receipt.overallStatus).toBe('PARTIAL_SUCCESS');
    expect(receipt.streamStatus).toContainEqual(
      expect.objectContaining({ destination: paused, status: 'FAILED', sent: 1, confirmed: 0 }),
    );
    expect(deletionsIn(one)).toEqual([]);
    expect(await scene.filesWith('erase-paused')).toEqual([]);
  });
});

describe('an id that names nobody', () => {
  it('is a number in answer and receipt, and told by its name to administrators until the regulation ends', async () => {
    const one = await receiver();
    const scene = await Scene.open(server, [one]);
    const paused = scene.destination(0);
    await scene.call('track', track('m1', { userId: 'erase-known' }));
    await one.count(1);
    await scene.api('POST', `destinations/${paused}/pause`);
    const wish = { type: 'DELETE_ONLY', subjectIds: ['erase-known', 'erase-nobody'] };
    const foreseen = await scene.api('POST', 'regulations', { ...wish, dryRun: true });
    expect(foreseen).toMatchObject({ status: 200, answer: { unknown: ['erase-nobody'] } });
    const { answer } = await scene.api<Receipt>('POST', 'regulations', wish);
    expect(answer).toMatchObject({ unknown: 1, subjects: 2 });
    const subjects = async () => {
      const list = await scene.api<{ data: { unknown: boolean | null }[] }>(
        'GET',
        `regulations/${answer.id}/subjects`,
      );
      return list.answer.data;
    };
    const told = await until('it is known who is meant', async () => {
      const data = await subjects();
      return data.length === 2 && data.every(({ unknown }) => unknown !== null) && data;
    });
    expect(told).toMatchObject([
      { userId: 'erase-known', unknown: false },
      { userId: 'erase-nobody', unknown: true },
    ]);
    expect((await scene.api('POST', `destinations/${paused}/resume`)).status).toBeLessThan(300);
    const receipt = await scene.receipt(answer.id);
    expect(receipt).toMatchObject({ overallStatus: 'FINISHED', unknown: 1 });
    expect(JSON.stringify([answer, receipt])).not.toContain('erase-');
    expect(await subjects()).toEqual([]);
  });
});

describe('delete notifications, where profiles are kept,', () => {
  const withProfiles = sharedServer(() => 'egress: { allow: [127.0.0.0/8] }\nprofiles: on');

  it('go to "each userId" of a user: "Suppressing or deleting one of them means both."', async () => {
    const one = await receiver();
    const scene = await Scene.open(withProfiles, [one]);
    await scene.call('track', track('m1', { userId: 'erase-old' }));
    await scene.call('alias', { previousId: 'erase-old', userId: 'erase-new' });
    await scene.call('track', track('m2', { userId: 'erase-new' }));
    await one.count(3);
    const receipt = await scene.receipt(await scene.regulate('SUPPRESS_WITH_DELETE', 'erase-old'));
    expect(receipt).toMatchObject({ overallStatus: 'FINISHED', erased: { events: 3 }, profiles: 1 });
    expect(
      deletionsIn(one)
        .map((body) => JSON.parse(body).userId)
        .sort(),
    ).toEqual(['erase-new', 'erase-old']);
    for (const text of ['erase-old', 'erase-new']) expect(await scene.filesWith(text)).toEqual([]);
    await scene.call('track', track('m3', { userId: 'erase-new' }));
    // Counts of calls are stored a moment later.
    await until('the suppressed call is counted', async () => {
      const { sources } = await scene.ledger();
      return sources[scene.website]!.discarded['suppressed'] === 1;
    });
  });
});

describe('the ids that are joined to a user, where profiles are kept,', () => {
  const withProfiles = sharedServer(
    () => 'egress: { allow: [127.0.0.0/8] }\nprofiles: on\nidentities: { externalIds: [email] }',
  );

  it(
    quoted(
      'A further userId that aliases of client sources alone have joined is left out with what belongs to it, unless the request confirms it, and keeps a profile of its own events.',
      'A dry run, and the regulation until it ends, name each joined id with the rule, source, event and time that joined it; the receipt has numbers.',
    ),
    async () => {
      const scene = await Scene.open(withProfiles, [await receiver()]);
      await scene.call(
        'identify',
        { messageId: 'j1', userId: 'stays-bob', traits: { name: 'Bob' } },
        scene.app,
      );
      await scene.call('track', track('j2', { userId: 'goes-ann', anonymousId: 'phone-of-ann' }), scene.app);
      await scene.call('alias', { messageId: 'j3', previousId: 'stays-bob', userId: 'goes-ann' });
      await until('they are one', async () => {
        const { answer } = await scene.api<{ formerUserIds?: string[] }>('GET', 'profiles/goes-ann');
        return answer.formerUserIds?.includes('stays-bob');
      });
      const changed = await scene.api('PATCH', `sources/${scene.website}`, { trust: 'client' });
      expect(changed.status).toBe(200);
      const request = { type: 'DELETE_ONLY', subjectIds: ['goes-ann'] };
      const { answer: foreseen } = await scene.api('POST', 'regulations', { ...request, dryRun: true });
      const at = expect.any(String);
      const phone = { kind: 'anonymous', value: 'phone-of-ann', rule: 'identify', source: scene.app };
      const bob = { kind: 'user', value: 'stays-bob', rule: 'alias', source: scene.website };
      expect(foreseen).toEqual({
        ...{ type: 'DELETE_ONLY', subjects: 1, unknown: [], belongToUsers: [] },
        ...{ events: 2, profiles: 1, destinations: [scene.destination(0)] },
        found: [
          {
            ...{ userId: 'goes-ann', formerUserIds: [], anonymousIds: ['phone-of-ann'], unknown: false },
            joins: [{ ...phone, messageId: 'j2', at }],
            leftOut: [{ ...bob, messageId: 'j3', at }],
          },
        ],
      });
      const receipt = await scene.receipt(await scene.regulate('DELETE_ONLY', 'goes-ann'));
      expect(receipt).toMatchObject({
        ...{ overallStatus: 'FINISHED', leftOut: 1, erased: { events: 2 } },
        joined: [{ rule: 'identify', source: scene.app, ids: 1 }],
      });
      for (const text of ['goes-ann', 'phone-of-ann']) expect(await scene.filesWith(text)).toEqual([]);
      const { answer: left } = await scene.api('GET', 'profiles/stays-bob');
      expect(left).toMatchObject({ userId: 'stays-bob', formerUserIds: [], traits: { name: 'Bob' } });
    },
  );

  it.each([
    ['a user', { userId: 'mail-ann' }, { subjectIds: ['mail-ann'] }],
    ['a visitor', { anonymousId: 'mail-visitor' }, { anonymousIds: ['mail-visitor'] }],
  ])('answers to events of others lose the external ids of %s too', async (who, ids, named) => {
    const address = `${who.replace(' ', '-')}@gone.example`;
    const echoing = await receiver({
      answer: (response) => response.writeHead(410).end(`asked by ${address.toUpperCase()} before`),
    });
    const scene = await Scene.open(withProfiles, [echoing]);
    await scene.call('identify', { messageId: `${who} 1`, ...ids, traits: { email: address } });
    await scene.call('track', track(`${who} 2`, { userId: 'mail-other' }));
    await until('the profile has the address', async () => {
      const [[name, value]] = Object.entries(ids) as [[string, string]];
      const { answer } = await scene.api<{ externalIds?: object }>('GET', `profiles?${name}=${value}`);
      expect(answer.externalIds).toEqual({ email: [address] });
    });
    const kept = async () => JSON.stringify((await scene.api('GET', `events/${who} 2`)).answer);
    await until('the answer is kept', async () => expect(await kept()).toContain(address.toUpperCase()));
    const { answer } = await scene.api<Receipt>('POST', 'regulations', { type: 'DELETE_ONLY', ...named });
    await scene.receipt(answer.id);
    expect(await kept()).toContain('asked by … before');
    for (const text of [address, address.toUpperCase()]) expect(await scene.filesWith(text)).toEqual([]);
  });
});

describe('a suppressed user', () => {
  it('"`SUPPRESS_ONLY` keeps the `userId` itself, which can be listed, until the user is deleted. A list shows no hashes."', async () => {
    const scene = await Scene.open(server, [await receiver()]);
    await scene.receipt(await scene.regulate('SUPPRESS_ONLY', 'hush'));
    const listed = async () => (await scene.api<{ data: object[] }>('GET', 'suppressions')).answer.data;
    expect(await listed()).toMatchObject([{ userId: 'hush' }]);
    await scene.receipt(await scene.regulate('DELETE_ONLY', 'hush'));
    expect(await listed()).toEqual([]);
    expect((await scene.api('GET', 'suppressions/hush')).status).toBe(200);
    expect(await scene.filesWith('hush')).toEqual([]);
  });

  it('"The receipt and the audit trail never have them": the trail says who asked for what, and for how many users', async () => {
    const scene = await Scene.open(server, [await receiver()]);
    const trail = async () =>
      (await scene.api<{ data: { name: string }[] }>('GET', 'audit?kind=regulation')).answer.data;
    const types = ['SUPPRESS_ONLY', 'DELETE_ONLY', 'SUPPRESS_WITH_DELETE', 'UNSUPPRESS'];
    const ids: string[] = [];
    const before = new Set((await trail()).map(({ name }) => name));
    for (const type of types) ids.push(await scene.regulate(type, 'silent', 'silent', 'quiet'));
    const receipts = await Promise.all(ids.map((id) => scene.receipt(id)));
    await scene.api('POST', 'regulations', { type: 'DELETE_ONLY', subjectIds: ['silent'], dryRun: true });
    await scene.api('POST', 'regulations', { type: 'DELETE_ONLY', subjectIds: [] });
    const added = (await trail()).filter(({ name }) => !before.has(name));
    const entries = ids.map((id, nth) => ({
      ...{ at: expect.any(String), by: 'admin', action: 'created', kind: 'regulation', name: id },
      after: { id, type: types[nth], subjects: 2 },
    }));
    expect(added).toEqual(entries.reverse());
    for (const id of ['silent', 'quiet']) expect(JSON.stringify([added, receipts])).not.toContain(id);
  });

  it('is kept nowhere, from the answer on and over restarts, until the suppression ends', async () => {
    const one = await receiver();
    const scene = await Scene.open(server, [one]);
    await scene.call('track', track('m1', { userId: 'mute', anonymousId: 'anon-of-mute' }));
    await one.count(1);
    const askWithKey = (subjectIds: readonly string[]) =>
      scene.api<Receipt & { code?: string }>(
        'POST',
        'regulations',
        { type: 'SUPPRESS_WITH_DELETE', subjectIds },
        { 'idempotency-key': 'the key of mute' },
      );
    const { id } = (await askWithKey(['mute', 'mute'])).answer;
    const calls = async (round: number) => {
      await scene.call('track', track('s1', { userId: 'mute' }));
      await scene.call('track', track('s2', { userId: 'mute', event: undefined })).catch(() => {});
      await scene.call('alias', { userId: 'new', previousId: 'mute' });
      await scene.call('batch', {
        batch: [track('s3', { userId: 'mute' }), track(`ok-${round}`, { userId: 'u' })],
      });
    };
    await calls(1);
    expect(await scene.receipt(id)).toMatchObject({ overallStatus: 'FINISHED' });
    await scene.call('track', track('s4', { userId: undefined, anonymousId: 'anon-of-mute' }));
    await scene.restart();
    // The client that has lost the answer sends its request again.
    expect(await askWithKey(['mute', 'mute'])).toMatchObject({ status: 201, answer: { id } });
    expect(await askWithKey(['mute'])).toMatchObject({
      status: 422,
      answer: { code: 'idempotency_key_reused' },
    });
    await calls(2);
    await scene.call('track', track('s5', { userId: undefined, anonymousId: 'anon-of-mute' }));
    const { data } = (await scene.api<{ data: object[] }>('GET', 'discards')).answer;
    expect(data).toEqual([]);
    expect(await scene.filesWith('mute')).toEqual([]);
    await until('all eight suppressed calls are counted', async () => {
      const { sources } = await scene.ledger();
      return sources[scene.website]?.discarded['suppressed'] === 8;
    });
    expect((await scene.api('GET', 'suppressions/mute')).answer).toMatchObject({ regulation: id });
    expect((await scene.api('GET', 'suppressions')).answer).toEqual({ data: [], next: null });
    await scene.regulate('UNSUPPRESS', 'mute');
    expect((await scene.api('GET', 'suppressions/mute')).status).toBe(404);
    await scene.call('track', track('s6', { userId: 'mute' }));
    await scene.call('track', track('s7', { userId: undefined, anonymousId: 'anon-of-mute' }));
    await one.until(() => one.arrivals.some(({ body }) => body.includes('s7')));
  });
});
