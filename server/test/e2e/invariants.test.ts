import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { send, track } from '../support/calls.ts';
import {
  adminTokenOf,
  logOf,
  makePlace,
  oneDestination,
  type Place,
  type Program,
  ROOT,
  startArguments,
  startProgram,
  startServer,
} from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';

const PRELOAD = pathToFileURL(join(ROOT, 'server/test/support/break-invariants.mjs')).href;

/** A program in which invariants do not hold. */
const broken = (which: 'writer' | 'lane') => ({
  env: { NODE_OPTIONS: `--import ${PRELOAD}`, MILLRACE_TEST_BREAK: which },
});

let place: Place | undefined;
let receiver: TestReceiver | undefined;
let running: Program | undefined;

afterEach(async () => {
  await running?.kill().catch(() => {});
  await receiver?.stop();
  place?.remove();
  [place, receiver, running] = [undefined, undefined, undefined];
});

/** A program that ends at its first call, which is not answered. */
async function endsAt(id: string): Promise<Program> {
  running = await startServer(place!, broken('writer'));
  const answer = send(running.url, '/v1/track', track(id)).then(
    ({ status }) => status,
    () => 'none',
  );
  expect(await running.ended()).toBe(70);
  expect(await answer, 'nobody hears that it is stored').not.toBe(200);
  return running;
}

const crashFiles = () =>
  readdirSync(place!.data).filter((name) => name.startsWith('crash-') && name.endsWith('.json'));

const arrived = () => receiver!.arrivals.map(({ headers }) => String(headers['webhook-id'])).sort();

async function readiness({ url }: Program): Promise<{ status: number; degraded?: string[] }> {
  const response = await fetch(`${url}/readyz`);
  return { ...((await response.json()) as { degraded?: string[] }), status: response.status };
}

describe('an invariant that does not hold in the writer', () => {
  it('ends the process with 70, one line and a crash file, and loses nothing that was answered', async () => {
    receiver = await startReceiver();
    place = makePlace(oneDestination([`${receiver.url}/in`]));
    running = await startServer(place);
    expect((await send(running.url, '/v1/track', track('before'))).status).toBe(200);
    await running.kill();
    const ended = await endsAt('during');
    const [line] = logOf(ended.out.stderr).slice(-1);
    expect(line).toMatchObject({
      level: 'error',
      event: 'server.invariant_failed',
      invariant: 'a batch has a source for each event',
      path: expect.stringContaining('crash-'),
    });
    expect(line!.msg).toMatch(/^a bug of Millrace: it is not so that .* start it again, and report this/);
    const [file] = crashFiles();
    const crash = JSON.parse(readFileSync(join(place.data, file!), 'utf8')) as object;
    expect(crash).toMatchObject({
      invariant: 'a batch has a source for each event',
      facts: { operations: ['append'] },
    });
    expect(JSON.stringify(crash)).not.toContain('during');
    running = await startServer(place);
    expect((await send(running.url, '/v1/track', track('during'))).status).toBe(200);
    await receiver.until(() => new Set(arrived()).size === 2);
    expect([...new Set(arrived())]).toEqual(['before', 'during']);
    expect(await running.stop()).toBe(0);
  });

  it('holds deliveries back after three ends within ten minutes, until a start with --deliver', async () => {
    receiver = await startReceiver();
    place = makePlace(oneDestination([`${receiver.url}/in`]));
    for (const id of ['one', 'two', 'three']) await endsAt(id);
    expect(crashFiles()).toHaveLength(3);
    for (const id of ['a', 'b']) {
      // It stays so over restarts.
      running = await startServer(place);
      expect(logOf(running.out.stderr).map(({ event }) => event)).toContain('server.holding');
      expect((await send(running.url, '/v1/track', track(id))).status).toBe(200);
      expect(await readiness(running)).toMatchObject({
        status: 200,
        degraded: [expect.stringMatching(/^deliveries are held back.*--deliver/)],
      });
      expect(await running.stop()).toBe(0);
    }
    expect(receiver.arrivals).toHaveLength(0);
    running = await startProgram({ args: [...startArguments(place), '--deliver'] });
    await receiver.until(() => receiver!.arrivals.length === 2);
    expect(arrived()).toEqual(['a', 'b']);
    expect(await readiness(running)).toEqual({ status: 200 });
    expect(await running.stop()).toBe(0);
    running = await startServer(place);
    expect(
      logOf(running.out.stderr).map(({ event }) => event),
      'without it too',
    ).not.toContain('server.holding');
    expect(await running.stop()).toBe(0);
  });
});

describe('an invariant that does not hold in a lane', () => {
  it('stops that lane alone, which is shown as failed, and delivers after a restart', async () => {
    const down = await startReceiver({ answer: (response) => response.writeHead(503).end() });
    receiver = await startReceiver();
    try {
      place = makePlace(twoDestinations(`${down.url}/in`, `${receiver.url}/in`));
      running = await startServer(place, broken('lane'));
      for (const id of ['a', 'b', 'c'])
        expect((await send(running.url, '/v1/track', track(id))).status).toBe(200);
      await running.saw(/destination\.failed/);
      await receiver.until(() => receiver!.arrivals.length === 3);
      expect(await statusOf(running)).toMatchObject({
        crm: { state: 'failed', failure: 'the lot of a delay is from 0 to below 1' },
        warehouse: { state: 'healthy' },
      });
      expect(await readiness(running)).toMatchObject({
        status: 200,
        degraded: [expect.stringMatching(/^deliveries to "crm" stand still/)],
      });
      expect(await metrics(running)).toContain('millrace_invariant_failed_total 1');
      expect(await running.stop()).toBe(0);
      running = await startServer(place);
      const asked = down.arrivals.length;
      await down.until(() => down.arrivals.length > asked);
      await until('it only fails', async () => (await statusOf(running!))['crm']?.state === 'failing');
      expect(await running.stop()).toBe(0);
    } finally {
      await down.stop();
    }
  });
});

async function asked({ url }: Program, path: string): Promise<Response> {
  return await fetch(`${url}${path}`, { headers: { authorization: `Bearer ${adminTokenOf(place!)}` } });
}

async function statusOf(program: Program): Promise<Record<string, { state: string; failure?: string }>> {
  const response = await asked(program, '/api/v1/status');
  return ((await response.json()) as { lanes: Record<string, { state: string }> }).lanes;
}

async function metrics(program: Program): Promise<string> {
  return await (await asked(program, '/metrics')).text();
}

function twoDestinations(crm: string, warehouse: string): string {
  const second = `  - name: warehouse
    type: webhooks
    sources: [website]
    settings:
      endpoints: [{ url: "${warehouse}" }]
      sharedSecret: s3cret-of-the-tests
`;
  return `${oneDestination([crm])}${second}`;
}
