import { createHmac } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { send, track } from '../support/calls.ts';
import { ControlApi } from '../support/control-api.ts';
import { makePlace, type Place, type Program, startProgram } from '../support/program.ts';
import { type Arrival, startReceiver, type TestReceiver } from '../support/receiver.ts';

const VERSIONS = 100;
const SENDERS = 3;
const BATCH = 10;
/** One request in this many gets a retryable answer, so that retries meet changed settings. */
const ONE_FAILS_OF = 100;

let receivers: [TestReceiver, TestReceiver];
let program: Program;
let place: Place;
/** The versions that arrived, and the requests that mixed versions. */
let seen: Set<number>;
let unlike: string[];
let accepted: Map<string, number>;

/** The settings of a version: receiver, path, header, secret and body of a request all follow from it. */
function settingsOf(version: number) {
  const { url } = receivers[version % 2]!;
  return {
    endpoints: [{ url: `${url}/v${version}`, headers: { 'X-Version': String(version) } }],
    sharedSecret: `secret-${version}`,
    format: version % 3 === 0 ? 'canonical' : 'documented',
  };
}

function look(place: number) {
  return (response: ServerResponse, { path, headers, body }: Arrival, nth: number): void => {
    const version = Number(path.slice(2));
    seen.add(version);
    const event = JSON.parse(body.toString()) as { messageId: string; receivedAt?: string };
    const found = {
      place,
      header: headers['x-version'],
      signature: headers['x-signature'],
      format: event.receivedAt === undefined ? 'documented' : 'canonical',
    };
    const settings = settingsOf(version);
    const wanted = {
      place: version % 2,
      header: String(version),
      signature: createHmac('sha1', settings.sharedSecret).update(body).digest('hex'),
      format: settings.format,
    };
    if (JSON.stringify(found) !== JSON.stringify(wanted)) {
      unlike.push(`${path}: ${JSON.stringify(found)} instead of ${JSON.stringify(wanted)}`);
    }
    const fails = nth % ONE_FAILS_OF === ONE_FAILS_OF - 1;
    if (!fails) accepted.set(event.messageId, (accepted.get(event.messageId) ?? 0) + 1);
    response.writeHead(fails ? 503 : 200).end();
  };
}

beforeEach(async () => {
  seen = new Set();
  unlike = [];
  accepted = new Map();
  receivers = [await startReceiver({ answer: look(0) }), await startReceiver({ answer: look(1) })];
  place = makePlace(
    JSON.stringify({
      ...{ port: 0, host: '127.0.0.1', admin: { token: 't0ken' }, egress: { allow: ['127.0.0.0/8'] } },
      sources: [{ name: 'website', writeKeys: ['wk'] }],
      destinations: [{ name: 'crm', type: 'webhooks', sources: ['website'], settings: settingsOf(0) }],
    }),
  );
  program = await startProgram({ args: ['start', '--config', place.config, '--data', place.data] });
});

afterEach(async () => {
  await program.kill();
  for (const receiver of receivers) await receiver.stop();
  place.remove();
});

const api = new ControlApi(() => ({ url: program.url, token: 't0ken' }));

it('a URL and its secret change 100 times under load: no event is lost, each request is of one version', async () => {
  const sent: string[] = [];
  let isOver = false;
  const load = Array.from({ length: SENDERS }, async (_, sender) => {
    for (let n = 0; !isOver; n++) {
      const batch = Array.from({ length: BATCH }, (_, nth) => track(`m-${sender}-${n}-${nth}`));
      expect((await send(program.url, '/v1/batch', { batch })).status).toBe(200);
      sent.push(...batch.map(({ messageId }) => messageId));
    }
  });
  for (let version = 1; version <= VERSIONS; version++) {
    const { status } = await api.ask('PATCH', 'destinations/crm', { settings: settingsOf(version) });
    expect(status).toBe(200);
    await receivers[version % 2]!.until(() => seen.has(version));
  }
  isOver = true;
  await Promise.all(load);

  interface Ledger {
    readonly destinations: Record<string, { pending: number; owed: number; delivered: number; dead: object }>;
    readonly balanced: boolean;
  }
  const ledger = await api.until<Ledger>('ledger', ({ destinations }) => destinations['crm']!.pending === 0);
  expect(unlike).toEqual([]);
  expect(new Set(accepted.keys())).toEqual(new Set(sent));
  expect([...accepted].filter(([, times]) => times !== 1)).toEqual([]);
  expect(seen.size).toBeGreaterThanOrEqual(VERSIONS);
  expect(ledger.destinations['crm']).toMatchObject({ owed: sent.length, delivered: sent.length, dead: {} });
  expect(ledger.balanced).toBe(true);
});
