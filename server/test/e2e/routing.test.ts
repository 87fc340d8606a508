import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Trace } from '../../src/app.ts';
import type { JsonObject } from '../../src/model/json.ts';
import { send, track } from '../support/calls.ts';
import { ControlApi } from '../support/control-api.ts';
import {
  adminTokenOf,
  logOf,
  makePlace,
  type Place,
  type Program,
  ROOT,
  startServer,
} from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';

type Accepted = Extract<Trace['data'][number], { verdict: 'accepted' }>;

interface Names {
  readonly destinations: Readonly<
    Record<string, { readonly name: string; readonly names: readonly string[] }>
  >;
  readonly cases: readonly {
    readonly id: string;
    readonly integrations: JsonObject;
    readonly expect: Readonly<Record<string, boolean>>;
  }[];
}

function fixture<Of>(name: string): Of {
  return JSON.parse(readFileSync(join(ROOT, `spec/fixtures/routing/${name}.json`), 'utf8')) as Of;
}

const NAMES = fixture<Names>('integrations');

const yaml = (receiver: TestReceiver) => `
egress: { allow: [127.0.0.0/8] }
sources:
  - { name: website, writeKeys: [wk] }
destinations:
${Object.values(NAMES.destinations)
  .map(({ name, names }) => destination({ name, receiver, settings: { integrationNames: names } }))
  .join('\n')}
  - { name: Webhook, type: webhooks, sources: [], settings: { endpoints: [{ url: "${receiver.url}/other" }] } }
`;

function destination({
  name,
  receiver,
  settings,
}: {
  name: string;
  receiver: TestReceiver;
  settings: object;
}) {
  const all = { endpoints: [{ url: `${receiver.url}/${name}` }], ...settings };
  return `  - { name: ${name}, type: webhooks, sources: [website], settings: ${JSON.stringify(all)} }`;
}

describe('who gets an event', () => {
  let receiver: TestReceiver;
  let place: Place;
  let program: Program;
  const control = new ControlApi(() => ({ url: program.url, token: adminTokenOf(place) }));

  beforeAll(async () => {
    receiver = await startReceiver();
    place = makePlace(yaml(receiver));
    program = await startServer(place);
  });

  afterAll(async () => {
    await program.kill();
    await receiver.stop();
    place.remove();
  });

  /** Where the events with these ids have gone, once everything that is owed of them was delivered. */
  async function fates(ids: readonly string[]): Promise<Map<string, Record<string, string>>> {
    const found = new Map<string, Record<string, string>>();
    for (const id of ids) {
      const { data } = await control.until<Trace>(
        `events/${id}`,
        ({ data }) =>
          (data[0] as Accepted | undefined)?.deliveries.every(({ state }) => state === 'delivered') === true,
      );
      const { deliveries, skipped } = data[0] as Accepted;
      found.set(id, {
        ...Object.fromEntries(deliveries.map((one) => [one.destination, 'deliver'])),
        ...Object.fromEntries(skipped.map((one) => [one.destination, one.reason])),
      });
    }
    return found;
  }

  it('is said with a warning where a destination is called as calls call others', async () => {
    const warned = logOf(program.out.stderr).filter(({ event }) => event === 'destination.doubtful');
    expect(warned).toMatchObject([
      { level: 'warn', destination: 'bi', setting: 'settings.integrationNames[1]' },
      { level: 'warn', destination: 'Webhook', setting: 'name' },
    ]);
    const plan = (body: object) => control.ask<{ warnings: unknown }>('PUT', 'config?dryRun', body);
    const kept = await plan(await control.read<object>('config'));
    const settings = { endpoints: [{ url: `${receiver.url}/in` }] };
    const called = { type: 'webhooks', sources: [], settings };
    const ofName = {
      path: 'body.destinations[0].name',
      message:
        'is also a name by which calls switch other destinations: in an integrations object it switches this one alone',
    };
    const listed =
      'is the name of another destination, and in an integrations object switches that one alone';
    expect(kept.answer.warnings).toEqual([
      ofName,
      { path: 'body.destinations[2].settings.integrationNames[1]', message: listed },
    ]);
    // A change says what is new, and nothing again.
    const renamed = await control.ask('POST', 'destinations', { ...called, name: 'Extensible Webhook' });
    expect(renamed).toMatchObject({ status: 201, answer: { warnings: [{ ...ofName, path: 'body.name' }] } });
    const patch = { settings: { integrationNames: ['crm', 'Former'] } };
    const patched = await control.ask('PATCH', 'destinations/Extensible%20Webhook', patch);
    expect(patched.answer).toMatchObject({
      warnings: [{ path: 'body.settings.integrationNames[0]', message: listed }],
    });
    const again = await control.ask('PATCH', 'destinations/Webhook', { settings: { rateLimit: 9 } });
    expect(again.answer).not.toHaveProperty('warnings');
    for (const name of ['Webhook', 'Extensible%20Webhook'])
      expect(await control.ask('DELETE', `destinations/${name}`)).toMatchObject({ status: 204 });
    const { answer } = await control.ask('POST', 'destinations', { ...called, name: 'Webhooks' });
    expect(JSON.stringify(answer)).toContain('must not be Webhooks, All or all');
  });

  it('is said by the names that destinations had elsewhere', async () => {
    const batch = NAMES.cases.map(({ id, integrations }) => track(id, { integrations }));
    expect(await send(program.url, '/v1/batch', { batch })).toMatchObject({ status: 200 });
    const found = await fates(NAMES.cases.map(({ id }) => id));
    for (const { id, expect: wanted } of NAMES.cases) {
      const fate = Object.entries(wanted).map(([name, gets]) => [name, gets ? 'deliver' : 'integrations']);
      expect([id, found.get(id)]).toEqual([id, Object.fromEntries(fate)]);
    }
    const arrived = receiver.arrivals.map(({ path, headers }) => `${headers['webhook-id']} ${path}`).sort();
    const wanted = NAMES.cases.flatMap(({ id, expect: gets }) =>
      Object.entries(gets).flatMap(([name, isOn]) => (isOn ? [`${id} /${name}`] : [])),
    );
    expect(arrived).toEqual(wanted.sort());
  });
});
