import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runVerb } from '../../../cli/test/program.ts';
import type { Overview, Trace } from '../../src/app.ts';
import { send, track } from '../support/calls.ts';
import { ControlApi } from '../support/control-api.ts';
import {
  adminTokenOf,
  makePlace,
  oneDestination,
  type Place,
  type Program,
  startServer,
} from '../support/program.ts';
import { freePort, startReceiver } from '../support/receiver.ts';

const ids = (prefix: string, n: number) => Array.from({ length: n }, (_, index) => `${prefix}${index}`);
const WHOLE = [...ids('a', 40), ...ids('c', 40)];
const DAMAGED = ids('b', 5);

/** The real program on a file in which one stored chunk changed while the program was stopped. */
describe('a damaged chunk', () => {
  let place: Place;
  let receiver: Awaited<ReturnType<typeof startReceiver>>;
  let server: Program;

  beforeAll(async () => {
    const port = await freePort();
    place = makePlace(oneDestination([`http://127.0.0.1:${port}/in`]));
    const before = await startServer(place);
    for (const batch of [WHOLE.slice(0, 40), DAMAGED, WHOLE.slice(40)]) {
      const answer = await send(before.url, '/v1/batch', { batch: batch.map((id) => track(id)) });
      expect(answer.status).toBe(200);
    }
    await before.stop();
    flipBodyOf(place, 40);
    receiver = await startReceiver({ port });
    server = await startServer(place);
    await receiver.until(() => WHOLE.every((id) => arrived().has(id)));
    await server.saw(/store\.damaged/);
    // Results are written a moment after the requests.
    await control.until<Overview>('ledger', ({ destinations }) => destinations['crm']!.pending === 0);
  });

  afterAll(async () => {
    await server?.stop();
    await receiver?.stop();
    place?.remove();
  });

  const arrived = () => new Set(receiver.arrivals.map(({ headers }) => String(headers['webhook-id'])));
  const token = () => adminTokenOf(place);
  const read = async (path: string) => {
    const answer = await fetch(`${server.url}${path}`, { headers: { Authorization: `Bearer ${token()}` } });
    return { status: answer.status, text: await answer.text() };
  };
  const control = new ControlApi(() => ({ url: server.url, token: token() }));
  const cli = (...args: string[]) => runVerb([...args, '--url', server.url, '--token', token()]);

  it('is never sent, while everything before and behind it is', () => {
    expect([...arrived()].sort()).toEqual([...WHOLE].sort());
  });

  it('leaves dead letters with a reason, and a ledger that balances', async () => {
    const { destinations, balanced } = await control.read<Overview>('ledger');
    expect(destinations['crm']).toMatchObject({
      owed: 85,
      delivered: 80,
      pending: 0,
      dead: { event_damaged: 5 },
    });
    expect(balanced).toBe(true);
    expect((await control.read<Trace>('deliveries?destination=crm&state=dead')).data).toHaveLength(5);
  });

  it('is counted by status, metrics and /readyz, which goes on saying that calls are taken', async () => {
    expect((await control.read<Overview>('status')).log.damage).toMatchObject({ events: 5, deliveries: 0 });
    expect((await cli('status')).out).toMatch(/damage +5 events and 0 deliveries cannot be read/);
    expect((await read('/metrics')).text).toMatch(/^millrace_damaged_events 5$/m);
    const ready = await read('/readyz');
    expect(ready.status).toBe(200);
    expect(JSON.parse(ready.text)).toEqual({
      status: 'ready',
      degraded: [expect.stringMatching(/^5 stored events cannot be read.*check the disk/)],
    });
  });

  it('is what trace says of its events', async () => {
    const { data } = await control.read<Trace>('events/b3');
    expect(data).toEqual([
      {
        verdict: 'damaged',
        deliveries: [expect.objectContaining({ destination: 'crm', state: 'dead', reason: 'event_damaged' })],
      },
    ]);
    expect((await cli('trace', 'b3')).out).toMatch(/damaged.*\n.*crm.*dead: event_damaged/);
  });

  it('does not keep a call with one of its messageIds from being accepted and delivered', async () => {
    const batch = [...DAMAGED.slice(0, 2), 'a1', 'new'].map((id) => track(id));
    expect((await send(server.url, '/v1/batch', { batch })).status).toBe(200);
    await receiver.until(() => ['b0', 'b1', 'new'].every((id) => arrived().has(id)));
    expect(arrived().size).toBe(83);
  });

  it('is said of a backup, which restore refuses and takes only on request', async () => {
    const folder = join(place.folder, 'backup');
    const made = await cli('backup', folder);
    expect(made.code).toBe(0);
    expect(made.err).toMatch(/WARNING: .*cannot be read.*5 events/);
    const data = join(place.folder, 'restored');
    const refused = await runVerb(['restore', folder, '--data', data]);
    expect(refused).toMatchObject({ code: 1, err: expect.stringMatching(/5 events .*--accept-damage/) });
    const taken = await runVerb(['restore', folder, '--data', data, '--accept-damage']);
    expect(taken.code).toBe(0);
    const looked = await runVerb(['doctor', '--data', data, '--json']);
    expect(JSON.parse(looked.out).findings).toContainEqual(
      expect.objectContaining({ check: 'stored events', verdict: 'fail' }),
    );
  });
});

function flipBodyOf({ data }: Place, first: number): void {
  const database = new DatabaseSync(join(data, 'millrace.db'));
  const row = database.prepare('select body from chunk where first = ?').get(first);
  const body = Buffer.from((row as { body: Uint8Array }).body);
  body[body.length >> 1]! ^= 1;
  database.prepare('update chunk set body = ? where first = ?').run(body, first);
  database.close();
}
