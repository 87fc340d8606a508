import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runVerb } from '../../../cli/test/program.ts';
import { send } from '../support/calls.ts';
import { ControlApi } from '../support/control-api.ts';
import { logOf, type Place, type Program, startServer } from '../support/program.ts';
import { type Arrival, startReceiver, type TestReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';
import { type ConnectProxy, startConnectProxy } from '../webhooks/connect-proxy.ts';
import { openFixture, writeFixture } from './upgrade/fixture.ts';
import { ADMIN_TOKEN, Life, PROXY, VISITORS } from './upgrade/life.ts';

const atLeast = (least: number): unknown => expect.toSatisfy((n: number) => n >= least);

/**
 * A data folder, with PostgreSQL a database too, that the version left which did not know whom a source is.
 * What it has lived through stands in upgrade/life.ts. `MILLRACE_WRITE_UPGRADE=1 npx vitest run --project e2e
 * upgrade` (and `--project e2e-postgres`) makes it anew.
 */
describe('an installation of the version before sources had a trust', () => {
  let receiver: TestReceiver;
  let proxy: ConnectProxy;
  let place: Place;
  let before: ReturnType<typeof openFixture>['before'];
  let program: Program;
  let life: Life;
  const api = new ControlApi(() => ({ url: program.url, token: ADMIN_TOKEN }));

  beforeAll(async () => {
    receiver = await startReceiver({
      answer: (response, { body }) => {
        response.statusCode = body.includes('"Dies"') ? 400 : 200;
        response.end();
      },
    });
    proxy = await startConnectProxy({ to: receiver.port });
    if (process.env['MILLRACE_WRITE_UPGRADE'] === '1') await writeFixture(receiver, proxyUrl());
    ({ place, before } = openFixture());
    life = new Life(() => program.url, api, receiver);
    await start();
  });
  afterAll(async () => {
    await program?.kill();
    await proxy?.stop();
    await receiver?.stop();
    place?.remove();
  });

  const proxyUrl = () => `http://127.0.0.1:${proxy.port}`;

  const start = async () => {
    program = await startServer(place, { env: { [PROXY]: proxyUrl() } });
  };

  const warnings = () => logOf(program.out.stderr).filter(({ level }) => level !== 'info');

  const verb = (...args: string[]) =>
    runVerb([...args, '--url', program.url], {
      MILLRACE_ADMIN_TOKEN: ADMIN_TOKEN,
      [PROXY]: proxyUrl(),
      CRM_SECRET: 's3cret-of-the-upgrade',
    });

  /** Arrivals while `work` is done, and until the next mark has arrived behind it. */
  async function arriving(mark: string, work: () => unknown): Promise<readonly Arrival[]> {
    const from = receiver.arrivals.length;
    await work();
    await life.mark(`mark-${mark}`);
    return receiver.arrivals.slice(from).filter(({ body }) => !body.includes(`"mark-${mark}"`));
  }

  const settings = async () => ({
    sources: await api.read<unknown>('sources'),
    destinations: await api.read<unknown>('destinations'),
  });

  it('starts, tells nobody anything, and shows everything as it was', async () => {
    const first = await arriving('first', async () => expect(await life.told()).toMatchObject(before.told));
    expect(first).toEqual([]);
    // The mark is a user more.
    const stays = Object.entries(before.told).filter(([path]) => !/^(ledger|audiences|traits)/.test(path));
    expect(await life.told()).toMatchObject(Object.fromEntries(stays));
  });

  it('trusts its sources as before, keeps what it kept, and says what a new one would not', async () => {
    const { data } = await api.read<{ data: { name: string; trust: string }[] }>('sources');
    expect(new Set(data.map(({ trust }) => trust))).toEqual(new Set(['server']));
    await until('all profiles have been looked at', () => program.out.stderr.includes('profiles.unbounded'));
    expect(warnings()).toMatchObject([
      { event: 'source.trusted', sources: ['website'] },
      // The fixture grows older.
      { event: 'retention.unbounded', audit: atLeast(13), regulations: atLeast(2) },
      { event: 'profiles.unbounded', profiles: VISITORS.length },
    ]);
  });

  it('lists the users whom it would no longer join, and those too that only the key of a website has joined', async () => {
    const pair = (userId: string, formerUserId: string) => ({ userId, formerUserId });
    const { code, out } = await verb('profiles', 'merges', '--dry-run', '--json');
    expect({ code, ...JSON.parse(out) }).toMatchObject({ code: 1, data: [pair('bob', 'ann')] });
    const patch = (trust: string) => api.ask<object>('PATCH', 'sources/website', { trust });
    expect(await patch('client')).toMatchObject({ status: 200 });
    await api.until<{ data: object[] }>('merges', ({ data }) => data.length === 2);
    const { data } = await api.read<{ data: object[] }>('merges');
    expect(data).toMatchObject([pair('bob', 'ann'), pair('dora', 'carl')]);
    expect(await patch('server')).toMatchObject({ status: 200 });
  });

  it('is well for a doctor, takes the tokens it gave, refuses whom it suppressed, and asks people to sign in once more', async () => {
    const { out } = await verb('doctor', '--json', '--config', place.config, '--data', place.data);
    const { findings } = JSON.parse(out) as { findings: { check: string; verdict: string }[] };
    const failed = findings.filter(({ verdict }) => verdict === 'fail').map(({ check }) => check);
    // The server of PostgreSQL that tests have does not sync.
    expect(failed.filter((check) => check !== 'database')).toEqual([]);
    expect(findings.length).toBeGreaterThan(10);
    const as = (headers: Readonly<Record<string, string>>, path = 'sources') =>
      fetch(`${program.url}/api/v1/${path}`, { headers });
    const { tokens, session } = before;
    for (const token of Object.values(tokens))
      expect((await as({ authorization: `Bearer ${token}` })).status).toBe(200);
    expect((await as({ authorization: `Bearer ${tokens['prometheus']}` }, 'tokens')).status).toBe(403);
    expect((await as(session)).status).toBe(401);
    expect((await as(await life.signIn())).status).toBe(200);
    const quiet = await send(
      program.url,
      '/v1/track',
      { userId: 'quiet', event: 'Speaks' },
      { writeKey: 'wk_srv' },
    );
    expect(quiet.status).toBe(200);
    expect(await api.read('ledger')).toMatchObject({
      sources: { backend: { discarded: { suppressed: 1 } } },
    });
  });

  it('stays as it is when its file is applied or what it exports, and at the next start, which does not warn again', async () => {
    const were = await settings();
    const exported = join(place.folder, 'exported.yaml');
    const { code, err } = await verb('export', '-o', exported);
    expect(code, err).toBe(0);
    for (const file of [place.config, exported]) {
      const { code, out, err } = await verb('apply', '-f', file, '--prune');
      expect(code, out + err).toBe(0);
      expect(await settings()).toEqual(were);
    }
    const heard = await arriving('restarted', async () => {
      expect(await program.stop()).toBe(0);
      await start();
    });
    expect(heard).toEqual([]);
    expect(await settings()).toEqual(were);
    expect(warnings().map(({ event }) => event)).not.toContain('source.trusted');
  });

  it('sends what was owed as soon as the destination may have it, and ends the deletion that waited for that', async () => {
    const heard = await arriving('resumed', async () => {
      expect(await api.ask<object>('POST', 'destinations/warehouse/resume')).toMatchObject({ status: 200 });
      await api.until<{ data: { overallStatus: string }[] }>('regulations', ({ data }) =>
        data.every(({ overallStatus }) => overallStatus === 'FINISHED'),
      );
    });
    const shown = heard.map(({ path, body }) => {
      const { type, userId, event, traits } = JSON.parse(body.toString()) as Record<string, unknown>;
      return [path, type, userId, event ?? traits];
    });
    // Marks of the tests before are owed too.
    const owed = shown.filter(([, , userId]) => !/^mark-(?!before)/.test(String(userId)));
    expect(owed.toSorted()).toEqual([
      // Of each source that had calls of the user.
      ['/warehouse', 'delete', 'leaver', undefined],
      ['/warehouse', 'delete', 'leaver', undefined],
      ['/warehouse', 'identify', 'mark-before', { buyers: true }],
      ['/warehouse', 'track', 'hal', 'Waits'],
      ['/warehouse', 'track', 'mark-before', 'Order Completed'],
    ]);
  });

  it('tells a destination that is enabled who its members are, each once', async () => {
    const { data } = await api.read<{ data: { userId?: string; anonymousId?: string }[] }>(
      'audiences/Buyers/members',
    );
    const ids = data.map(({ userId, anonymousId }) => userId ?? anonymousId);
    const enabled = { enabled: true };
    const heard = await arriving('enabled', async () => {
      expect(await api.ask<object>('PATCH', 'destinations/former-crm', enabled)).toMatchObject({
        status: 200,
      });
    });
    const told = heard.map(({ path, body }) => {
      const { userId, anonymousId, traits } = JSON.parse(body.toString()) as Record<string, unknown>;
      return [path, userId ?? anonymousId, traits];
    });
    const wanted = ids.map((id) => ['/former', id, { buyers: true }]);
    expect(told.toSorted()).toEqual(wanted.toSorted());
  });
});
