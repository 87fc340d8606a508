import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runVerb } from '../../../cli/test/program.ts';
import { Client } from '../../../clients/typescript/src/index.ts';
import {
  adminTokenOf,
  makePlace,
  oneDestination,
  type Place,
  type Program,
  startServer,
} from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';

interface Shown {
  readonly userId?: string;
  readonly anonymousIds: readonly string[];
  readonly merges: readonly { readonly rule: string; readonly messageId: string }[];
  readonly [field: string]: unknown;
}

/** Sentences of spec/specification.md, "Identities", with the real program and our client library. */
describe('profiles of the real program', () => {
  let receiver: TestReceiver;
  let place: Place;
  let program: Program;

  beforeAll(async () => {
    receiver = await startReceiver();
    const identities = 'identities: { externalIds: [email] }';
    const config = oneDestination([receiver.url]).replace(
      'writeKeys: [wk]',
      'writeKeys: [wk]\n    trust: server',
    );
    place = makePlace(`${config}\nprofiles: auto\n${identities}\n`);
    program = await startServer(place);
  });

  afterAll(async () => {
    expect(await program.stop()).toBe(0);
    await receiver.stop();
    place.remove();
  });

  /** Sends calls in this order; they are stored when it resolves. */
  async function send(calls: (client: Client) => void): Promise<void> {
    const client = new Client('wk', { endpoint: program.url });
    calls(client);
    expect(await client.close()).toMatchObject({ failed: 0 });
  }

  function ask(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = { authorization: `Bearer ${adminTokenOf(place)}` };
    return fetch(`${program.url}/api/v1/${path}`, { headers, ...init });
  }

  /** The profile, once it meets the condition: profiles follow the log without a signal. */
  async function profile(path: string, isThere: (shown: Shown) => boolean = () => true): Promise<Shown> {
    return until(`the profile ${path} is as wanted`, async () => {
      const answer = await ask(`profiles${path}`);
      const shown = (await answer.json()) as Shown;
      return answer.status === 200 && isThere(shown) && shown;
    });
  }

  it('"anonymous actions, then Alias, then Identify, then actions" is one profile that holds all of it', async () => {
    await send((client) => {
      client.page({ anonymousId: 'before-ann', name: 'Home' });
      client.track({ anonymousId: 'before-ann', event: 'Opened' });
      client.alias({ previousId: 'before-ann', userId: 'ann', messageId: 'the-alias' });
      client.identify({ userId: 'ann', traits: { plan: 'pro', email: 'ann@example.com' } });
      client.group({ userId: 'ann', groupId: 'acme' });
      client.track({ userId: 'ann', event: 'Order Placed' });
    });
    const shown = await profile('/ann', ({ groups }) => (groups as unknown[]).length > 0);
    expect(shown).toMatchObject({
      userId: 'ann',
      anonymousIds: ['before-ann'],
      externalIds: { email: ['ann@example.com'] },
      traits: { plan: 'pro', email: 'ann@example.com' },
      groups: ['acme'],
      sources: ['website'],
      merges: [{ rule: 'alias', messageId: 'the-alias' }],
    });
    expect(await profile('?anonymousId=before-ann')).toEqual(shown);
  });

  it('neighbours of a number that no double holds stay two people by it', async () => {
    for (const [anonymousId, number] of [
      ['even', '9007199254740992'],
      ['odd', '9007199254740993'],
      ['odd-too', '9007199254740993'],
    ]) {
      const body = `{"writeKey":"wk","anonymousId":"${anonymousId}","traits":{"email":${number}}}`;
      expect((await fetch(`${program.url}/v1/identify`, { method: 'POST', body })).status).toBe(200);
    }
    const odd = await profile('?anonymousId=odd', ({ anonymousIds }) => anonymousIds.length === 2);
    expect(odd).toMatchObject({
      anonymousIds: ['odd', 'odd-too'],
      externalIds: { email: ['9007199254740993'] },
    });
    const even = await profile('?anonymousId=even');
    expect(even).toMatchObject({ anonymousIds: ['even'], externalIds: { email: ['9007199254740992'] } });
  });

  it('"Traits come out the same whichever event arrives first"', async () => {
    // Minutes apart: where a request takes a second or more, the server takes the delay for a wrong clock and
    // moves its times by it.
    const at = (minute: number) => new Date(Date.UTC(2026, 0, 1, 0, minute));
    const orders = permutations([0, 1, 2, 3]);
    await send((client) => {
      for (const [nth, order] of orders.entries()) {
        const userId = `user-${nth}`;
        const anonymousId = `device-${nth}`;
        const calls = [
          () => client.identify({ anonymousId, traits: { plan: 'free', seen: 1 }, timestamp: at(1) }),
          () => client.alias({ previousId: anonymousId, userId, timestamp: at(2) }),
          () => client.identify({ userId, traits: { plan: 'pro' }, timestamp: at(3) }),
          () => client.identify({ userId, anonymousId, traits: { seats: 4, seen: 2 }, timestamp: at(4) }),
        ];
        for (const call of order) calls[call]!();
      }
    });
    for (const nth of orders.keys()) {
      // Each of the four calls shows in one of these.
      const isWhole = ({ traits, firstSeenAt }: Shown) => {
        const { plan, seats } = traits as Record<string, unknown>;
        return plan === 'pro' && seats === 4 && String(firstSeenAt).startsWith('2026-01-01T00:01');
      };
      const shown = await profile(`/user-${nth}`, isWhole);
      expect({ nth, traits: shown['traits'], anonymousIds: shown.anonymousIds }).toEqual({
        nth,
        traits: { plan: 'pro', seats: 4, seen: 2 },
        anonymousIds: [`device-${nth}`],
      });
    }
  });

  it('"identify and track never join two different userIds. Only an alias does: the new id wins"', async () => {
    await send((client) => {
      client.identify({ userId: 'old', anonymousId: 'tablet', traits: { a: 1 } });
      client.identify({ userId: 'other', anonymousId: 'tablet', traits: { b: 2 } });
      client.alias({ previousId: 'old', userId: 'new' });
      client.track({ userId: 'old', event: 'Late' });
      client.identify({ userId: 'new', traits: { c: 3 } });
    });
    const shown = await profile('/new', ({ traits }) => 'c' in (traits as object));
    expect(shown).toMatchObject({
      userId: 'new',
      formerUserIds: ['old'],
      anonymousIds: ['tablet'],
      traits: { a: 1, c: 3 },
    });
    expect(await profile('/old')).toEqual(shown);
    expect(await profile('/other')).toMatchObject({ userId: 'other', anonymousIds: [], traits: { b: 2 } });
  });

  it('a search by userId follows former and anonymous ids, and leaves out who shares a device', async () => {
    const idsOf = async (path: string) => {
      const { data } = (await (await ask(path)).json()) as { data: { event: Record<string, string> }[] };
      return data.map(({ event }) => event['event'] ?? event['type']);
    };
    expect(await idsOf('events?userId=ann')).toEqual([
      ...['Order Placed', 'group', 'identify', 'alias', 'Opened', 'page'],
    ]);
    expect(await idsOf('events?userId=new&limit=500')).toEqual(['identify', 'Late', 'alias', 'identify']);
    expect(await idsOf('events?userId=other')).toEqual(['identify']);
    const owed = (await (await ask('deliveries?userId=ann&type=page')).json()) as { data: unknown[] };
    expect(owed.data).toHaveLength(1);
  });

  it('profiles outlive a crash, and a rebuild makes the same ones of the stored events', async () => {
    const before = await profile('/ann');
    await program.kill();
    program = await startServer(place);
    expect(await profile('/ann')).toEqual(before);
    const dryRun = await ask('profiles/rebuild', { method: 'POST', body: '{"dryRun":true}' });
    expect(await dryRun.json()).toMatchObject({ profiles: expect.any(Number), events: expect.any(Number) });
    const rebuilt = await ask('profiles/rebuild', { method: 'POST', body: '{"confirm":true}' });
    expect(rebuilt.status).toBe(200);
    expect(await profile('/ann', ({ groups }) => (groups as unknown[]).length > 0)).toEqual(before);
  });

  it('a wrong merge is taken apart for good: a dry run says what comes of it, and a restart and a rebuild keep it', async () => {
    await send((client) => {
      client.identify({ userId: 'wrong-ann', traits: { name: 'Ann' } });
      client.identify({ userId: 'wrong-bob', traits: { name: 'Bob' } });
      client.alias({ userId: 'wrong-bob', previousId: 'wrong-ann', messageId: 'the-wrong-alias' });
    });
    await profile('/wrong-bob', ({ formerUserIds }) => (formerUserIds as unknown[]).length > 0);
    const control = ['--url', program.url, '--token', adminTokenOf(place)];
    const split = ['profiles', 'split', 'wrong-bob', 'wrong-ann'];
    const dryRun = await runVerb([...split, '--dry-run', ...control]);
    expect(dryRun).toMatchObject({ code: 0, err: '' });
    expect(dryRun.out).toBe(
      'wrong-ann: 1 stored event\nwrong-bob: 2 stored events\nNo destination hears anything.\n',
    );
    expect(await profile('/wrong-ann')).toMatchObject({ userId: 'wrong-bob' });
    const done = await runVerb([...split, '--yes', '--json', ...control]);
    const { id } = JSON.parse(done.out) as { id: string };
    const areTwo = async () => {
      const apart = ({ formerUserIds }: Shown) => (formerUserIds as unknown[]).length === 0;
      expect(await profile('/wrong-ann', apart)).toMatchObject({ traits: { name: 'Ann' } });
      expect(await profile('/wrong-bob', apart)).toMatchObject({
        traits: { name: 'Bob' },
        refusedMerges: { samples: [{ reason: 'split', messageId: 'the-wrong-alias', source: 'website' }] },
      });
    };
    await areTwo();
    await program.kill();
    program = await startServer(place);
    await areTwo();
    expect((await ask('profiles/rebuild', { method: 'POST', body: '{"confirm":true}' })).status).toBe(200);
    await areTwo();
    expect(await (await ask('splits')).json()).toMatchObject({ data: [{ id, by: 'admin' }] });
    const trail = (await (await ask('audit?kind=split')).json()) as { data: object[] };
    expect(trail.data).toEqual([
      { at: expect.any(String), by: 'admin', action: 'created', kind: 'split', name: id, after: { id } },
    ]);
    expect((await ask(`splits/${id}`, { method: 'DELETE' })).status).toBe(200);
    await send((client) => client.alias({ userId: 'wrong-bob', previousId: 'wrong-ann' }));
    await profile('/wrong-bob', ({ formerUserIds }) => (formerUserIds as unknown[]).length > 0);
  });

  it('the command line shows a profile, and says what to do about one that is not there', async () => {
    const control = ['--url', program.url, '--token', adminTokenOf(place)];
    const shown = await runVerb(['profile', 'ann', ...control]);
    expect(shown).toMatchObject({ code: 0, err: '' });
    expect(shown.out).toContain('anonymous ids   before-ann');
    expect(shown.out).toMatch(/merged {10}alias of anonymous before-ann at \S+, event the-alias/);
    const json = await runVerb(['profile', '--anonymous-id', 'before-ann', '--json', ...control]);
    expect(JSON.parse(json.out)).toMatchObject({ userId: 'ann' });
    const missing = await runVerb(['profile', 'nobody', ...control]);
    expect(missing).toMatchObject({ code: 1, out: '' });
    expect(missing.err).toContain('No profile has the userId "nobody"');
    const rebuild = await runVerb(['profiles', 'rebuild', '--dry-run', ...control]);
    expect(rebuild.out).toMatch(/profiles are made anew of \d+ stored events/);
  });
});

function permutations(items: readonly number[]): number[][] {
  if (items.length === 0) return [[]];
  return items.flatMap((first) =>
    permutations(items.filter((item) => item !== first)).map((rest) => [first, ...rest]),
  );
}
