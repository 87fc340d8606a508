import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { makePlace, type Place, type Program, startProgram } from '../support/program.ts';
import { freePort, startReceiver, type TestReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';
import type { DescribedOperation, ReceivedResponse } from './document.ts';
import { targetOf } from './document.ts';

/** Parts of a request beside what its operation says. */
export interface RequestPlan {
  /** Values for each `{name}` of the path. */
  readonly names?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
  /** Text goes as it is, anything else as JSON. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent before, and has to be granted. */
  readonly before?: RequestPlan;
  /** Called when the answer is there. */
  readonly after?: () => void;
  /** The address it comes from: one of 127.0.0.0/8. */
  readonly from?: string;
}

export const ADMIN = 'admin-token-of-the-tests';
/** The write key of a source that takes one call a second and has had thousands. */
export const SLOW = 'wk_slow';
/** An address that has sent too many wrong tokens. */
export const GUESSER = '127.0.0.3';

/** The records that are there at the beginning. */
function recordsFor({ receiver, refusing, down }: Pick<Started, 'receiver' | 'refusing' | 'down'>) {
  const destination = (name: string, endpoint: object, more = {}) => ({
    name,
    type: 'webhooks',
    sources: ['website'],
    settings: { endpoints: [endpoint], ...more },
  });
  const headers = { Authorization: 'Bearer 0123456789abcdef' };
  return {
    sources: [
      { name: 'website', writeKeys: ['wk'] },
      { name: 'strict', writeKeys: ['wk_strict'], mode: 'strict' },
      { name: 'slow', writeKeys: [SLOW], rateLimit: 1 },
    ],
    destinations: [
      destination('crm', { url: receiver.url, headers }, { sharedSecret: 's3cret' }),
      destination('refusing', { url: refusing.url }),
      destination('down', { url: `http://127.0.0.1:${down}` }),
    ],
    audiences: [
      { name: 'buyers', definition: "event('Order Placed')", destinations: ['crm'] },
      { name: 'loyal', definition: "audience('buyers') and computed('orders') >= 3" },
    ],
    traits: [{ name: 'orders', definition: "event('Order Placed').count()", destinations: ['crm'] }],
  };
}

/** Headers of a browser that is signed in. */
type SessionHeaders = Readonly<Record<'cookie' | 'x-millrace-console', string>>;

/** The real program with something of everything in it. */
export class World {
  readonly #started: Started;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 4 });
  #viewer = '';
  #session: SessionHeaders | undefined;
  #names = 0;
  #expired: Promise<string> | undefined;
  #limited: Promise<string> | undefined;
  #withoutBodies: Promise<string> | undefined;

  private constructor(started: Started) {
    this.#started = started;
  }

  static async start(): Promise<World> {
    const receiver = await startReceiver();
    const refusing = await startReceiver({ answer: (response) => response.writeHead(410).end() });
    const records = { receiver, refusing, down: await freePort() };
    const server = {
      port: 0,
      host: '127.0.0.1',
      admin: { token: ADMIN },
      egress: { allow: ['127.0.0.0/8'] },
    };
    // JSON is YAML.
    const place = makePlace(JSON.stringify({ ...server, ...recordsFor(records) }));
    const args = ['start', '--config', place.config, '--data', place.data];
    const program = await startProgram({ args });
    const world = new World({ ...records, program, place });
    await world.reset();
    return world;
  }

  /** Brings back the records that the tests count on, whatever has become of them. */
  async reset(): Promise<void> {
    await this.api('PUT', 'config?confirm=true', recordsFor(this.#started));
    const { token } = await this.api<{ token: string }>('POST', 'tokens', {
      name: this.fresh('reader'),
      role: 'viewer',
    });
    this.#viewer = token;
    this.#session = await this.signIn(ADMIN);
  }

  /** The headers of a new session. */
  async signIn(token: string): Promise<SessionHeaders> {
    const path = '/api/v1/session';
    const { status, headers, body } = await this.send({ method: 'POST', path }, { body: { token } });
    const [cookie] = headers['set-cookie'] ?? [];
    if (status !== 201 || cookie === undefined) throw new Error(`the sign-in was answered ${status}`);
    const { key } = JSON.parse(body) as { key: string };
    return { cookie: cookie.slice(0, cookie.indexOf(';')), 'x-millrace-console': key };
  }

  get pid(): number {
    return this.#started.program.pid;
  }

  /** A token with the least role. */
  get viewer(): string {
    return this.#viewer;
  }

  /** The headers of a session of the admin. */
  get session(): SessionHeaders {
    if (this.#session === undefined) throw new Error('nobody has signed in yet');
    return this.#session;
  }

  get receiver(): TestReceiver {
    return this.#started.receiver;
  }

  /** A name that nothing has yet. */
  fresh(what: string): string {
    return `${what}-${this.#names++}`;
  }

  /** A destination of its own, which gets nothing. */
  async destination(): Promise<string> {
    const name = this.fresh('destination');
    const settings = { endpoints: [{ url: this.receiver.url }] };
    await this.api('POST', 'destinations', { name, type: 'webhooks', sources: [], settings });
    return name;
  }

  async source(): Promise<string> {
    const name = this.fresh('source');
    await this.api('POST', 'sources', { name });
    return name;
  }

  async audience(): Promise<string> {
    const name = this.fresh('audience');
    await this.api('POST', 'audiences', { name, definition: "group('g')" });
    return name;
  }

  async trait(): Promise<string> {
    const name = this.fresh('trait');
    await this.api('POST', 'traits', { name, definition: "page('Home').count()" });
    return name;
  }

  async alert(): Promise<string> {
    const name = this.fresh('alert');
    await this.api('POST', 'alerts', { name, type: 'webhook', settings: { url: this.receiver.url } });
    return name;
  }

  async token(): Promise<string> {
    const name = this.fresh('token');
    await this.api('POST', 'tokens', { name, role: 'viewer' });
    return name;
  }

  /** The text of a new token. */
  async tokenOf(role: string, more: object = {}): Promise<string> {
    const wish = { name: this.fresh('token'), role, ...more };
    return (await this.api<{ token: string }>('POST', 'tokens', wish)).token;
  }

  /** A token that is for one source, of which no other request is. */
  limited(): Promise<string> {
    this.#limited ??= this.tokenOf('editor', { sources: ['strict'] });
    return this.#limited;
  }

  /** A token that does not show what events hold. */
  withoutBodies(): Promise<string> {
    this.#withoutBodies ??= this.tokenOf('viewer', { bodies: false });
    return this.#withoutBodies;
  }

  /** A token whose time is over. */
  expired(): Promise<string> {
    this.#expired ??= (async () => {
      const token = await this.tokenOf('admin', { expiresAt: new Date(Date.now() + 500).toISOString() });
      await until('the token has ended', async () => {
        const { status } = await this.send({ method: 'GET', path: '/metrics' }, { headers: bearer(token) });
        return status === 401;
      });
      return token;
    })();
    return this.#expired;
  }

  /** One that does not exist yet, for a backup; resolves when no other backup runs. */
  async folder(): Promise<string> {
    await until('no backup runs', async () => {
      const { data } = await this.api<{ data: { state: string }[] }>('GET', 'backups');
      return data.every(({ state }) => state !== 'running');
    });
    return join(this.#started.place.folder, this.fresh('backup'));
  }

  /** An event that is stored and delivered, and owed to the destination `down`. */
  async event(): Promise<string> {
    const messageId = this.fresh('message');
    const path = '/v1/track';
    const headers = { authorization: basic('wk') };
    const body = { userId: 'u1', event: 'Order Placed', messageId };
    const { status } = await this.send({ method: 'POST', path }, { headers, body });
    if (status !== 200) throw new Error(`the event was answered ${status}`);
    return messageId;
  }

  /** The id of a delivery of a new event. */
  async delivery(): Promise<string> {
    const path = `events/${await this.event()}`;
    return until('the event has a delivery', async () => {
      const { data } = await this.api<{ data: { deliveries: { id: string }[] }[] }>('GET', path);
      return data[0]?.deliveries[0]?.id ?? false;
    });
  }

  /**
   * The userId of a user with a profile, whose first event is older than all stored ones and whose
   * anonymousId is `a-profile`.
   */
  async profile(): Promise<string> {
    const headers = { authorization: basic('wk') };
    const timestamp = '2020-01-01T00:00:00.000Z';
    const body = { userId: 'profiled', anonymousId: 'a-profile', traits: { plan: 'pro' }, timestamp };
    const { status } = await this.send({ method: 'POST', path: '/v1/identify' }, { headers, body });
    if (status !== 200) throw new Error(`the identify was answered ${status}`);
    const shown = { method: 'GET', path: '/api/v1/profiles/profiled' };
    await until('the user has a profile', async () => {
      const { status } = await this.send(shown, { headers: bearer(ADMIN) });
      return status === 200;
    });
    return 'profiled';
  }

  /** So many clients of `tail`; resolves, when they all watch, to what sends them away. */
  async watchers(count: number): Promise<() => void> {
    const ends = Array.from({ length: count }, () => {
      const url = `${this.#started.program.url}/api/v1/tail`;
      const asked = request(url, { agent: false, headers: bearer(ADMIN) });
      asked.end();
      // The connection is cut when they are sent away.
      return once(asked, 'response').then(([response]) => {
        response.on('error', () => {});
        return () => asked.destroy();
      });
    });
    const all = await Promise.all(ends);
    return () => {
      for (const end of all) end();
    };
  }

  /** Answer of the control API to an admin; rejects when it is no success. */
  async api<Answer>(method: string, path: string, body?: unknown): Promise<Answer> {
    const got = await this.send({ method, path: `/api/v1/${path}` }, { headers: bearer(ADMIN), body });
    if (got.status > 299) throw new Error(`${method} ${path} was answered ${got.status}: ${got.body}`);
    return (got.body === '' ? undefined : JSON.parse(got.body)) as Answer;
  }

  async send(
    { method, path }: Pick<DescribedOperation, 'method' | 'path'>,
    plan: RequestPlan,
  ): Promise<ReceivedResponse> {
    if (plan.before !== undefined) {
      const { status, body } = await this.send({ method, path }, plan.before);
      if (status > 299) throw new Error(`the request before it was answered ${status}: ${body}`);
    }
    const target = targetOf({ path }, plan);
    const { body } = plan;
    const text = body === undefined ? '' : typeof body === 'string' ? body : JSON.stringify(body);
    const got = await this.raw({ method, target, text }, plan);
    plan.after?.();
    return got;
  }

  raw(
    { method, target, text }: { readonly method: string; readonly target: string; readonly text: string },
    { headers = {}, from }: Pick<RequestPlan, 'headers' | 'from'>,
  ): Promise<ReceivedResponse> {
    const length = text === '' ? {} : { 'content-length': Buffer.byteLength(text) };
    return new Promise((resolve, reject) => {
      const asked = request(`${this.#started.program.url}${target}`, {
        method,
        headers: { ...headers, ...length },
        ...(from === undefined ? { agent: this.#agent } : { agent: false, localAddress: from }),
      });
      asked.once('error', reject);
      asked.once('response', (response) => {
        const { statusCode: status = 0, headers: said } = response;
        if (said['content-type']?.startsWith('text/event-stream')) {
          // It goes on until somebody ends it.
          asked.destroy();
          resolve({ status, headers: said, body: '' });
          return;
        }
        const parts: Buffer[] = [];
        response.on('data', (part: Buffer) => parts.push(part));
        response.once('end', () => resolve({ status, headers: said, body: Buffer.concat(parts).toString() }));
        response.once('error', reject);
      });
      asked.end(text);
    });
  }

  async stop(): Promise<void> {
    this.#agent.destroy();
    const { program, receiver, refusing, place } = this.#started;
    await program.stop();
    await Promise.all([receiver.stop(), refusing.stop()]);
    place.remove();
  }
}

interface Started {
  readonly program: Program;
  readonly receiver: TestReceiver;
  readonly refusing: TestReceiver;
  readonly place: Place;
  /** A port that nothing listens on. */
  readonly down: number;
}

export const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
export const basic = (writeKey: string) => `Basic ${Buffer.from(`${writeKey}:`).toString('base64')}`;
