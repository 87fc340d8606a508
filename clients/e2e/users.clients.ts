import { createHmac } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makePlace, type Place, type Program, startServer } from '../../server/test/support/program.ts';
import { startReceiver, type TestReceiver } from '../../server/test/support/receiver.ts';
import { type Driver, type Library, libraries, startDriver } from './library.ts';

const SECRET = 's3cret-of-the-tests';
const TOKEN = 't0ken';

const { found, missing } = libraries();
for (const line of missing) console.log(line);

type Body = Record<string, unknown>;

/** A server whose destination `crm` gets the calls of two sources, and `marketing` nothing but audiences and computed traits. */
class Scene {
  readonly crm: TestReceiver;
  readonly marketing: TestReceiver;
  readonly #place: Place;
  readonly #program: Program;
  readonly #library: Library;
  readonly #clients: Driver[] = [];
  #calls = 0;

  private constructor(
    library: Library,
    parts: { crm: TestReceiver; marketing: TestReceiver; place: Place; program: Program },
  ) {
    this.#library = library;
    this.crm = parts.crm;
    this.marketing = parts.marketing;
    this.#place = parts.place;
    this.#program = parts.program;
  }

  static async open(library: Library): Promise<Scene> {
    const [crm, marketing] = [await startReceiver(), await startReceiver()];
    const destination = (name: string, { url }: TestReceiver, sources: string[]) => {
      return { name, type: 'webhooks', sources, settings: { endpoints: [{ url }], sharedSecret: SECRET } };
    };
    const place = makePlace(
      JSON.stringify({
        admin: { token: TOKEN },
        egress: { allow: ['127.0.0.0/8'] },
        sources: [
          { name: 'website', writeKeys: ['wk'] },
          { name: 'app', writeKeys: ['wk_app'] },
          { name: 'unseen', writeKeys: ['wk_unseen'] },
        ],
        destinations: [
          destination('crm', crm, ['website', 'app', 'unseen']),
          destination('marketing', marketing, []),
        ],
      }),
    );
    return new Scene(library, { crm, marketing, place, program: await startServer(place) });
  }

  async client(writeKey: string): Promise<Driver> {
    const client = await startDriver(this.#library, { writeKey, endpoint: this.#program.url });
    expect(client.ready, client.log()).toMatchObject({ ready: true });
    this.#clients.push(client);
    return client;
  }

  /** Makes these calls, and resolves when the server has answered them. */
  async send(client: Driver, ...calls: readonly (readonly [type: string, fields: Body])[]): Promise<void> {
    for (const [type, fields] of calls) {
      const messageId = `${this.#library.name}-${++this.#calls}`;
      expect(await client.call(type, { ...fields, messageId })).toMatchObject({ ok: true });
    }
    expect(await client.flush()).toMatchObject({ ok: true });
  }

  async api(method: string, path: string, body?: Body): Promise<Body> {
    const response = await fetch(`${this.#program.url}/api/v1/${path}`, {
      method,
      headers: { authorization: `Bearer ${TOKEN}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    expect(response.ok, text).toBe(true);
    return text === '' ? {} : (JSON.parse(text) as Body);
  }

  /** Asks again until the answer has these fields. */
  async untilAnswered(path: string, fields: Body): Promise<Body> {
    for (;;) {
      const answer = await this.api('GET', path);
      if (Object.entries(fields).every(([name, value]) => answer[name] === value)) return answer;
      await setTimeout(50);
    }
  }

  async close(): Promise<void> {
    for (const client of this.#clients) {
      expect(await client.close()).toMatchObject({ ok: true });
      expect(await client.end()).toBe(0);
    }
    await this.#program.stop();
    await this.crm.stop();
    await this.marketing.stop();
    this.#place.remove();
  }
}

function bodiesAt({ arrivals }: TestReceiver): Body[] {
  return arrivals.map(({ body }) => JSON.parse(body.toString()) as Body);
}

function expectSigned({ arrivals }: TestReceiver): void {
  for (const { headers, body } of arrivals)
    expect(headers['x-signature']).toBe(createHmac('sha1', SECRET).update(body).digest('hex'));
}

function deletionsAt({ arrivals }: TestReceiver): string[] {
  return arrivals.map(({ body }) => body.toString()).filter((body) => body.includes('"type":"delete"'));
}

/** The traits that `marketing` was told of each of these users, in the order in which it was told. */
function toldOf(scene: Scene, userIds: readonly string[], key: string): unknown[][] {
  return userIds.map((userId) =>
    bodiesAt(scene.marketing).flatMap((body) => {
      const traits = (body['traits'] ?? {}) as Body;
      return body['userId'] === userId && Object.hasOwn(traits, key) ? [traits[key]] : [];
    }),
  );
}

/** Sentences of spec/specification.md, with calls that each of our clients makes. */
describe.each(found)('the $name client', (library) => {
  let scene: Scene;
  let website: Driver;
  beforeAll(async () => {
    scene = await Scene.open(library);
    website = await scene.client('wk');
  });
  afterAll(() => scene.close());

  it('"A change is delivered as an `identify` for the user." "The first sync sends every member. Later syncs send only changes."', async () => {
    const plan = (userId: string, plan: string) => ['identify', { userId, traits: { plan } }] as const;
    await scene.send(website, plan('ann', 'pro'), plan('bob', 'pro'), plan('cid', 'free'));
    await scene.api('POST', 'audiences', {
      name: 'Pro plan, since 2020',
      definition: "trait('plan') = 'pro'",
      destinations: ['marketing'],
    });
    await scene.marketing.count(2);
    await scene.untilAnswered('audiences/Pro%20plan,%20since%202020', { state: 'live', members: 2 });
    await scene.send(website, plan('cid', 'pro'), plan('ann', 'free'));
    await scene.marketing.count(4);
    // "The key is the name in snake case."
    const users = ['ann', 'bob', 'cid'];
    expect(toldOf(scene, users, 'pro_plan_since_2020')).toEqual([[true, false], [true], [true]]);
    for (const body of bodiesAt(scene.marketing)) {
      expect(body).toMatchObject({ version: 1, type: 'identify' });
      expect(body['context']).toMatchObject({
        personas: { computation_class: 'audience', computation_key: 'pro_plan_since_2020' },
      });
    }
    expectSigned(scene.marketing);
  });

  it('"the key of the computed trait with its value"', async () => {
    const bought = (userId: string, total: number) =>
      ['track', { userId, event: 'Bought', properties: { total } }] as const;
    await scene.send(website, bought('dan', 19.99), bought('dan', 0.01));
    await scene.api('POST', 'traits', {
      name: 'Total Spent',
      definition: "event('Bought').sum(property('total'))",
      destinations: ['marketing'],
    });
    await scene.marketing.until(() => toldOf(scene, ['dan'], 'total_spent')[0]!.length === 1);
    await scene.send(website, bought('dan', 5));
    await scene.marketing.until(() => toldOf(scene, ['dan'], 'total_spent')[0]!.length === 2);
    expect(toldOf(scene, ['dan'], 'total_spent')).toEqual([[20, 25]]);
  });

  it('"The two keys of an alias are written with a space." "anonymous actions, `alias`…, `identify`, actions under the known id"', async () => {
    await scene.send(
      website,
      ['track', { anonymousId: 'eve-device', event: 'Viewed' }],
      ['alias', { previousId: 'eve-device', userId: 'eve' }],
      ['identify', { userId: 'eve', traits: { name: 'Eve' } }],
      ['track', { userId: 'eve', event: 'Viewed' }],
    );
    const aliasOf = (body: Body) => body['type'] === 'alias' && body['User ID'] === 'eve';
    await scene.crm.until(() => bodiesAt(scene.crm).some(aliasOf));
    const alias = bodiesAt(scene.crm).find(aliasOf)!;
    expect(alias).toMatchObject({ version: 1, 'Previous ID': 'eve-device' });
    expect(alias).not.toHaveProperty('userId');
    expect(await scene.api('GET', 'profiles/eve')).toMatchObject({
      userId: 'eve',
      anonymousIds: ['eve-device'],
      traits: { name: 'Eve' },
    });
    expect(await scene.api('GET', 'profiles?anonymousId=eve-device')).toMatchObject({ userId: 'eve' });
  });

  it('"after a merge that is the id that won. The former id hears `false` for each membership that it was told `true`."', async () => {
    await scene.send(website, ['identify', { userId: 'fay-before', traits: { plan: 'pro' } }]);
    await scene.marketing.until(() => toldOf(scene, ['fay-before'], 'pro_plan_since_2020')[0]!.length === 1);
    await scene.send(website, ['alias', { previousId: 'fay-before', userId: 'fay' }]);
    const users = ['fay-before', 'fay'];
    await scene.marketing.until(() => toldOf(scene, users, 'pro_plan_since_2020').flat().length === 3);
    expect(toldOf(scene, users, 'pro_plan_since_2020')).toEqual([[true, false], [true]]);
  });

  it('"One delete notification goes out for each userId and each affected source"', async () => {
    const app = await scene.client('wk_app');
    await scene.send(website, ['identify', { userId: 'gil', traits: { plan: 'pro' } }]);
    await scene.send(app, ['track', { userId: 'gil', event: 'Viewed' }]);
    await scene.marketing.until(() => toldOf(scene, ['gil'], 'pro_plan_since_2020')[0]!.length === 1);
    const { id } = await scene.api('POST', 'regulations', { type: 'DELETE_ONLY', subjectIds: ['gil'] });
    await scene.untilAnswered(`regulations/${id}`, { overallStatus: 'FINISHED' });
    const deletion = expect.stringMatching(/^\{"type":"delete","userId":"gil","timestamp":"[^"]+"\}$/);
    expect(deletionsAt(scene.crm)).toEqual([deletion, deletion]);
    expectSigned(scene.crm);
    // It was told of the user by the source `audiences`. Who is deleted leaves no audience: the notification is what receivers hear.
    expect(deletionsAt(scene.marketing)).toEqual([deletion]);
    expect(toldOf(scene, ['gil'], 'pro_plan_since_2020')).toEqual([[true]]);
  });

  it('"Calls of a suppressed user are not accepted, from the answer to the regulation on, for all sources."', async () => {
    await scene.api('POST', 'regulations', { type: 'SUPPRESS_ONLY', subjectIds: ['hal'] });
    await scene.send(
      website,
      ['track', { userId: 'hal', event: 'Viewed' }],
      ['alias', { previousId: 'hal', userId: 'ivy' }],
      ['track', { userId: 'ivy', event: 'Viewed' }],
    );
    const ofUser = (userId: string) => bodiesAt(scene.crm).filter((body) => body['userId'] === userId);
    await scene.crm.until(() => ofUser('ivy').length === 1);
    expect(ofUser('hal')).toEqual([]);
    expect(bodiesAt(scene.crm).filter((body) => body['Previous ID'] === 'hal')).toEqual([]);
    const { sources } = (await scene.api('GET', 'ledger')) as { sources: Record<string, Body> };
    expect(sources['website']).toMatchObject({ discarded: { suppressed: 2 } });
  });
});
