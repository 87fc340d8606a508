import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { alterStore } from '../../../server/test/support/test-database.ts';
import { until } from '../../../server/test/support/until.ts';
import { type Driver, libraries, librariesBesideTheServer } from '../library.ts';
import { quoted } from './quoted.ts';
import { type Body, bodiesAt, type Call, deletionOf, deletionsAt, expectSigned, Scene } from './scene.ts';

const { missing } = libraries();
const tried = librariesBesideTheServer(1);
for (const line of missing) console.log(line);

const viewed = (userId: string, more: Body = {}): Call => ['track', { userId, event: 'Viewed', ...more }];

/** Events with these texts are refused for good by `crm`, or refused until they wait no more. */
const REFUSED = 'mark-of-refused';
const WAITING = 'mark-of-waiting';

/** Files of the data folder in which a text stands. */
function filesWith(folder: string, text: string): string[] {
  return readdirSync(folder).filter((name) => readFileSync(join(folder, name)).includes(text));
}

/** spec/specification.md, "Deletion and suppression", with calls that each of our clients makes. */
describe.each(tried)('the $name client', (library) => {
  let scene: Scene;
  let website: Driver;
  let app: Driver;
  /** UserIds whose notifications `crm` refuses. */
  const refusing = new Set<string>();
  beforeAll(async () => {
    const crmAnswers = (body: string) => {
      if (body.includes(REFUSED)) return 410;
      if (body.includes(WAITING)) return 500;
      return body.includes('"type":"delete"') && [...refusing].some((id) => body.includes(id)) ? 410 : 200;
    };
    const audiences = [
      { name: 'Sentinels', definition: "event('Sentinel')", destinations: ['marketing'] },
      { name: 'Pros', definition: "trait('plan') = 'pro'", destinations: ['marketing'] },
    ];
    scene = await Scene.open(library, { more: { audiences, profiles: 'on' }, crmAnswers });
    website = await scene.client('wk');
    app = await scene.client('wk_app');
  });
  afterAll(() => scene.close());

  const receivedBy = async (userId: string, n: number) =>
    await scene.crm.until(() => bodiesAt(scene.crm).filter((body) => body['userId'] === userId).length >= n);

  const eventsOf = async (query: string) =>
    ((await scene.api('GET', `events?${query}`)) as unknown as { data: Body[] }).data.length;

  const ledgerOf = async (destination: string) =>
    ((await scene.api('GET', 'ledger')) as { destinations: Record<string, Body> }).destinations[destination]!;

  it(
    quoted(
      'A regulation is a request about users, by `userId`, and about visitors without one, by `anonymousId`, at most 5,000 of both.',
      'Ids are taken as they are, as in calls; an integer up to 2^53 − 1 is its digits.',
      'An id that a call may not have is refused, unless an earlier version has stored it.',
      'An id that names nobody, because nothing is stored of it, is counted as `unknown`, and suppressed all the same; until the regulation ends, its `subjects` show an `admin` which ids these are.',
    ),
    async () => {
      const ids = Array.from({ length: 5001 }, (_, nth) => `nobody-${nth}`);
      const many = { type: 'DELETE_ONLY', subjectIds: ids };
      expect((await scene.ask('POST', 'regulations', many)).status).toBe(422);
      const both = { ...many, subjectIds: ids.slice(2), anonymousIds: ['a', 'b'] };
      expect((await scene.ask('POST', 'regulations', both)).status).toBe(422);
      expect((await scene.ask('POST', 'regulations', { ...many, subjectIds: [] })).status).toBe(422);
      const allowed = await scene.api('POST', 'regulations', { ...many, subjectIds: ids.slice(1) });
      expect(allowed).toMatchObject({ subjects: 5000, unknown: null });
      expect(await scene.receipt(String(allowed['id']))).toMatchObject({ unknown: 5000 });
      await scene.send(website, viewed('ann'), viewed('  ann\t'), viewed('12'));
      await receivedBy('ann', 1);
      await receivedBy('12', 1);
      const receipt = await scene.receipt(await scene.regulate('DELETE_ONLY', '  ann\t'));
      expect(receipt).toMatchObject({ subjects: 1, unknown: 0, erased: { events: 1 } });
      const numbers = await scene.api('POST', 'regulations', { type: 'DELETE_ONLY', subjectIds: [12] });
      expect(await scene.receipt(String(numbers['id']))).toMatchObject({ erased: { events: 1 } });
      for (const faulty of [2 ** 53, 'x'.repeat(1025), 'half\ud83d', '', true])
        expect((await scene.ask('POST', 'regulations', { ...many, subjectIds: [faulty] })).status).toBe(422);

      const twoIds = { type: 'SUPPRESS_WITH_DELETE', subjectIds: ['ann', 'nobody'] };
      expect(await scene.api('POST', 'regulations', { ...twoIds, dryRun: true })).toMatchObject({
        unknown: ['nobody'],
      });
      await scene.api('POST', 'destinations/crm/pause');
      const made = await scene.api('POST', 'regulations', twoIds);
      expect(made).toMatchObject({ unknown: 1 });
      const shown = (await scene.api('GET', `regulations/${made['id']}/subjects`)) as unknown as {
        data: Body[];
      };
      expect(shown.data.map(({ userId }) => userId)).toEqual(['ann', 'nobody']);
      await scene.api('POST', 'destinations/crm/resume');
      await scene.receipt(String(made['id']));
      expect(await scene.api('GET', `regulations/${made['id']}/subjects`)).toEqual({ data: [] });
      expect((await scene.ask('GET', 'suppressions?userId=nobody')).status).toBe(200);
      await scene.receipt(await scene.regulate('UNSUPPRESS', 'ann'));
    },
  );

  it(
    quoted(
      'A regulation has an overall status: `INITIALIZED`; `RUNNING`; `FINISHED`, when everything is erased and every endpoint has confirmed; `PARTIAL_SUCCESS`, when everything is erased and some endpoint has not confirmed; `FAILED`, with a reason.',
      'While a destination is paused or disabled they wait, and the regulation with them; the deliveries to a removed destination are dead.',
    ),
    async () => {
      await scene.send(website, ...['bob-1', 'bob-2', 'bob-3', 'bob-4'].map((userId) => viewed(userId)));
      await receivedBy('bob-4', 1);
      await scene.api('POST', 'destinations/crm/pause');
      const made = await scene.api('POST', 'regulations', { type: 'DELETE_ONLY', subjectIds: ['bob-1'] });
      expect(made).toMatchObject({ overallStatus: 'INITIALIZED' });
      const isWaiting = ({ streamStatus }: Body) => (streamStatus as Body[]).length > 0;
      const waiting = await scene.untilShown(`regulations/${made['id']}`, isWaiting);
      expect(waiting).toMatchObject({ overallStatus: 'RUNNING', erased: { events: 1 } });
      expect(deletionsAt(scene.crm, 'bob-1')).toEqual([]);
      await scene.api('POST', 'destinations/crm/resume');
      expect(await scene.receipt(String(made['id']))).toMatchObject({ overallStatus: 'FINISHED' });

      refusing.add('bob-2');
      const refused = await scene.receipt(await scene.regulate('DELETE_ONLY', 'bob-2'));
      expect(refused).toMatchObject({ overallStatus: 'PARTIAL_SUCCESS', erased: { events: 1 } });

      await scene.api('POST', 'destinations', {
        ...{ name: 'leaving', type: 'webhooks', sources: ['website'], enabled: true },
        settings: { endpoints: [{ url: scene.archive.url }] },
      });
      await scene.api('POST', 'destinations/leaving/pause');
      const removed = await scene.regulate('DELETE_ONLY', 'bob-3');
      await scene.untilShown(`regulations/${removed}`, isWaiting);
      await scene.api('DELETE', 'destinations/leaving?confirm=true');
      expect(await scene.receipt(removed)).toMatchObject({
        overallStatus: 'PARTIAL_SUCCESS',
        streamStatus: expect.arrayContaining([
          expect.objectContaining({ destination: 'leaving', status: 'FAILED', sent: 1, confirmed: 0 }),
        ]),
      });

      await scene.api('POST', 'destinations/crm/pause');
      const damaged = await scene.regulate('DELETE_ONLY', 'bob-4');
      await scene.untilShown(`regulations/${damaged}`, isWaiting);
      await scene.kill();
      await alterStore(scene.place.data, 'delete from regulation_subject');
      await scene.start();
      // The notification that is in the log already is still delivered, and awaited.
      await scene.api('POST', 'destinations/crm/resume');
      const failed = await scene.receipt(damaged);
      expect(failed).toMatchObject({ overallStatus: 'FAILED', reason: expect.stringContaining('anew') });
      expect(deletionsAt(scene.crm, 'bob-4')).toHaveLength(1);
    },
  );

  it(
    quoted(
      'It goes on after a crash or a restart with the step that it had come to.',
      'No notification is lost or made twice.',
    ),
    async () => {
      await scene.send(website, viewed('cid'));
      await scene.send(app, viewed('cid'));
      await receivedBy('cid', 2);
      await scene.api('POST', 'destinations/crm/pause');
      const id = await scene.regulate('DELETE_ONLY', 'cid');
      await scene.kill();
      await scene.start();
      await scene.untilShown(`regulations/${id}`, ({ streamStatus }) => (streamStatus as Body[]).length > 0);
      await scene.kill();
      await scene.start();
      await scene.api('POST', 'destinations/crm/resume');
      expect(await scene.receipt(id)).toMatchObject({ overallStatus: 'FINISHED' });
      const ids = scene.crm.arrivals
        .filter(({ body }) => body.includes('"cid"') && body.includes('"type":"delete"'))
        .map(({ headers }) => headers['webhook-id']);
      expect(ids.sort()).toEqual([`del_${id}_app_1`, `del_${id}_website_1`]);
    },
  );

  it(
    quoted(
      'Its user ids are stored until it has ended, then only their keyed hashes.',
      'The receipt and the audit trail never have them.',
      'When every delivery has ended, the notifications are erased too, and no file of the data folder holds a byte of any of it; on PostgreSQL no table does, and its write-ahead log, archives, standbys and base backups keep it until they are recycled.',
    ),
    async () => {
      const userId = 'dan-who-is-erased';
      await scene.send(
        website,
        viewed(userId),
        viewed(userId, { properties: { text: `${REFUSED} ${userId}` } }),
      );
      await receivedBy(userId, 2);
      await scene.api('POST', 'destinations/crm/pause');
      const id = await scene.regulate('DELETE_ONLY', userId);
      await scene.untilShown(`regulations/${id}`, ({ streamStatus }) => (streamStatus as Body[]).length > 0);
      expect(filesWith(scene.place.data, userId)).not.toEqual([]);
      await scene.api('POST', 'destinations/crm/resume');
      const receipt = await scene.receipt(id);
      expect(filesWith(scene.place.data, userId)).toEqual([]);
      const trail = await scene.api('GET', `audit?kind=regulation&name=${id}`);
      expect(trail['data']).toMatchObject([{ name: id, after: { subjects: 1 } }]);
      expect(JSON.stringify([receipt, trail])).not.toContain(userId);
      // The notification is gone as well.
      expect(await scene.api('GET', `events/del_${id}_website_1`)).toEqual({ data: [] });
    },
  );

  it(
    quoted(
      'Deleting a user erases the stored events that arrived before, the profile, the dead letters and what is queued for delivery, in memory too.',
      'These deliveries count as `erased`.',
      'Answers of endpoints that mention an id of the user are forgotten.',
    ),
    async () => {
      const userId = 'eve-who-is-erased';
      await scene.send(
        website,
        ['identify', { userId, traits: { plan: 'pro' } }],
        viewed(userId, { properties: { text: REFUSED }, messageId: 'eve-refused' }),
        viewed(userId, { properties: { text: WAITING } }),
      );
      await scene.untilTold('pros', [userId, true]);
      // The endpoint repeats what it gets, and its last answer is shown.
      const status = async () => JSON.stringify(await scene.api('GET', 'destinations/crm/status'));
      await until('the last answer is shown', async () => (await status()).includes(userId));
      const before = Number((await ledgerOf('crm'))['erased']);
      const receipt = await scene.receipt(await scene.regulate('DELETE_ONLY', userId));
      expect(receipt).toMatchObject({ profiles: 1, erased: { events: 4, deadLetters: 1 } });
      expect(await eventsOf(`userId=${userId}`)).toBe(0);
      expect((await scene.ask('GET', `profiles/${userId}`)).status).toBe(404);
      expect(await scene.api('GET', 'events/eve-refused')).toEqual({ data: [] });
      expect(await status()).not.toContain(userId);
      expect(filesWith(scene.place.data, userId)).toEqual([]);
      // The one that waited, the dead letter, and the notification when it had ended.
      expect(Number((await ledgerOf('crm'))['erased'])).toBeGreaterThanOrEqual(before + 2);
      expect(await scene.api('GET', 'ledger')).toMatchObject({ balanced: true });
      // Calls that arrive afterwards are events like any other.
      await scene.send(website, viewed(userId));
      await scene.settle(website);
      expect(await eventsOf(`userId=${userId}`)).toBe(1);
    },
  );

  it(
    quoted(
      'Deleting a visitor erases its profile, and the events without a `userId` that have its anonymous ids.',
      'Of an anonymous id that belongs to a user nothing is erased or suppressed, and the receipt counts it.',
      'No notification is made of visitors, because one names a `userId`.',
      'Calls of a suppressed visitor are those with its `anonymousId` and no `userId`.',
      'Of visitors only keyed hashes are kept.',
    ),
    async () => {
      const visitor = 'visitor-who-is-erased';
      const seen = (anonymousId: string): Call => ['track', { anonymousId, event: 'Viewed' }];
      await scene.send(
        website,
        ['identify', { anonymousId: visitor, traits: { email: 'v@example.com' } }],
        seen(visitor),
        seen('device-of-vera'),
        viewed('vera', { anonymousId: 'device-of-vera' }),
      );
      await scene.settle(website);
      expect((await scene.ask('GET', `profiles?anonymousId=${visitor}`)).status).toBe(200);
      const anonymousIds = [visitor, 'device-of-vera', 'nobody-at-all'];
      const request = { type: 'SUPPRESS_WITH_DELETE', anonymousIds };
      expect(await scene.api('POST', 'regulations', { ...request, dryRun: true })).toMatchObject({
        ...{ type: request.type, subjects: 3, unknown: ['nobody-at-all'], belongToUsers: ['device-of-vera'] },
      });
      const before = scene.crm.arrivals.length;
      const { id } = await scene.api('POST', 'regulations', request);
      const receipt = await scene.receipt(String(id));
      expect(receipt).toMatchObject({
        ...{ overallStatus: 'FINISHED', subjects: 3, unknown: 1, belongToUsers: 1, profiles: 1 },
        ...{ streamStatus: [], erased: { events: 2 } },
      });
      expect((await scene.ask('GET', `profiles?anonymousId=${visitor}`)).status).toBe(404);
      expect(filesWith(scene.place.data, visitor)).toEqual([]);
      expect(await eventsOf('anonymousId=device-of-vera')).toBe(2);
      await scene.send(
        website,
        seen(visitor),
        seen('device-of-vera'),
        viewed('wim', { anonymousId: visitor }),
      );
      await receivedBy('wim', 1);
      await scene.settle(website);
      expect(await scene.discarded('website', 'suppressed')).toBeGreaterThan(0);
      expect([
        await eventsOf(`anonymousId=${visitor}&userId=wim`),
        await eventsOf('anonymousId=device-of-vera'),
      ]).toEqual([1, 3]);
      const { data } = await scene.api('GET', `suppressions?anonymousId=${visitor}`);
      expect(data).toMatchObject([{ regulation: id }]);
      expect(await scene.api('GET', 'suppressions')).not.toMatchObject({ data: [{ userId: visitor }] });
      expect(deletionsAt(scene.crm, visitor)).toEqual([]);
      expect(scene.crm.arrivals.length).toBeGreaterThan(before);
      await scene.api('POST', 'regulations', { type: 'UNSUPPRESS', anonymousIds: [visitor] });
      expect(await scene.api('GET', `suppressions?anonymousId=${visitor}`)).toEqual({ data: [], next: null });
    },
  );

  it(quoted('Answers to events of other users, and those in earlier receipts, lose the ids.'), async () => {
    const userId = 'fay-who-is-erased';
    // The endpoint repeats what it gets.
    const about = viewed('gus', { messageId: 'gus-refused', properties: { text: `${REFUSED} ${userId}` } });
    await scene.send(website, about, viewed(userId));
    await receivedBy(userId, 1);
    const answers = async () => {
      const { data } = (await scene.api('GET', 'events/gus-refused')) as unknown as {
        data: { deliveries: { attempts: { answer?: string }[] }[] }[];
      };
      return JSON.stringify(data.flatMap(({ deliveries }) => deliveries.map(({ attempts }) => attempts)));
    };
    await until('the answer is recorded', async () => (await answers()).includes(userId));
    await scene.receipt(await scene.regulate('DELETE_ONLY', userId));
    expect(await answers()).toContain(`${REFUSED} …`);
    expect(await answers()).not.toContain(userId);
  });

  it(
    quoted(
      'With the user go the ids that belong to nobody else: former userIds, and anonymous ids that no other user has used and that are joined to no other user.',
      'Their events without a `userId` are erased as well.',
    ),
    async () => {
      await scene.send(
        website,
        viewed('fay-before'),
        ['alias', { previousId: 'fay-before', userId: 'fay' }],
        viewed('fay', { anonymousId: 'fay-own' }),
        viewed('fay', { anonymousId: 'fay-shared' }),
        viewed('gus', { anonymousId: 'fay-shared' }),
        ['track', { anonymousId: 'fay-own', event: 'Viewed' }],
        ['track', { anonymousId: 'fay-shared', event: 'Viewed' }],
      );
      await scene.settle(website);
      await scene.receipt(await scene.regulate('DELETE_ONLY', 'fay'));
      for (const query of ['userId=fay', 'userId=fay-before', 'anonymousId=fay-own'])
        expect([query, await eventsOf(query)]).toEqual([query, 0]);
      expect(await eventsOf('userId=gus&anonymousId=fay-shared')).toBe(1);
      const { data } = (await scene.api('GET', 'events?anonymousId=fay-shared')) as {
        data: { event: Body }[];
      };
      expect(data.map(({ event }) => event['userId']).sort()).toEqual(['gus', undefined]);
      expect(deletionsAt(scene.crm, 'fay')).toHaveLength(1);
      expect(deletionsAt(scene.crm, 'fay-before')).toHaveLength(1);
    },
  );

  it(
    quoted(
      'One delete notification goes out for each userId and each affected source, that is a source that has seen the user and feeds an enabled destination of type `webhooks`.',
      '`{"type":"delete","userId":"…","timestamp":"…"}`, with exactly these fields in this order, in all formats.',
      'It has no `version`.',
    ),
    async () => {
      const [quiet, strict] = [await scene.client('wk_quiet'), await scene.client('wk_strict')];
      await scene.send(website, ['identify', { userId: 'hal', traits: { plan: 'pro' } }], viewed('hal'));
      for (const client of [app, quiet, strict]) await scene.send(client, viewed('hal'));
      await scene.untilTold('pros', ['hal', true]);
      await receivedBy('hal', 3);
      const id = await scene.regulate('DELETE_ONLY', 'hal');
      const receipt = await scene.receipt(id);
      const streams = (receipt['streamStatus'] as Body[]).map(
        (one) => `${one['source']} ${one['destination']}`,
      );
      // `quiet` feeds a disabled destination, `strict` none, and `unseen` has not seen the user.
      expect(streams.sort()).toEqual(['app crm', 'audiences marketing', 'website archive', 'website crm']);
      const form = expect.stringMatching(deletionOf('hal'));
      expect(deletionsAt(scene.crm, 'hal')).toEqual([form, form]);
      // It has the canonical format, and takes tracks only.
      expect(deletionsAt(scene.archive, 'hal')).toEqual([form]);
      // It was told of the user by the source `audiences`. Who is deleted hears no `false`: receivers hear
      // the notification.
      expect(deletionsAt(scene.marketing, 'hal')).toEqual([form]);
      expect(scene.told('pros', 'hal')).toEqual([[true]]);
      for (const receiver of [scene.crm, scene.archive, scene.marketing]) expectSigned(receiver);
    },
  );

  it(
    quoted(
      'Notifications are ordinary deliveries, durable and retried, so that receivers can erase on their side.',
      'Filters and integrations objects do not hold them back, and a replay does not repeat them.',
    ),
    async () => {
      const since = new Date(Date.now() - 1000).toISOString();
      // The integrations object keeps the calls from every destination, and `archive` takes tracks only.
      await scene.send(website, viewed('ivy', { integrations: { All: false } }));
      await scene.settle(website);
      await scene.api('PATCH', 'destinations/archive', {
        settings: { endpoints: [{ url: `${scene.archive.url}/moved` }] },
      });
      const receipt = await scene.receipt(await scene.regulate('DELETE_ONLY', 'ivy'));
      expect(receipt).toMatchObject({ overallStatus: 'FINISHED' });
      for (const receiver of [scene.crm, scene.archive]) expect(deletionsAt(receiver, 'ivy')).toHaveLength(1);
      const replay = await scene.api('POST', 'replays', {
        ...{ destination: 'crm', from: since, to: new Date().toISOString() },
      });
      await scene.untilShown(`replays/${replay['id']}`, ({ state }) => state === 'done');
      await scene.settle(website);
      expect(deletionsAt(scene.crm, 'ivy')).toHaveLength(1);
    },
  );

  it(
    quoted(
      "A delivery that has ended without being accepted is shown in the receipt with the endpoint's answer, without the user ids.",
      'For another try, make the regulation again.',
    ),
    async () => {
      const userId = 'jan-who-is-refused';
      await scene.send(website, viewed(userId));
      await receivedBy(userId, 1);
      refusing.add(userId);
      const refused = await scene.receipt(await scene.regulate('DELETE_ONLY', userId));
      expect(refused).toMatchObject({ overallStatus: 'PARTIAL_SUCCESS' });
      const shown = (refused['streamStatus'] as Body[]).find(({ destination }) => destination === 'crm');
      expect(shown).toMatchObject({
        ...{ status: 'FAILED', sent: 1, confirmed: 0 },
        answer: { status: 410, body: expect.stringContaining('I got {"type":"delete","userId":"…"') },
      });
      expect(JSON.stringify(refused)).not.toContain(userId);
      refusing.delete(userId);
      await scene.send(website, viewed(userId));
      await receivedBy(userId, 3);
      expect(await scene.receipt(await scene.regulate('DELETE_ONLY', userId))).toMatchObject({
        overallStatus: 'FINISHED',
      });
    },
  );

  it(
    quoted(
      'Calls of a suppressed user are not accepted, from the answer to the regulation on, for all sources.',
      'A call is of a suppressed user by its `userId`; without a `userId`, by its `anonymousId`; and by the `previousId` of an alias.',
      'Ids that belong to the user alone are suppressed with the user, as soon as they are found.',
      'A call of a suppressed user is answered 200 and counted as `suppressed`.',
      'Nothing of it is stored or shown: no event, no sample, no line of the live tail.',
      'In a batch of a strict source it counts as valid.',
    ),
    async () => {
      const counts = () =>
        Promise.all(['website', 'app', 'strict'].map((one) => scene.discarded(one, 'suppressed')));
      const before = await counts();
      const strict = await scene.client('wk_strict');
      await scene.send(website, viewed('kim', { anonymousId: 'kim-device' }));
      await receivedBy('kim', 1);
      await scene.settle(website);
      const controller = new AbortController();
      const tail = await fetch(`${scene.url}/api/v1/tail`, {
        headers: { authorization: 'Bearer t0ken' },
        signal: controller.signal,
      });
      await scene.receipt(await scene.regulate('SUPPRESS_ONLY', 'kim'));
      await scene.send(
        website,
        viewed('kim', { event: 'Hushed' }),
        ['track', { anonymousId: 'kim-device', event: 'Hushed' }],
        ['alias', { previousId: 'kim', userId: 'lea' }],
        viewed('lea'),
      );
      await scene.send(app, viewed('kim', { event: 'Hushed' }));
      await scene.send(
        strict,
        viewed('kim', { event: 'Hushed' }),
        viewed('lea', { messageId: 'lea-of-strict' }),
      );
      await receivedBy('lea', 1);
      const [ofWebsite, ofApp, ofStrict] = before as [number, number, number];
      await until('all discarded calls are counted', async () =>
        expect(await counts()).toEqual([ofWebsite + 3, ofApp + 1, ofStrict + 1]),
      );
      let lines = '';
      const decoder = new TextDecoder();
      for await (const part of tail.body!) {
        lines += decoder.decode(part as Uint8Array, { stream: true });
        if (lines.includes('lea-of-strict')) break;
      }
      controller.abort();
      for (const text of ['kim', 'Hushed']) expect(lines).not.toContain(text);
      // The event from before the suppression.
      expect(await eventsOf('userId=kim')).toBe(1);
      expect(
        bodiesAt(scene.crm).filter((body) => body['event'] === 'Hushed' || body['Previous ID'] === 'kim'),
      ).toEqual([]);
      const { data } = (await scene.api('GET', 'discards')) as { data?: Body[] };
      expect(JSON.stringify(data ?? [])).not.toContain('kim');

      await scene.regulate('UNSUPPRESS', 'kim');
      await scene.send(website, viewed('kim', { event: 'Back' }), [
        'track',
        { anonymousId: 'kim-device', event: 'Back' },
      ]);
      await scene.crm.until(() => bodiesAt(scene.crm).filter(({ event }) => event === 'Back').length === 2);
    },
  );

  it(
    quoted(
      '`SUPPRESS_WITH_DELETE` keeps only keyed hashes.',
      '`SUPPRESS_ONLY` keeps the `userId` itself, which can be listed, until the user is deleted.',
      'A list shows no hashes.',
    ),
    async () => {
      await scene.send(website, viewed('mia-of-both'), viewed('nia-of-one'));
      await receivedBy('nia-of-one', 1);
      await scene.receipt(await scene.regulate('SUPPRESS_WITH_DELETE', 'mia-of-both'));
      expect(filesWith(scene.place.data, 'mia-of-both')).toEqual([]);
      await scene.receipt(await scene.regulate('SUPPRESS_ONLY', 'nia-of-one'));
      const listed = async () => (await scene.api('GET', 'suppressions'))['data'] as Body[];
      expect((await listed()).map(({ userId }) => userId)).toEqual(['nia-of-one']);
      await scene.receipt(await scene.regulate('DELETE_ONLY', 'nia-of-one'));
      expect(await listed()).toEqual([]);
      for (const userId of ['mia-of-both', 'nia-of-one'])
        expect((await scene.ask('GET', `suppressions/${userId}`)).status).toBe(200);
    },
  );
});

describe.each(tried)('the $name client, without profiles', (library) => {
  it(
    quoted('While no profiles are kept, only stored events tell which sources have seen the user.'),
    async () => {
      const scene = await Scene.open(library, { more: { audiences: [], profiles: 'off' } });
      const [website, app] = [await scene.client('wk'), await scene.client('wk_app')];
      await scene.send(website, viewed('oda'));
      await scene.send(app, viewed('oda'));
      await scene.crm.count(2);
      const first = await scene.receipt(await scene.regulate('DELETE_ONLY', 'oda'));
      expect(new Set((first['streamStatus'] as Body[]).map(({ source }) => source))).toEqual(
        new Set(['website', 'app']),
      );
      expect(deletionsAt(scene.crm, 'oda')).toHaveLength(2);
      const second = await scene.receipt(await scene.regulate('DELETE_ONLY', 'oda'));
      expect(second).toMatchObject({ overallStatus: 'FINISHED', streamStatus: [] });
      await scene.close();
    },
  );
});
