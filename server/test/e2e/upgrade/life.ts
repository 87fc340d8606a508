import { expect } from 'vitest';
import { send } from '../../support/calls.ts';
import type { ControlApi } from '../../support/control-api.ts';
import type { TestReceiver } from '../../support/receiver.ts';
import { until } from '../../support/until.ts';

/** The life of an installation of an earlier version, over its HTTP interfaces alone, and its own reports. */

export const ADMIN_TOKEN = 'admin-token-of-the-upgrade';
/** The proxy of the test, which leads to its receiver, so that the stored URLs stay as they are. */
export const PROXY = 'UPGRADE_PROXY';

/**
 * The configuration, in the words of the earlier version. Events stay longer than the fixture, whose age is
 * that of its commit.
 */
export const CONFIG = `
admin: { token: ${ADMIN_TOKEN} }
egress: { allow: [127.0.0.0/8], proxy: "\${${PROXY}}" }
profiles: on
identities: { externalIds: [email] }
retention: { events: 36500d, deadLetters: 36500d }
sources:
  - { name: website, writeKeys: [wk_web], ip: direct }
  - { name: backend, writeKeys: [wk_srv], ip: direct, dedupeWindow: 1h }
destinations:
  - name: crm
    type: webhooks
    sources: [website, backend]
    settings:
      endpoints: [{ url: 'http://127.0.0.1:9/crm', headers: { X-Team: growth } }]
      sharedSecret: s3cret-of-the-upgrade
  - name: warehouse
    type: webhooks
    sources: [website, backend]
    settings: { endpoints: [{ url: 'http://127.0.0.1:9/warehouse' }], format: canonical }
  - name: former-crm
    type: webhooks
    sources: [backend]
    enabled: false
    settings: { endpoints: [{ url: 'http://127.0.0.1:9/former' }] }
audiences:
  - name: Buyers
    definition: event('Order Completed').count() >= 1
    includeAnonymous: true
    destinations: [crm, warehouse, former-crm]
traits:
  - { name: Total Spent, definition: event('Order Completed').sum(property('total')), destinations: [crm] }
alerts:
  - name: on-call
    type: webhook
    settings: { url: 'http://127.0.0.1:9/alerts' }
`;

/** Users with a profile at the end, of their own or as a former id of another one. */
const USERS = ['ann', 'bob', 'carl', 'dora', 'erin', 'erin-2', 'fay', 'gil', 'hal', 'iris', 'mark-before'];
export const VISITORS = ['visitor-1', 'visitor-2', 'visitor-3', 'visitor-4', 'visitor-5'];

export class Life {
  readonly #url: () => string;
  readonly #api: ControlApi;
  readonly #receiver: TestReceiver;

  constructor(url: () => string, api: ControlApi, receiver: TestReceiver) {
    [this.#url, this.#api, this.#receiver] = [url, api, receiver];
  }

  /**
   * More than a year ago: visitors, tokens, a deletion that has ended and a suppression. Resolves to the
   * tokens by name.
   */
  async longAgo(): Promise<Readonly<Record<string, string>>> {
    const tokens: Record<string, string> = {};
    for (const [name, role] of Object.entries({ ci: 'editor', prometheus: 'viewer' }))
      tokens[name] = (await this.#ask<{ token: string }>('POST', 'tokens', { name, role })).token;
    for (const anonymousId of VISITORS) await this.#browser('page', { anonymousId, name: 'Home' });
    await this.#browser('track', {
      anonymousId: 'visitor-1',
      event: 'Order Completed',
      properties: { total: 5 },
    });
    await this.#server('track', { userId: 'gone', event: 'Viewed' });
    await this.#knows(['visitor-1']);
    for (const body of [
      { type: 'DELETE_ONLY', subjectIds: ['gone'] },
      { type: 'SUPPRESS_ONLY', subjectIds: ['quiet'] },
    ]) {
      const { id } = await this.#ask<{ id: string }>('POST', 'regulations', body);
      const isOver = ({ overallStatus }: { overallStatus: string }) => overallStatus === 'FINISHED';
      await this.#api.until(`regulations/${id}`, isOver);
    }
    return tokens;
  }

  /**
   * Users that were joined in every way, a delivery that died, a destination that is paused and a deletion
   * that waits for it.
   */
  async lately(): Promise<void> {
    // One device, two users: the rules of before made them one.
    await this.#order('ann', 10);
    await this.#order('bob', 20);
    await this.#server('alias', { previousId: 'd1', userId: 'ann' });
    await this.#server('alias', { previousId: 'd1', userId: 'bob' });
    // The public key of a website joins two users.
    await this.#order('carl', 1);
    await this.#order('dora', 2);
    await this.#browser('alias', { previousId: 'carl', userId: 'dora' });
    // An alias as it should be, from a server and behind the events of both.
    await this.#order('erin', 3);
    await this.#order('erin-2', 4);
    await this.#server('alias', { previousId: 'erin', userId: 'erin-2' });
    // External ids: a visitor becomes the user of the address, and another user of it stays one of their own.
    await this.#server('identify', { userId: 'fay', traits: { email: 'f@example.com', plan: 'pro' } });
    await this.#server('identify', { anonymousId: 'd-fay', traits: { email: 'f@example.com' } });
    await this.#server('identify', { userId: 'gil', traits: { email: 'f@example.com' } });
    // The usual order of a browser: as a visitor, then under the name.
    await this.#browser('track', { anonymousId: 'd-hal', event: 'Viewed' });
    await this.#browser('identify', { anonymousId: 'd-hal', userId: 'hal', traits: { plan: 'free' } });
    // A userId that had no event of its own when the alias came, and has one later.
    await this.#server('alias', { previousId: 'iris-before', userId: 'iris' });
    await this.#order('iris', 7);
    await this.#order('leaver', 8);
    await this.#server('track', { userId: 'hal', event: 'Dies' });
    await this.#knows(['bob', 'dora', 'erin-2', 'iris', 'leaver']);
    await this.#ask('POST', 'destinations/warehouse/pause');
    await this.#server('track', { userId: 'hal', event: 'Waits' });
    await this.#settled();
    await this.#ask('POST', 'regulations', { type: 'SUPPRESS_WITH_DELETE', subjectIds: ['leaver'] });
    await until('crm has heard of the deletion', () =>
      this.#receiver.arrivals.some(({ body }) => body.includes('"leaver"') && body.includes('"delete"')),
    );
    await this.mark('mark-before');
  }

  /**
   * A user of this name becomes a buyer, and crm has heard of it: whatever was to be told of events and users
   * before is on its way by then, as changes wait for the same second.
   */
  async mark(name: string): Promise<void> {
    await this.#order(name, 1);
    await this.#knows([name], ['/crm']);
  }

  /** Signs in at the console; resolves to the headers of the session. */
  async signIn(): Promise<Readonly<Record<string, string>>> {
    const body = JSON.stringify({ token: ADMIN_TOKEN });
    const answer = await fetch(`${this.#url()}/api/v1/session`, { method: 'POST', body });
    expect(answer.ok).toBe(true);
    const { key = '1' } = (await answer.json()) as { key?: string };
    return { cookie: answer.headers.get('set-cookie')!.split(';')[0]!, 'x-millrace-console': key };
  }

  /** Everything that an operator sees and that the start of another version must not change. */
  async told(): Promise<Readonly<Record<string, unknown>>> {
    const told: Record<string, unknown> = {};
    const pages = [
      'sources',
      'destinations',
      'tokens',
      'alerts',
      'suppressions',
      'regulations',
      'audiences',
      'traits',
    ];
    const lists = ['audiences/Buyers/members', 'deliveries?state=dead', 'audit', 'ledger'];
    const users = USERS.map((userId) => `profiles/${userId}`);
    const visitors = [...VISITORS, 'd1', 'd-fay', 'd-hal'].map((id) => `profiles?anonymousId=${id}`);
    for (const path of [...pages, ...lists, ...users, ...visitors])
      told[path] = withoutTries(await this.#api.read<object>(path));
    return told;
  }

  async #ask<Answer = unknown>(method: string, path: string, body?: object): Promise<Answer> {
    const { status, answer } = await this.#api.ask<Answer>(method, path, body);
    expect(status, `${method} ${path}: ${JSON.stringify(answer)}`).toBeLessThan(300);
    return answer;
  }

  #order(userId: string, total: number): Promise<void> {
    return this.#server('track', { userId, event: 'Order Completed', properties: { total } });
  }

  async #server(type: string, call: object): Promise<void> {
    const library = { name: 'analytics-node', version: '2.0.0' };
    const body = { ...call, context: { library } };
    const { status, answer } = await send(this.#url(), `/v1/${type}`, body, { writeKey: 'wk_srv' });
    expect(status, JSON.stringify(answer)).toBe(200);
  }

  async #browser(type: string, call: object): Promise<void> {
    const library = { name: 'analytics.js', version: 'next-1.70.0' };
    const body = { ...call, context: { library } };
    const headers = { origin: 'https://www.example.com' };
    const { status, answer } = await send(this.#url(), `/v1/${type}`, body, { writeKey: 'wk_web', headers });
    expect(status, JSON.stringify(answer)).toBe(200);
  }

  /** Waits until these have heard that these are buyers, and crm what they have spent. */
  async #knows(members: readonly string[], destinations = ['/crm', '/warehouse']): Promise<void> {
    const isTold = (member: string, to: string) =>
      this.#receiver.arrivals.some(
        ({ path, body }) => path === to && body.includes(`"${member}"`) && body.includes('"buyers":true'),
      );
    await until('the members are told', () =>
      members.every((member) => destinations.every((to) => isTold(member, to))),
    );
    const users = members.filter((member) => !VISITORS.includes(member));
    await until('and what they have spent', () =>
      users.every((user) =>
        this.#receiver.arrivals.some(
          ({ body }) => body.includes(`"${user}"`) && body.includes('"total_spent"'),
        ),
      ),
    );
    await this.#settled();
  }

  /** Profiles have every event, and nothing is under way that is not paused. */
  async #settled(): Promise<void> {
    await this.#api.until<Status>('status', isSettled);
  }
}

/**
 * Without the times of tries: they are kept by another clock, and each process tells them again, with
 * PostgreSQL to a few milliseconds.
 */
function withoutTries(answer: object): unknown {
  const isOfTry = (key: string) => ['startedAt', 'diedAt', 'confirmedAt'].includes(key);
  return JSON.parse(JSON.stringify(answer), (key, value: unknown) => (isOfTry(key) ? undefined : value));
}

interface Status {
  readonly profiles: { readonly state: string; readonly behind: number };
  readonly destinations: Readonly<Record<string, { readonly pending: number }>>;
}

function isSettled({ profiles, destinations }: Status): boolean {
  return profiles.state === 'live' && profiles.behind === 0 && destinations['crm']?.pending === 0;
}
