import { createHmac } from 'node:crypto';
import { expect } from 'vitest';
import { makePlace, type Place, type Program, startProgram } from '../../../server/test/support/program.ts';
import { freePort, startReceiver, type TestReceiver } from '../../../server/test/support/receiver.ts';
import { until } from '../../../server/test/support/until.ts';
import { type Driver, type Library, startDriver } from '../library.ts';

const SECRET = 's3cret-of-the-tests';
const TOKEN = 't0ken';

export type Body = Record<string, unknown>;

/** A call as a client makes it. */
export type Call = readonly [type: string, fields: Body];

/**
 * A server with receivers on real sockets. `crm` gets the calls of the sources `website` (key `wk`), `app`
 * (`wk_app`) and `unseen`; `archive` those of `website` in the canonical format, and only tracks; `marketing`
 * nothing but audiences and computed traits; `off` is disabled and is all that `quiet` (`wk_quiet`) feeds.
 * `strict` (`wk_strict`) feeds no one.
 */
export class Scene {
  readonly crm: TestReceiver;
  readonly archive: TestReceiver;
  readonly marketing: TestReceiver;
  readonly place: Place;
  readonly #port: number;
  readonly #library: Library;
  readonly #clients: Driver[] = [];
  #program: Program | undefined;
  #calls = 0;
  #sentinels = 0;

  private constructor(
    library: Library,
    parts: { crm: TestReceiver; archive: TestReceiver; marketing: TestReceiver; place: Place; port: number },
  ) {
    this.#library = library;
    this.crm = parts.crm;
    this.archive = parts.archive;
    this.marketing = parts.marketing;
    this.place = parts.place;
    this.#port = parts.port;
  }

  /** `more` goes into the configuration file. `crmAnswers`: the status that `crm` answers a body with. */
  static async open(
    library: Library,
    { more = {}, crmAnswers = () => 200 }: { more?: Body; crmAnswers?: (body: string) => number } = {},
  ): Promise<Scene> {
    const crm = await startReceiver({
      answer: (response, { body }) => response.writeHead(crmAnswers(body.toString())).end(`I got ${body}`),
    });
    const [archive, marketing] = [await startReceiver(), await startReceiver()];
    const destination = (name: string, { url }: TestReceiver, sources: string[], settings: Body = {}) => ({
      ...{ name, type: 'webhooks', sources },
      settings: { endpoints: [{ url }], sharedSecret: SECRET, ...settings },
    });
    const source = (name: string, writeKey: string, rest: Body = {}) => ({
      name,
      writeKeys: [writeKey],
      ...rest,
    });
    const place = makePlace(
      JSON.stringify({
        admin: { token: TOKEN },
        egress: { allow: ['127.0.0.0/8'] },
        sources: [
          source('website', 'wk', { trust: 'server' }),
          source('app', 'wk_app'),
          source('unseen', 'wk_unseen'),
          source('quiet', 'wk_quiet'),
          source('strict', 'wk_strict', { mode: 'strict' }),
        ],
        destinations: [
          destination('crm', crm, ['website', 'app', 'unseen']),
          destination('archive', archive, ['website'], { format: 'canonical', filter: { types: ['track'] } }),
          destination('marketing', marketing, []),
          { ...destination('off', archive, ['quiet']), enabled: false },
        ],
        audiences: [{ name: 'Sentinels', definition: "event('Sentinel')", destinations: ['marketing'] }],
        ...more,
      }),
    );
    const scene = new Scene(library, { crm, archive, marketing, place, port: await freePort() });
    await scene.start();
    return scene;
  }

  async start(): Promise<void> {
    const where = ['--config', this.place.config, '--data', this.place.data, '--host', '127.0.0.1'];
    this.#program = await startProgram({ args: ['start', ...where, '--port', String(this.#port)] });
  }

  /** SIGKILL: no goodbye. */
  async kill(): Promise<void> {
    await this.#program?.kill();
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async client(writeKey: string): Promise<Driver> {
    const client = await startDriver(this.#library, { writeKey, endpoint: this.url });
    expect(client.ready, client.log()).toMatchObject({ ready: true });
    this.#clients.push(client);
    return client;
  }

  /**
   * Makes these calls, and resolves when the server has answered them. A call without a messageId gets a new
   * one.
   */
  async send(client: Driver, ...calls: readonly Call[]): Promise<void> {
    for (const [type, fields] of calls) {
      const messageId = `${this.#library.name}-${++this.#calls}`;
      expect(await client.call(type, { messageId, ...fields })).toMatchObject({ ok: true });
    }
    expect(await client.flush()).toMatchObject({ ok: true });
  }

  /** Resolves when everything that earlier calls have changed was told: a user who came later is heard of. */
  async settle(client: Driver): Promise<void> {
    const userId = `sentinel-${++this.#sentinels}`;
    await this.send(client, ['track', { userId, event: 'Sentinel' }]);
    await this.untilTold('sentinels', [userId, true]);
  }

  /** Asks the control API; resolves to the status and the body of any answer. */
  async ask(method: string, path: string, body?: Body): Promise<{ status: number; answer: Body }> {
    const response = await fetch(`${this.url}/api/v1/${path}`, {
      method,
      headers: { authorization: `Bearer ${TOKEN}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, answer: text === '' ? {} : (JSON.parse(text) as Body) };
  }

  /** As `ask`, of a request that has to be granted. */
  async api(method: string, path: string, body?: Body): Promise<Body> {
    const { status, answer } = await this.ask(method, path, body);
    expect(status, JSON.stringify(answer)).toBeLessThan(300);
    return answer;
  }

  /** Asks again until the answer is as wanted: profiles and receipts have no signal. */
  async untilShown(path: string, isWanted: (answer: Body) => boolean): Promise<Body> {
    return until(`${path} is as wanted`, async () => {
      const { status, answer } = await this.ask('GET', path);
      return status === 200 && isWanted(answer) && answer;
    });
  }

  /** Makes an audience (`list` is `audiences`) or a computed trait (`traits`); resolves when it is live. */
  async define(
    list: 'audiences' | 'traits',
    name: string,
    definition: string,
    more: Body = {},
  ): Promise<void> {
    await this.api('POST', list, { name, definition, destinations: ['marketing'], ...more });
    await this.untilShown(`${list}/${encodeURIComponent(name)}`, ({ state }) => state === 'live');
  }

  /** Resolves when `marketing` was told last this of each user. */
  async untilTold(
    key: string,
    ...told: readonly (readonly [userId: string, value: unknown])[]
  ): Promise<void> {
    const isTold = ([userId, value]: readonly [string, unknown]) =>
      JSON.stringify(this.told(key, userId)[0]!.at(-1)) === JSON.stringify(value);
    await this.marketing.until(() => told.every(isTold));
  }

  /**
   * The first of these audiences that the user has entered: a slow machine sees an event too late for a short
   * window.
   */
  async entered(client: Driver, userId: string, ...keys: readonly string[]): Promise<string | undefined> {
    await this.settle(client);
    return keys.find((key) => this.told(key, userId)[0]!.includes(true));
  }

  /**
   * The values of this trait that `marketing` was told of each of these users, in the order in which it was
   * told.
   */
  told(key: string, ...userIds: readonly string[]): unknown[][] {
    const bodies = bodiesAt(this.marketing);
    return userIds.map((userId) =>
      bodies.flatMap((body) => {
        const traits = (body['traits'] ?? {}) as Body;
        return (body['userId'] ?? body['anonymousId']) === userId && Object.hasOwn(traits, key)
          ? [traits[key]]
          : [];
      }),
    );
  }

  async regulate(type: string, ...subjectIds: readonly string[]): Promise<string> {
    const { id } = await this.api('POST', 'regulations', { type, subjectIds });
    return String(id);
  }

  /** The receipt of a regulation that has ended. */
  receipt(id: string): Promise<Body> {
    return this.untilShown(`regulations/${id}`, ({ finishedAt }) => finishedAt !== undefined);
  }

  /** How many calls of a source were discarded for a reason. */
  async discarded(source: string, reason: string): Promise<number> {
    const { sources } = (await this.api('GET', 'ledger')) as { sources: Record<string, Body> };
    return ((sources[source]?.['discarded'] ?? {}) as Record<string, number>)[reason] ?? 0;
  }

  async close(): Promise<void> {
    for (const client of this.#clients) {
      expect(await client.close()).toMatchObject({ ok: true });
      expect(await client.end()).toBe(0);
    }
    await this.#program?.stop();
    for (const receiver of [this.crm, this.archive, this.marketing]) await receiver.stop();
    this.place.remove();
  }
}

export function bodiesAt({ arrivals }: TestReceiver): Body[] {
  return arrivals.map(({ body }) => JSON.parse(body.toString()) as Body);
}

export function expectSigned({ arrivals }: TestReceiver): void {
  for (const { headers, body } of arrivals)
    expect(headers['x-signature']).toBe(createHmac('sha1', SECRET).update(body).digest('hex'));
}

/** The delete notifications of a user that a receiver got, as they came. */
export function deletionsAt({ arrivals }: TestReceiver, userId: string): string[] {
  return arrivals
    .map(({ body }) => body.toString())
    .filter((body) => body.includes('"type":"delete"') && body.includes(JSON.stringify(userId)));
}

/** The only form of a delete notification. */
export function deletionOf(userId: string): RegExp {
  return new RegExp(String.raw`^\{"type":"delete","userId":"${userId}","timestamp":"[^"]+"\}$`);
}
