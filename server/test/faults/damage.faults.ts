import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { send } from '../support/calls.ts';
import type { Chance } from '../support/disk-faults/random.ts';
import { makePlace, oneDestination, type Place } from '../support/program.ts';
import { freePort } from '../support/receiver.ts';
import { type Round, roundsOf } from '../support/runs.ts';
import { until } from '../support/until.ts';
import { endAll, type Instance, launch, start } from './instance.ts';
import { passed } from './passed.ts';

const BATCHES = 30;
const SINGLES = 60;
const PAGE = 1024;

/** The token is given here because the one in the data folder may be damaged too. */
const TOKEN = 'token-of-the-damage-drill-0123456789';
const ENV = { env: { MILLRACE_ADMIN_TOKEN: TOKEN } };

/**
 * Looks at the ledger without a change, after which it is taken to be at rest, and the milliseconds between
 * two.
 */
const LOOKS_AT_REST = 40;
const LOOK_EVERY = 100;

/** A receiver that keeps the bytes of every body by the id of its event. */
class Bodies {
  readonly port: number;
  readonly seen = new Map<string, Set<string>>();
  #server: Server | undefined;

  constructor(port: number) {
    this.port = port;
  }

  async open(): Promise<void> {
    this.#server = createServer((request, response) => {
      const pieces: Buffer[] = [];
      request.on('data', (piece: Buffer) => pieces.push(piece));
      request.on('end', () => {
        const id = decodeURIComponent(String(request.headers['webhook-id']));
        const bodies = this.seen.get(id) ?? new Set<string>();
        this.seen.set(id, bodies.add(Buffer.concat(pieces).toString('latin1')));
        response.writeHead(200).end();
      });
    }).listen(this.port, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  async close(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

let bodies: Bodies;
let place: Place;
/** The body of each event as an undamaged folder delivers it. */
const right = new Map<string, string>();

beforeAll(async () => {
  bodies = new Bodies(await freePort());
  place = makePlace(oneDestination([`http://127.0.0.1:${bodies.port}/in`]));
  const live = await start(place, ENV);
  for (let nth = 0; nth < BATCHES; nth++) await accepted(live.url, ids(`batch${nth}-`, 5 + nth * 3));
  for (let nth = 0; nth < SINGLES; nth++) await accepted(live.url, [`single${nth}`]);
  await live.stop();
  cpSync(place.data, stopped(), { recursive: true });
  const again = await start(place, ENV);
  for (let nth = 0; nth < 20; nth++) await accepted(again.url, ids(`late${nth}-`, 3));
  await again.kill();
  cpSync(place.data, killed(), { recursive: true });
  await bodies.open();
  const whole = await start(place, ENV);
  await settled(whole.url);
  await whole.stop();
  await bodies.close();
  for (const [id, [body]] of bodies.seen) right.set(id, body!);
});

afterAll(async () => {
  await endAll();
  await bodies.close();
  place.remove();
});

const stopped = () => join(place.folder, 'stopped');
const killed = () => join(place.folder, 'killed');
const ids = (prefix: string, n: number) => Array.from({ length: n }, (_, nth) => `${prefix}${nth}`);

async function accepted(url: string, of: readonly string[]): Promise<void> {
  const batch = of.map((id) => ({
    type: 'track',
    event: 'Order Placed',
    userId: `user-${id.length}`,
    messageId: id,
    timestamp: '2026-01-01T00:00:00.000Z',
    properties: { check: createHash('sha256').update(id).digest('hex') },
  }));
  expect((await send(url, '/v1/batch', { batch })).status).toBe(200);
}

/** Sent in every round, with a time of its own. */
const COMMON = new Set(['new', 'meanwhile']);

interface Sums {
  readonly pending: number;
  readonly delivered: number;
  readonly dead: Readonly<Record<string, number>>;
  readonly balanced: boolean;
}

/** The ledger once nothing is pending, or once it has not changed for a while. */
async function settled(url: string): Promise<Sums | undefined> {
  let [last, still] = ['', 0];
  return await until(
    'the ledger comes to rest',
    async () => {
      const answer = await fetch(`${url}/api/v1/ledger`, {
        headers: { Authorization: `Bearer ${TOKEN}` },
      });
      if (answer.status !== 200) return undefined;
      const text = await answer.text();
      const { destinations, balanced } = JSON.parse(text) as {
        destinations: Record<string, Sums>;
        balanced: boolean;
      };
      const sums = { ...destinations['crm']!, balanced };
      still = text === last ? still + 1 : 0;
      last = text;
      return (sums.pending === 0 || still > LOOKS_AT_REST) && sums;
    },
    { pause: LOOK_EVERY },
  );
}

/** Damages a file in one of the ways that disks and memory do. */
function damage(path: string, chance: Chance): string {
  const bytes = readFileSync(path);
  const at = chance.between(0, bytes.length - 1);
  const page = Math.floor(at / PAGE) * PAGE;
  const whole = bytes.subarray(page, page + PAGE);
  const how = chance.one(['bit', 'bit', 'bit', 'byte', 'zeros', 'garbage', 'other page'] as const);
  if (how === 'bit') bytes[at]! ^= 1 << chance.between(0, 7);
  else if (how === 'byte') bytes[at] = chance.between(0, 255);
  else if (how === 'zeros') whole.fill(0);
  else if (how === 'garbage') chance.bytes(whole.length).copy(whole);
  else {
    const other = Math.floor(chance.between(0, bytes.length - 1) / PAGE) * PAGE;
    whole.set(bytes.subarray(other, other + PAGE).subarray(0, whole.length));
  }
  writeFileSync(path, bytes);
  return `${how} at ${at}`;
}

/** The file to damage: mostly the store's, sometimes one beside it. */
function fileIn(folder: string, chance: Chance): string {
  const others = readdirSync(folder).filter((name) => (statSync(join(folder, name)).size ?? 0) > 0);
  const name = chance.happens(0.6) ? 'millrace.db' : chance.one(others);
  return join(folder, name);
}

type Tally = Record<'asBefore' | 'contained' | 'turnedAway' | 'refused', number>;

/** Lets the program deliver everything, and expects correct bodies. */
async function judge(live: Instance & { url: string }, data: string, what: string, tally: Tally) {
  const answer = await send(live.url, '/v1/track', { messageId: 'new', userId: 'u', event: 'New' });
  expect([200, 503], what).toContain(answer.status);
  const sums = await settled(live.url);
  // Nothing may be pending at once where the damaged page held the pending sets; this event is delivered from
  // memory.
  if (answer.status === 200 && sums !== undefined)
    await until(`what comes later is delivered, ${what}`, () => bodies.seen.has('new'));
  let missing = 0;
  for (const id of expected(data)) if (!bodies.seen.has(id)) missing++;
  for (const [id, seen] of bodies.seen) {
    if (!COMMON.has(id)) expect([...seen], `${what}: ${id}`).toEqual([right.get(id)]);
  }
  if (answer.status === 503 || sums === undefined) tally.turnedAway++;
  else if (missing === 0) tally.asBefore++;
  else {
    tally.contained++;
    const told = (sums.dead['event_damaged'] ?? 0) > 0 || !sums.balanced;
    expect(
      told,
      `${what}: ${missing} events are missing, and the ledger says so: ${JSON.stringify(sums)}`,
    ).toBe(true);
  }
}

const expected = (data: string) =>
  [...right.keys()].filter((id) => data !== join(place.folder, 'from-stopped') || !id.startsWith('late'));

async function round({ chance, nth, seed }: Round, isRunning: boolean, tally: Tally): Promise<void> {
  const base = isRunning || chance.happens(0.5) ? 'stopped' : 'killed';
  const data = join(place.folder, `from-${base}`);
  rmSync(data, { recursive: true, force: true });
  cpSync(join(place.folder, base), data, { recursive: true });
  bodies.seen.clear();
  let what = `round ${nth}, seed ${seed}, ${base}`;
  const hit = () => {
    const file = fileIn(data, chance);
    what += `, ${file.slice(data.length + 1)}: ${damage(file, chance)}`;
  };
  if (!isRunning) hit();
  try {
    await live({ data, isRunning, hit, what: () => what }, tally);
  } finally {
    await endAll();
    await bodies.close();
  }
}

interface Given {
  readonly data: string;
  readonly isRunning: boolean;
  readonly hit: () => void;
  readonly what: () => string;
}

async function live({ data, isRunning, hit, what }: Given, tally: Tally): Promise<void> {
  if (isRunning && !(await lives({ data, hit, what }, tally))) return;
  await bodies.open();
  const program = launch({ ...place, data }, ENV);
  const url = await program.ready;
  if (url === undefined) {
    await expectRefusal(program, what(), tally);
    return;
  }
  await judge({ ...program, url }, data, what(), tally);
  await program.stop();
}

/** A life in which nothing can be delivered and a file is damaged; false when it does not get so far. */
async function lives({ data, hit, what }: Omit<Given, 'isRunning'>, tally: Tally): Promise<boolean> {
  const program = launch({ ...place, data }, ENV);
  const url = await program.ready;
  if (url === undefined) {
    await expectRefusal(program, what(), tally);
    return false;
  }
  hit();
  const answer = await send(url, '/v1/track', { messageId: 'meanwhile', userId: 'u', event: 'Meanwhile' });
  expect([200, 503], what()).toContain(answer.status);
  await program.stop();
  return true;
}

async function expectRefusal(program: Instance, what: string, tally: Tally): Promise<void> {
  tally.refused++;
  expect(await program.ended, what).toBe(1);
  expect(program.said(), what).toMatch(/restore|bring it back|choose another|damaged/i);
}

/** Rounds from which on their share says something. */
const MANY = 30;

describe('damage', () => {
  it.each([
    ['before a start', false, { gate: 3, long: 120 }],
    ['under the running server', true, { gate: 2, long: 30 }],
  ] as const)(
    '%s never makes it deliver anything else, and nothing is lost without a word',
    async (when, isRunning, amount) => {
      expect(existsSync(stopped()) && existsSync(killed())).toBe(true);
      expect(right.size).toBeGreaterThan(1000);
      const tally: Tally = { asBefore: 0, contained: 0, turnedAway: 0, refused: 0 };
      let made = 0;
      for (const one of roundsOf(`damage ${when}`, amount)) {
        await round(one, isRunning, tally);
        made++;
      }
      passed(`damage ${when}`, { rounds: made, ...tally });
      // Most damage hits rows with a checksum of their own, and stops nothing else. Of a few rounds it may be
      // less than a half.
      if (made >= MANY) expect(tally.asBefore + tally.contained).toBeGreaterThan(made / 2);
    },
  );
});
