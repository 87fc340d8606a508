import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { quoted } from '../../../clients/e2e/sentences/quoted.ts';
import type { Json, JsonObject } from '../../src/model/json.ts';
import { send, track } from '../support/calls.ts';
import { ControlApi } from '../support/control-api.ts';
import { adminTokenOf, makePlace, type Place, type Program, ROOT, startServer } from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';

interface Cases {
  readonly cases: readonly {
    readonly id: string;
    readonly name: string;
    readonly computation: { readonly class: 'audience' | 'trait' };
    readonly delivery: JsonObject;
    readonly profile: { readonly emails?: readonly string[] };
    readonly change: Json;
    readonly expect: readonly JsonObject[];
  }[];
}

const FIXTURE = join(ROOT, 'spec/fixtures/computations/engage.json');
const { cases: written } = JSON.parse(readFileSync(FIXTURE, 'utf8')) as Cases;
// The users of all cases live beside each other, and an address is the id of one of them.
const cases = written.map(
  (one) => JSON.parse(JSON.stringify(one).replaceAll('@x.example', `@${one.id}.example`)) as typeof one,
);

let [receiver, place, program]: [TestReceiver?, Place?, Program?] = [];
const control = new ControlApi(() => ({ url: program!.url, token: adminTokenOf(place!) }));

/** A destination for each case, and one that asks for nothing. */
const yaml = (url: string) => `
egress: { allow: [127.0.0.0/8] }
identities: { externalIds: [email] }
sources:
  - { name: website, writeKeys: [wk], trust: server }
destinations:
${[...cases, { id: 'usual', delivery: undefined }]
  .map(({ id, delivery }) => {
    const computations = delivery && { computations: { ...delivery, space: 'spa_demo1' } };
    const settings = { endpoints: [{ url: `${url}/${id}` }], format: 'segment', ...computations };
    return `  - { name: ${id}, type: webhooks, sources: [], settings: ${JSON.stringify(settings)} }`;
  })
  .join('\n')}
audiences:
  - { name: Frequent Flyers, definition: "trait('flyer') = true", destinations: [${cases.map(({ id }) => id)}, usual] }
traits:
  - { name: Miles 90d, definition: "event('Flown').sum(property('miles'))", destinations: [${cases.map(({ id }) => id)}, usual] }
`;

beforeAll(async () => {
  receiver = await startReceiver();
  place = makePlace(yaml(receiver.url));
  program = await startServer(place);
});

afterAll(async () => {
  await program?.kill();
  await receiver?.stop();
  place?.remove();
});

let calls = 0;

async function identify(userId: string, traits: JsonObject): Promise<void> {
  const call = { userId, traits, messageId: `call-${++calls}` };
  expect((await send(program!.url, '/v1/identify', call)).status).toBe(200);
}

interface Told {
  readonly event: JsonObject & { readonly context: { readonly personas: JsonObject } };
  readonly messageId: string;
  readonly sequence: number;
}

/** The events that a destination was told of a user in one class, in order, without what no case lists. */
function told(path: string, userId: string, kind: string): Told[] {
  const bodies = receiver!.arrivals
    .filter((one) => one.path === `/${path}`)
    .map(({ body }) => JSON.parse(String(body)) as JsonObject & { context: { personas: JsonObject } });
  return bodies
    .filter((one) => one['userId'] === userId && one.context.personas['computation_class'] === kind)
    .map(({ type, event, userId, traits, properties, context, messageId }): Told => {
      const { sequence, ...personas } = context.personas;
      const listed = { type, event, userId, traits, properties, context: { ...context, personas } };
      return {
        event: JSON.parse(JSON.stringify(listed)) as Told['event'],
        messageId: messageId as string,
        sequence: sequence as number,
      };
    });
}

async function toldAtLeast(count: number, ...of: Parameters<typeof told>): Promise<Told[]> {
  await receiver!.until(() => told(...of).length >= count);
  return told(...of);
}

const inForm = quoted(
  'A destination may ask for another form (`computations`): `as: track` makes the change a `track`, and `both` makes one of each.',
  'It is `Audience Entered` or `Audience Exited` with `properties` of `audience_key` and of the key with `true` or `false`, or `Trait Computed` with `trait_key` and of the key with the value; each name can be another.',
  'With `space`, `context.personas` has it as `namespace` and `space_id`.',
  'With `email`, there is an event for each e-mail address of the user, in `traits` of an identify and in `context.traits` of a track, and one without where there is no address.',
);

describe(inForm, () => {
  it.each(cases)('$id: $name', async ({ id, computation, profile, change, expect: expected, delivery }) => {
    const userId = `user-${id}`;
    const { emails = [] } = profile;
    for (const email of emails) await identify(userId, { email });
    if (computation.class === 'trait')
      await send(
        program!.url,
        '/v1/track',
        track(`flown-${id}`, { userId, event: 'Flown', properties: { miles: 1250.5 } }),
      );
    else await identify(userId, { flyer: true });
    const each = delivery['as'] === 'both' ? 2 : 1;
    const first = Math.max(1, emails.length) * each;
    let news = await toldAtLeast(first, id, userId, computation.class);
    if (change === false) {
      await identify(userId, { flyer: false });
      news = (await toldAtLeast(first + expected.length, id, userId, computation.class)).slice(first);
    }
    const ids = new Map(
      [...news.map(({ event }) => event.context.personas)].map((one) => [one['computation_class'], one]),
    );
    const actual = ids.get(computation.class)!['computation_id']!;
    const wanted = expected.map((event) => ({
      ...event,
      userId,
      context: {
        ...(event['context'] as JsonObject),
        personas: { ...((event['context'] as JsonObject)['personas'] as JsonObject), computation_id: actual },
      },
    }));
    // Two events of one change may arrive in any order.
    const sorted = (events: readonly object[]) => events.map((one) => JSON.stringify(sortedKeys(one))).sort();
    expect(sorted(news.map(({ event }) => event))).toEqual(sorted(wanted));
    expect(new Set(news.map(({ messageId }) => messageId)).size).toBe(news.length);
    expect(new Set(news.map(({ sequence }) => sequence)).size).toBe(1);
  });

  it('is an identify with the value alone where it asks for nothing, whatever others ask for', async () => {
    const [first] = await toldAtLeast(1, 'usual', 'user-e2', 'audience');
    expect(first!.event).toEqual({
      type: 'identify',
      userId: 'user-e2',
      traits: { frequent_flyers: true },
      context: {
        personas: {
          computation_class: 'audience',
          computation_id: expect.stringMatching(/^aud_\d+$/),
          computation_key: 'frequent_flyers',
        },
      },
    });
  });
});

it(quoted('A change of the form tells nothing by itself.'), async () => {
  const patch = { settings: { computations: { as: 'track', traits: ['plan'] } } };
  expect(await control.ask('PATCH', 'destinations/e1', patch)).toMatchObject({ status: 200 });
  await identify('user-new', { flyer: true, plan: 'pro' });
  const [first] = await toldAtLeast(1, 'e1', 'user-new', 'audience');
  expect(first!.event).toMatchObject({
    event: 'Audience Entered',
    properties: { audience_key: 'frequent_flyers', frequent_flyers: true, plan: 'pro' },
  });
  expect(told('e1', 'user-e1', 'audience')).toHaveLength(1);
  await identify('user-new', { flyer: false });
  const [, left] = await toldAtLeast(2, 'e1', 'user-new', 'audience');
  expect(left!.event['properties']).toEqual({ audience_key: 'frequent_flyers', frequent_flyers: false });
});

it('a name of a track event beside identify is refused, and so is a form that nobody knows', async () => {
  const of = (computations: object) =>
    control.ask<{ error: object }>('PATCH', 'destinations/usual', { settings: { computations } });
  expect(JSON.stringify(await of({ enteredEvent: 'x' }))).toContain('set as to track or both beside it');
  expect(JSON.stringify(await of({ as: 'page' }))).toContain('must be identify, track or both');
});

function sortedKeys(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, one]) => [key, sortedKeys(one)]),
  );
}
