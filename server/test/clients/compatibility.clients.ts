import { createHmac } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.ts';
import {
  adminTokenOf,
  makePlace,
  oneDestination,
  type Place,
  type Program,
  ROOT,
  startServer,
} from '../support/program.ts';
import { type Arrival, startReceiver, type TestReceiver } from '../support/receiver.ts';
import { IS_LONG } from '../support/runs.ts';
import { until } from '../support/until.ts';
import { browserClients, type Site, startSite } from './browser-clients.ts';
import { CALLS, documented, type WireEvent } from './calls.ts';
import { type Chromium, findChromium, startChromium } from './chromium.ts';
import { type Client, type Facts, titleOf } from './client.ts';
import { expected } from './expectations.ts';
import { factsOf, messagesThrough } from './facts.ts';
import { aim, CASE_NAMES, CASES, type CaseName, storm } from './faults.ts';
import { NODE_CLIENTS } from './node-clients.ts';
import { describeConsent, describePages } from './pages.ts';
import { lasting, page } from './table.ts';

const file = (name: string) => readFileSync(join(import.meta.dirname, '../support/tls', name));
const TLS = { key: file('self-signed.key'), cert: file('self-signed.pem') };
const chromiumPath = findChromium();
if (chromiumPath === undefined) {
  const line = 'left out: @segment/analytics-next, because there is no Chromium (CHROMIUM_PATH)';
  if (process.env['CI'] !== undefined) throw new Error(line);
  console.log(line);
}

const TABLE = join(ROOT, 'docs/reference/compatibility.md');
const runTitle = (client: Client, name: CaseName) => `${titleOf(client)}: ${CASES[name].title}`;

let receiver: TestReceiver;
let place: Place;
let program: Program;
let chromium: Chromium;
let site: Site;

const BROWSER_CLIENTS = browserClients(
  () => chromium,
  () => site,
);
const CLIENTS: readonly Client[] = [...NODE_CLIENTS, ...BROWSER_CLIENTS];
const updatesTable = process.env['MILLRACE_UPDATE_TABLE'] !== undefined;

/** Whether it runs: the gate has the newest version of each library, the long run all that are installed. */
function isTried({ name, version }: Client): boolean {
  const isNewer = (other: string) => other.localeCompare(version, 'en', { numeric: true }) > 0;
  return IS_LONG || updatesTable || !CLIENTS.some((other) => other.name === name && isNewer(other.version));
}

/**
 * Both ways of a library answer a fault in the same code: the gate has all faults one way, and of the other
 * what differs most.
 */
function isTriedWith({ way }: Client, name: CaseName): boolean {
  return IS_LONG || updatesTable || way !== 'batches' || FAULTS_OF_BATCHES.includes(name);
}

const FAULTS_OF_BATCHES: readonly CaseName[] = ['none', 'unavailable', 'hangAfter'];

/** Results of each client under each fault, and all traffic through its proxy, for the last tests. */
const shown = new Map<string, Facts>();
const proxies = new Map<string, FaultProxy>();

beforeAll(async () => {
  receiver = await startReceiver();
  place = makePlace(oneDestination([`${receiver.url}/in`]));
  program = await startServer(place);
  site = await startSite();
  if (chromiumPath !== undefined) chromium = await startChromium(chromiumPath);
});

afterAll(async () => {
  await chromium?.stop();
  await site?.stop();
  await program?.kill();
  await receiver?.stop();
  place?.remove();
});

function arrivalsOf(messageId: string): readonly Arrival[] {
  return receiver.arrivals.filter(({ headers }) => headers['webhook-id'] === messageId);
}

/** Every byte of a delivery: signature, headers, and the documented body of what the client sent. */
function expectDocumented({ headers, body }: Arrival, event: WireEvent): void {
  expect(headers['x-signature']).toBe(createHmac('sha1', 's3cret-of-the-tests').update(body).digest('hex'));
  expect(headers['content-type']).toBe('application/json');
  expect(headers['user-agent']).toBe('Millrace/1.0');
  const text = body.toString();
  const parsed = JSON.parse(text) as Record<string, unknown>;
  expect(JSON.stringify(parsed)).toBe(text);
  const { timestamp, ...rest } = parsed;
  const entries = documented(event);
  expect(Object.keys(rest)).toEqual(entries.map(([key]) => key));
  expect(rest).toEqual(Object.fromEntries(entries));
  expect(timestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  // Corrected by what passed between the client's sending and the server's receiving, which is little here.
  const correction = Date.parse(String(timestamp)) - Date.parse(String(event['timestamp']));
  expect(correction).toBeGreaterThanOrEqual(0);
  expect(correction).toBeLessThan(20_000);
}

/** The calls as the program made them, whatever the library added to them. */
function expectAsCalled(event: WireEvent, userId: string): void {
  const { fields } = CALLS.find(({ type }) => type === event.type)!;
  expect(event).toMatchObject({ userId, ...fields });
}

describe('published client libraries', () => {
  const present = (chromiumPath === undefined ? NODE_CLIENTS : CLIENTS).filter(isTried);
  const runs = present.flatMap((client) =>
    CASE_NAMES.filter((name) => isTriedWith(client, name)).map((name) => ({
      client,
      name,
      title: runTitle(client, name),
    })),
  );

  it.concurrent.for(runs.map((run) => [run.title, run] as const))('%s', async ([title, { client, name }]) => {
    const { note: _, ...promised } = expected(client, name);
    const { victims, script } = aim(CASES[name].faults, client.way === 'batches' ? 2 : 1);
    const proxy = await startFaultProxy(program.url, script, {
      keepAlive: !client.inBrowser,
      ...(client.secure ? { tls: TLS } : {}),
    });
    proxies.set(title, proxy);
    const userId = title.replaceAll(/\W+/g, '-').toLowerCase();
    try {
      const outcome = await client.run({
        proxy,
        writeKey: name === 'unknownKey' ? 'nobody' : 'wk',
        userId,
        expected: promised,
        victims,
      });
      const messages = messagesThrough(proxy);
      const facts = factsOf(messages, victims(), outcome);
      shown.set(title, facts);
      for (const [id, { event, taken }] of messages) {
        // Calls that no fault hit are accepted, unless none is.
        if (!victims().has(id) && name !== 'unknownKey') expect(taken).toBeGreaterThan(0);
        if (taken === 0) continue;
        await receiver.until(() => arrivalsOf(event.messageId).length > 0);
        expectAsCalled(event, userId);
        expectDocumented(arrivalsOf(event.messageId)[0]!, event);
      }
      expect(facts).toEqual(promised);
    } finally {
      await proxy.stop();
    }
  });
});

describe('under a storm of faults, at most three to a request', () => {
  it.concurrent.for(NODE_CLIENTS.filter(isTried).map((client) => [titleOf(client), client] as const))(
    '%s: each of sixty calls arrives',
    async ([title, client]) => {
      const proxy = await startFaultProxy(program.url, storm(title));
      proxies.set(`storm: ${title}`, proxy);
      try {
        const userId = `storm-${title.replaceAll(/\W+/g, '-').toLowerCase()}`;
        const expected = { tries: 1 };
        const order = { proxy, writeKey: 'wk', userId, expected, victims: () => new Set<string>() };
        await client.run({ ...order, rounds: 10, timeout: 60_000 });
        const messages = messagesThrough(proxy);
        expect(messages.size).toBe(60);
        const lost = [...messages.values()].filter(({ taken }) => taken === 0);
        expect(lost.map(({ requests }) => requests.map(({ fault }) => fault))).toEqual([]);
      } finally {
        await proxy.stop();
      }
    },
  );
});

if (chromiumPath !== undefined) {
  describePages(
    () => chromium,
    () => site,
  );
  describeConsent(
    () => chromium,
    () => site,
  );
}

describe('after all of them', () => {
  it('nothing was delivered twice, nothing else was delivered, and the ledger says the same', async () => {
    const titleOfMessage = new Map<string, string>();
    let taken = 0;
    for (const [title, proxy] of proxies) {
      for (const [id, message] of messagesThrough(proxy)) {
        if (message.taken > 0) titleOfMessage.set(id, title);
        taken += message.taken;
      }
    }
    const settled = { destinations: { crm: { pending: 0 } }, balanced: true };
    await until('the books are settled', async () => expect(await ledger()).toMatchObject(settled));
    const arrived = new Map<string, number>();
    for (const { headers } of receiver.arrivals) {
      const id = String(headers['webhook-id']);
      arrived.set(id, (arrived.get(id) ?? 0) + 1);
    }
    const wrong: string[] = [];
    for (const [id, title] of titleOfMessage) {
      const times = arrived.get(id) ?? 0;
      if (times !== 1 && times > (await unansweredRequests(id)) + 1)
        wrong.push(`${title}: ${id} arrived ${times} times`);
    }
    expect(wrong).toEqual([]);
    expect([...titleOfMessage.keys()].filter((id) => !arrived.has(id))).toEqual([]);
    expect([...arrived.keys()].filter((id) => !titleOfMessage.has(id))).toEqual([]);
    const distinct = titleOfMessage.size;
    expect(await ledger()).toMatchObject({
      sources: {
        website: { received: taken, accepted: distinct, duplicates: taken - distinct, discarded: {} },
      },
      destinations: { crm: { owed: distinct, delivered: distinct, dead: {} } },
    });
  });

  it('the table in the documentation is as they were seen', () => {
    const text = page(CLIENTS, (client, name) => shown.get(runTitle(client, name)), {
      date: new Date().toISOString().slice(0, 10),
      node: process.versions.node,
      chromium: chromium?.version,
    });
    if (updatesTable) {
      if (chromiumPath === undefined) throw new Error('the table is written only where every client can run');
      writeFileSync(TABLE, text);
    }
    expect(lasting(readFileSync(TABLE, 'utf8')), 'npm run test:clients -- --update').toBe(lasting(text));
  });
});

const ledger = (): Promise<unknown> => asked('ledger');

/**
 * Requests for an event that this process, which is the receiver too, has answered too late: then another one
 * is right.
 */
async function unansweredRequests(messageId: string): Promise<number> {
  const { data } = (await asked(`events/${encodeURIComponent(messageId)}`)) as {
    data: { deliveries: { attempts: { reason: string }[] }[] }[];
  };
  const attempts = data.flatMap(({ deliveries }) => deliveries.flatMap((delivery) => delivery.attempts));
  return attempts.filter(({ reason }) => reason === 'timeout').length;
}

async function asked(path: string): Promise<unknown> {
  const response = await fetch(`${program.url}/api/v1/${path}`, {
    headers: { authorization: `Bearer ${adminTokenOf(place)}` },
  });
  return response.json();
}
