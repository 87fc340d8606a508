import { createHmac } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Analytics } from '@segment/analytics-node';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  makePlace,
  oneDestination,
  type Place,
  type Program,
  ROOT,
  startServer,
} from '../support/program.ts';
import { type Arrival, startReceiver, type TestReceiver } from '../support/receiver.ts';

/** The published client library, unmodified, against the real program. */
describe('@segment/analytics-node', () => {
  let receiver: TestReceiver;
  let place: Place;
  let program: Program;

  beforeAll(async () => {
    receiver = await startReceiver();
    place = makePlace(oneDestination([`${receiver.url}/in`]));
    program = await startServer(place);
    const analytics = new Analytics({ writeKey: 'wk', host: program.url });
    analytics.identify({ userId: 'u1', traits: { plan: 'pro', seats: 4 } });
    analytics.track({
      userId: 'u1',
      event: 'Order Placed',
      properties: { total: '19.99', items: ['a', 'b'] },
    });
    analytics.page({
      userId: 'u1',
      name: 'Home',
      category: 'Docs',
      properties: { path: '/', url: 'https://e.example/', title: 'Home', referrer: '' },
    });
    analytics.screen({ anonymousId: 'a1', name: 'Start' });
    analytics.group({ userId: 'u1', groupId: 'g1', traits: { name: 'Initech', employees: 329 } });
    analytics.alias({ userId: 'u1', previousId: 'a1' });
    await analytics.closeAndFlush();
    await receiver.count(6);
  });

  afterAll(async () => {
    expect(await program.stop()).toBe(0);
    await receiver.stop();
    place.remove();
  });

  it('has all six calls delivered, each once', () => {
    expect(receiver.arrivals.map((arrival) => bodyOf(arrival)['type']).sort()).toEqual([
      'alias',
      'group',
      'identify',
      'page',
      'screen',
      'track',
    ]);
    const ids = receiver.arrivals.map(({ headers }) => headers['webhook-id']);
    expect(new Set(ids).size).toBe(6);
  });

  it('has every request signed over its exact bytes', () => {
    for (const { headers, body } of receiver.arrivals) {
      expect(headers['x-signature']).toBe(
        createHmac('sha1', 's3cret-of-the-tests').update(body).digest('hex'),
      );
      expect(headers['user-agent']).toBe('Millrace/1.0');
      expect(headers['content-type']).toBe('application/json');
    }
  });

  it('has bodies of the documented shapes: the keys of the fixtures, in their order', () => {
    const shapes = documentedShapes();
    for (const arrival of receiver.arrivals) {
      const body = bodyOf(arrival);
      const shape = shapes.get(String(body['type']))!;
      const keys = Object.keys(body);
      expect(
        shape.filter((key) => keys.includes(key)),
        String(body['type']),
      ).toEqual(keys);
      expect(JSON.stringify(body)).toBe(arrival.body.toString());
    }
  });

  it('has what it sent arrive unchanged', () => {
    const byType = new Map(receiver.arrivals.map((arrival) => [bodyOf(arrival)['type'], bodyOf(arrival)]));
    expect(byType.get('identify')).toMatchObject({
      version: 1,
      userId: 'u1',
      traits: { plan: 'pro', seats: 4 },
    });
    expect(byType.get('track')).toMatchObject({
      event: 'Order Placed',
      properties: { total: '19.99', items: ['a', 'b'] },
    });
    expect(byType.get('page')).toMatchObject({
      name: 'Home',
      category: 'Docs',
      properties: { path: '/', title: 'Home' },
    });
    expect(byType.get('screen')).toMatchObject({ name: 'Start', anonymousId: 'a1' });
    expect(byType.get('group')).toMatchObject({ groupId: 'g1', traits: { name: 'Initech', employees: 329 } });
    expect(byType.get('alias')).toMatchObject({ 'Previous ID': 'a1', 'User ID': 'u1' });
    expect(byType.get('track')!['context']).toMatchObject({ library: { name: '@segment/analytics-node' } });
  });
});

function bodyOf(arrival: Arrival): Record<string, unknown> {
  return JSON.parse(arrival.body.toString()) as Record<string, unknown>;
}

/** For each type, the longest list of keys among the fixtures of the documented format. */
function documentedShapes(): Map<string, string[]> {
  const folder = join(ROOT, 'spec/fixtures/webhook');
  const shapes = new Map<string, string[]>();
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.json'))) {
    const { format, body } = JSON.parse(readFileSync(join(folder, file), 'utf8')) as {
      format: string;
      body: string;
    };
    if (format !== 'documented') continue;
    const parsed = JSON.parse(body) as Record<string, unknown>;
    const keys = Object.keys(parsed);
    const type = String(parsed['type']);
    if (keys.length > (shapes.get(type)?.length ?? 0)) shapes.set(type, keys);
  }
  return shapes;
}
