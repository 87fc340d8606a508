import { createHmac } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { runVerb } from '../../../cli/test/program.ts';
import type { Overview, Trace } from '../../src/app.ts';
import { send, track } from '../support/calls.ts';
import { oneDestination } from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';
import { sharedServer } from '../support/shared-server.ts';

describe('a destination', () => {
  /** Of `crm`, the destination of the file. */
  let ofFile: TestReceiver;
  /** Of the destination of this test, which has the name of its source and of its write key. */
  let receiver: TestReceiver;
  let name: string;
  let destinations = 0;
  let status = 200;

  beforeAll(async () => {
    ofFile = await startReceiver();
  });

  const server = sharedServer(() => oneDestination([`${ofFile.url}/in`]));

  beforeEach(async () => {
    status = 200;
    receiver = await startReceiver({
      answer: (response) => void response.writeHead(status).end(status === 200 ? '' : 'no'),
    });
    name = `crm${++destinations}`;
    await server.connect(name, [`${receiver.url}/in`], { sharedSecret: 's3cret-of-the-tests' });
  });

  afterEach(() => receiver.stop());

  afterAll(() => ofFile.stop());

  const run = (...args: string[]) => runVerb([...args, '--url', server.url, '--data', server.place.data]);

  const { api } = server;
  const ask = (path: string, body?: object) => api.ask(body === undefined ? 'GET' : 'POST', path, body);

  /** Of the destination of this test, or of `crm`, by their write keys. */
  const call = (messageId: string, writeKey = name) =>
    send(server.url, '/v1/track', track(messageId), { writeKey });
  const batchOf = (batch: readonly object[]) => send(server.url, '/v1/batch', { batch }, { writeKey: name });

  async function countsWhen(
    isReached: (counts: Overview['destinations'][string]) => boolean,
    destination = name,
  ) {
    const { destinations } = await api.until<Overview>('ledger', (one) =>
      isReached(one.destinations[destination]!),
    );
    return destinations[destination]!;
  }

  it('that is paused keeps what arrives, over restarts with its file too, and gets it when it is resumed', async () => {
    await call('before', 'wk');
    await countsWhen(({ delivered }) => delivered === 1, 'crm');
    const paused = await run('pause', 'crm');
    expect(paused).toMatchObject({ code: 0, err: '' });
    expect(paused.out).toMatch(
      /^crm is paused: .*what arrives from now on waits too, until millrace resume crm/,
    );
    await call('meanwhile', 'wk');
    expect(await countsWhen(({ owed }) => owed === 2, 'crm')).toMatchObject({ pending: 1, skipped: {} });
    expect(await server.program.stop()).toBe(0);
    await server.start();
    await call('after the restart', 'wk');
    expect(await countsWhen(({ owed }) => owed === 3, 'crm')).toMatchObject({ pending: 2, skipped: {} });
    expect(ofFile.arrivals).toHaveLength(1);
    const { answer } = await ask('destinations/crm/status');
    const { oldestPendingAt, oldestKeptUntil, ...rest } = answer as Record<string, string>;
    expect(rest).toMatchObject({ state: 'paused', pending: 2 });
    expect(Date.parse(oldestKeptUntil!) - Date.parse(oldestPendingAt!)).toBe(7 * 24 * 60 * 60 * 1000);
    expect((await run('status')).out).toMatch(/crm +paused.*2 wait, kept until \d{4}-/);
    const again = (await ask('destinations/crm/pause', {})).answer;
    expect(again).toMatchObject({ name: 'crm', enabled: true, paused: true, pending: 2, oldestKeptUntil });
    const resumed = await run('resume', 'crm');
    expect(resumed).toMatchObject({
      code: 0,
      out: 'crm is resumed: the 2 deliveries that wait are sent now.\n',
    });
    await ofFile.count(3);
    expect(await countsWhen(({ pending }) => pending === 0, 'crm')).toMatchObject({ delivered: 3, dead: {} });
  });

  it('that is disabled skips what arrives and keeps what it is owed; resuming it says so and is no success', async () => {
    await run('pause', name);
    await call('owed');
    await countsWhen(({ pending }) => pending === 1);
    const disabled = await run('disable', name);
    expect(disabled.code).toBe(0);
    expect(disabled.out).toMatch(new RegExp(`^${name} is disabled: .*skipped.* 1 delivery waits`));
    await call('skipped');
    const counts = await countsWhen(({ skipped }) => skipped['destination_disabled'] === 1);
    expect(counts).toMatchObject({ owed: 1, pending: 1 });
    expect((await run('status')).out).toMatch(new RegExp(`^${name} +disabled`, 'm'));
    const resumed = await run('resume', name);
    expect(resumed).toMatchObject({ code: 1, out: '' });
    expect(resumed.err).toMatch(new RegExp(`${name} is disabled.*millrace enable ${name}`));
    expect(await run('enable', name)).toMatchObject({
      code: 0,
      out: `${name} is enabled: the 1 delivery that waits is sent now.\n`,
    });
    await receiver.count(1);
    expect(await countsWhen(({ pending }) => pending === 0)).toMatchObject({ delivered: 1 });
    await call('after');
    await receiver.count(2);
  });

  it('that is paused takes redeliveries and replays, which wait, and can be tried out', async () => {
    await call('before');
    await receiver.count(1);
    await run('pause', name);
    const from = new Date(Date.now() - 3_600_000).toISOString();
    const replay = await ask('replays', { destination: name, from, to: new Date().toISOString() });
    expect(replay.status).toBe(201);
    const { data } = (await ask(`destinations/${name}/test`, { type: 'track' })).answer as { data: object[] };
    expect(data).toMatchObject([{ status: 200 }]);
    await receiver.count(2);
    const { id } = replay.answer as { id: string };
    await api.until<{ waiting?: string }>(`replays/${id}`, ({ waiting }) => waiting === 'destination_paused');
    await run('resume', name);
    await receiver.count(3);
    await run('disable', name);
    const refused = await ask('replays', { destination: name, from, to: new Date().toISOString() });
    expect(refused).toMatchObject({ status: 409, answer: { code: 'destination_not_enabled' } });
  });

  it('is tried out with a request like every other, shown as it was sent with its answer, and owed nothing', async () => {
    status = 503;
    const { answer } = await ask(`destinations/${name}/test`, { type: 'identify' });
    const { data } = answer as { data: { request: { headers: Record<string, string>; body: string } }[] };
    const [trial] = data;
    expect(trial).toMatchObject({ outcome: 'retryable', reason: 'status_503', status: 503, answer: 'no' });
    const [arrival] = receiver.arrivals;
    expect(String(arrival!.body)).toBe(trial!.request.body);
    expect(JSON.parse(trial!.request.body)).toMatchObject({ type: 'identify', userId: 'test-user' });
    const signature = createHmac('sha1', 's3cret-of-the-tests').update(arrival!.body).digest('hex');
    expect(arrival!.headers['x-signature']).toBe(signature);
    expect(trial!.request.headers['X-Signature']).toBe(signature);
    expect(await countsWhen(() => true)).toMatchObject({ owed: 0 });
    expect(receiver.arrivals).toHaveLength(1);
  });

  it('has its dead letters listed, and gets them once more when it is repaired', async () => {
    status = 410;
    const ids = ['a', 'b', 'c', 'd', 'e'];
    await batchOf(ids.map((id) => track(id)));
    await countsWhen(({ dead }) => dead['status_410'] === 5);
    const page = await ask(`deliveries?destination=${name}&state=dead&limit=3`);
    const { data, next } = page.answer as { data: { id: string; messageId: string }[]; next: string };
    expect(data.map(({ messageId }) => messageId)).toEqual(['e', 'd', 'c']);
    expect(data[0]).toMatchObject({ destination: name, state: 'dead', reason: 'status_410', type: 'track' });
    const rest = await ask(`deliveries?destination=${name}&state=dead&limit=3&cursor=${next}`);
    expect(rest.answer).toMatchObject({ data: [{ messageId: 'b' }, { messageId: 'a' }], next: null });

    status = 200;
    expect((await run('redeliver', name, '--dry-run')).out).toBe(
      `5 dead letters of ${name} would be sent once more.\n`,
    );
    const [first] = data;
    expect((await run('redeliver', name, '--id', first!.id)).out).toBe(
      `1 delivery of ${name} is owed once more.\n`,
    );
    await countsWhen(({ delivered }) => delivered === 1);
    expect((await run('redeliver', name, '--reason', 'status_404')).out).toMatch(/^0 /);
    expect((await run('redeliver', name, '--reason', 'status_410', '--json')).out).toMatch(/"count":4/);
    const counts = await countsWhen(({ delivered }) => delivered === 5);
    expect(counts).toMatchObject({ owed: 5, pending: 0, dead: {}, balance: 0 });
    const { answer } = await ask('events/e');
    const [call] = (answer as Trace).data as Extract<Trace['data'][number], { verdict: 'accepted' }>[];
    expect(call!.deliveries[0]!.attempts.map((attempt) => attempt.status)).toEqual([410, 200]);
  });

  it('gets any event once more, delivered or not, by its id or by a filter, and a dry run says how many', async () => {
    const batch = ['k', 'l', 'm', 'n'].map((id, n) => ({ ...track(id), type: n < 2 ? 'page' : 'track' }));
    await batchOf(batch);
    await countsWhen(({ delivered }) => delivered === 4);
    const ids = () => receiver.arrivals.map(({ body }) => JSON.parse(String(body)).messageId);
    expect(await run('redeliver', name, '--message-id', 'l', 'nonsense', '--dry-run')).toMatchObject({
      ...{ code: 1, out: `1 delivery of ${name} would be sent once more.\n` },
      err: 'millrace: no stored event has this id: nonsense.\n',
    });
    const { data } = (await ask(`deliveries?destination=${name}&limit=1`)).answer as {
      data: { id: string }[];
    };
    const gone = data[0]!.id.replace(/^\d+/, '999999');
    const { answer } = await ask('redeliveries', {
      destination: name,
      messageIds: ['l'],
      ids: [gone],
    });
    expect(answer).toMatchObject({ count: 1, estimated: false, state: 'done', missing: [gone] });
    await receiver.count(5);
    expect(ids().at(-1)).toBe('l');
    const { id } = answer as { id: string };
    expect(receiver.arrivals.at(-1)!.headers['x-replay-id']).toBe(id);
    await countsWhen(({ delivered }) => delivered === 5);

    const filter = ['redeliver', name, '--state', 'delivered', '--type', 'track', '--since', '1h'];
    expect((await run(...filter, '--dry-run')).out).toBe(
      `2 deliveries of ${name} would be sent once more.\n`,
    );
    expect((await run(...filter)).code).toBe(0);
    await receiver.count(7);
    expect(ids().slice(5).sort()).toEqual(['m', 'n']);
    const counts = await countsWhen(({ delivered }) => delivered === 7);
    expect(counts).toMatchObject({ owed: 7, pending: 0, balance: 0 });
    expect((await run('redeliver', name, '--state', 'dead')).out).toMatch(/^0 dead letters/);
    expect(await ask('redeliveries', { destination: name, state: 'delivered', reason: 'x' })).toMatchObject({
      status: 422,
    });
    const past = { destination: name, state: 'delivered', to: '2020-01-01T00:00:00Z', dryRun: true };
    expect((await ask('redeliveries', past)).answer).toMatchObject({ count: 0 });
  });

  it('gets an event by its id that it was never owed, and those that are pending anyway are left', async () => {
    await run('disable', name);
    await call('unowed');
    await run('enable', name);
    await run('pause', name);
    await call('waits');
    const wish = { destination: name, messageIds: ['unowed', 'waits'] };
    expect((await ask('redeliveries', wish)).answer).toMatchObject({ count: 1, pending: 1, missing: [] });
    expect((await ask('redeliveries', wish)).answer).toMatchObject({ count: 0, pending: 2 });
    expect(await countsWhen(() => true)).toMatchObject({ owed: 2, pending: 2 });
    await run('resume', name);
    await countsWhen(({ delivered }) => delivered === 2);
  });

  it('is tried out from the command line, which ends with 1 where no endpoint accepts', async () => {
    const tried = await run('test', name, '--type', 'identify');
    expect(tried).toMatchObject({ code: 0, err: '' });
    const [arrival] = receiver.arrivals;
    expect(tried.out).toContain(`POST ${receiver.url}/in\n`);
    expect(tried.out).toContain(`X-Signature: ${String(arrival!.headers['x-signature'])}\n`);
    expect(tried.out).toContain(`\n${String(arrival!.body)}\n`);
    expect(tried.out).toMatch(/\naccepted: 200 {2}[\d.]+ m?s\n$/);
    status = 503;
    const failed = await run('test', name);
    expect(failed).toMatchObject({
      code: 1,
      err: `millrace: no endpoint of ${name} accepted the request.\n`,
    });
    expect(failed.out).toMatch(/retryable: 503 {2}.*\n {2}no\n$/);
  });

  it('that does not exist, and a wish that makes no sense, are named', async () => {
    for (const [args, message, ending] of [
      [['pause', 'crn'], /"crn" is no destination/, 1],
      [['redeliver', name, '--from', 'yesterday'], /from: must be a time such as/, 2],
      [['redeliver', name, '--id', 'x'], /--id x: must be the id of a delivery/, 2],
      [['redeliver', name, '--id', '1-2', 'y'], /--id y: must be the id of a delivery/, 2],
      [['redeliver', name, '--id', '1-77'], /--id 1-77: is a delivery of another destination/, 2],
    ] as const) {
      const { code, out, err } = await run(...args);
      expect({ args, code, out }).toEqual({ args, code: ending, out: '' });
      expect(err).toMatch(message);
    }
    expect((await ask(`deliveries?destination=${name}&state=gone`)).status).toBe(422);
  });
});
