import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { zstdDecompressSync } from 'node:zlib';
import { afterEach, describe, expect, it } from 'vitest';
import { send, track } from '../support/calls.ts';
import {
  type Death,
  DiskFaults,
  dyingAt,
  HAS_DISK_FAULTS,
  sayWhatIsLeftOut,
} from '../support/disk-faults/faults.ts';
import { adminTokenOf, makePlace, type Place } from '../support/program.ts';
import { type Arrival, freePort, startReceiver, type TestReceiver } from '../support/receiver.ts';
import { amountOf, IS_LONG } from '../support/runs.ts';
import { until, within } from '../support/until.ts';
import { endAll, type Instance, launch, start } from './instance.ts';
import { passed } from './passed.ts';

/**
 * A user with thousands of events in many chunks, deleted from a real program: afterwards no file of the data
 * folder holds a byte of the user, raw or compressed, in a page that is used or not. The same with a kill at
 * every step.
 */

const USER = 'erase-me-7f3a9c';
const ANONYMOUS = 'anon-erase-4be1';
/** Stands in every event of the user, and nowhere else. */
const MARK = 'mark-of-erased-55d0';
const EVENTS = amountOf({ gate: 2000, long: 10_000 });

const NOTIFICATION = '"type":"delete"';

const ended: (() => unknown)[] = [];
afterEach(async () => {
  await endAll();
  for (const end of ended.splice(0).reverse()) await end();
});

const yaml = (urls: Readonly<Record<string, string>>, more = '') => `
egress: { allow: [127.0.0.0/8] }
sources:
  - { name: website, writeKeys: [wk] }
  - { name: app, writeKeys: [wk_app] }
destinations:
${Object.entries(urls)
  .map(
    ([name, url]) => `  - name: ${name}
    type: webhooks
    sources: [website, app]
    settings: { endpoints: [{ url: "${url}" }] }`,
  )
  .join('\n')}
${more}
`;

class Drill {
  readonly place: Place;
  readonly crm: TestReceiver;
  live!: Instance & { url: string };
  /** Called with each request to `crm` before it is answered. */
  onArrival: (arrival: Arrival) => void = () => {};
  /** Events with this text are refused by `late`, and wait. */
  refused = MARK;

  private constructor(place: Place, crm: TestReceiver) {
    this.place = place;
    this.crm = crm;
  }

  /**
   * `crm` accepts, `refusing` refuses and repeats what it got, `late` accepts nothing of one user but the
   * notification, `down` does not listen.
   */
  static async open({ withDown = false, withLate = false, more = '' } = {}): Promise<Drill> {
    const crm = await startReceiver({
      answer: (response, arrival) => {
        drill.onArrival(arrival);
        response.end();
      },
    });
    const refusing = await startReceiver({
      answer: (response, { body }) => response.writeHead(410).end(`no: ${body}`),
    });
    const late = await startReceiver({
      answer: (response, { body }) =>
        response
          .writeHead(body.includes(drill.refused) && !body.includes(NOTIFICATION) ? 500 : 200)
          .end(`got ${body}`),
    });
    const down = `http://127.0.0.1:${await freePort()}/in`;
    const urls = {
      ...{ crm: crm.url, refusing: refusing.url },
      ...(withDown ? { down } : {}),
      ...(withLate ? { late: late.url } : {}),
    };
    const place = makePlace(yaml(urls, more));
    ended.push(
      () => place.remove(),
      () => crm.stop(),
      () => refusing.stop(),
      () => late.stop(),
    );
    const drill = new Drill(place, crm);
    await drill.start();
    return drill;
  }

  async start(env: Readonly<Record<string, string>> = {}): Promise<void> {
    this.live = await start(this.place, { env });
  }

  /** Events of the user among as many of others, in batches and in single calls. */
  async fill(events = EVENTS): Promise<void> {
    let nth = 0;
    const next = (userId: string | undefined, properties: object) =>
      track(`m-${nth++}`, { userId, anonymousId: userId === undefined ? ANONYMOUS : undefined, properties });
    for (let sent = 0; sent < events; sent += 200) {
      const batch = Array.from({ length: 400 }, (_, n) => {
        if (n % 2 === 1) return { ...next(`user-${n}`, { n }), integrations: { All: false } };
        if (n % 40 === 0) return next(undefined, { mark: MARK });
        return next(USER, { mark: MARK, text: `${MARK} ${n}` });
      });
      const writeKey = sent % 1000 === 0 ? 'wk_app' : 'wk';
      expect((await send(this.live.url, '/v1/batch', { batch }, { writeKey })).status).toBe(200);
    }
    for (let n = 0; n < 60; n++) {
      const one = track(`single-${n}`, { userId: USER, anonymousId: ANONYMOUS, properties: { mark: MARK } });
      await send(
        this.live.url,
        '/v1/track',
        n % 2 === 0
          ? one
          : { ...one, messageId: `s-${n}`, userId: `x${n}`, anonymousId: `y${n}`, properties: { n } },
      );
    }
    // It has no event, and leaves a sample.
    await send(this.live.url, '/v1/track', { userId: USER, properties: { mark: MARK } });
  }

  async api<Answer>(method: string, path: string, body?: object): Promise<Answer> {
    const response = await fetch(`${this.live.url}/api/v1/${path}`, {
      method,
      headers: { authorization: `Bearer ${adminTokenOf(this.place)}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return (await response.json()) as Answer;
  }

  async delete(...subjectIds: string[]): Promise<string> {
    const { id } = await this.api<{ id: string }>('POST', 'regulations', { type: 'DELETE_ONLY', subjectIds });
    return id;
  }

  async receipt(id: string): Promise<Receipt> {
    return await until('the deletion has ended', async () => {
      const receipt = await this.api<Receipt>('GET', `regulations/${id}`);
      return receipt.finishedAt !== undefined && receipt;
    });
  }

  notifications(userId = USER): string[] {
    const found = this.crm.arrivals.filter(
      ({ body }) => body.includes(NOTIFICATION) && body.includes(userId),
    );
    return found.map(({ headers }) => String(headers['webhook-id'])).sort();
  }

  async expectNothingLeft(): Promise<void> {
    await this.live.stop();
    expect(placesOf([USER, ANONYMOUS, MARK], this.place.data)).toEqual([]);
  }
}

interface Receipt {
  readonly overallStatus: string;
  readonly finishedAt?: string;
  readonly erased: { readonly events: number; readonly deliveries: number; readonly deadLetters: number };
  readonly profiles?: number;
  readonly streamStatus: readonly {
    source: string;
    destination: string;
    status: string;
    confirmed: number;
  }[];
}

/**
 * Where texts stand in the files of a folder: in their bytes, used or not, or in anything compressed in them.
 */
function placesOf(texts: readonly string[], folder: string): string[] {
  const places: string[] = [];
  const look = (bytes: Buffer, place: string) => {
    for (const text of texts) if (bytes.includes(text)) places.push(`${text} in ${place}`);
  };
  for (const name of readdirSync(folder)) {
    const bytes = readFileSync(join(folder, name));
    look(bytes, name);
    // Frames of zstd wherever they begin: in rows, in the gaps between them, in free pages.
    for (let at = bytes.indexOf(ZSTD); at >= 0; at = bytes.indexOf(ZSTD, at + 1))
      look(beginning(bytes.subarray(at, at + 65_536)), `${name}, compressed at ${at}`);
  }
  const file = join(folder, 'millrace.db');
  if (!existsSync(file)) return places;
  const database = new DatabaseSync(file, { readOnly: true });
  for (const { first, codec, body } of database
    .prepare('select first, codec, body from chunk')
    .all() as unknown as Row[])
    if (codec % 16 === 1) look(zstdDecompressSync(body), `chunk ${first}`);
  database.close();
  return places;
}

interface Row {
  first: number;
  codec: number;
  body: Uint8Array;
}

const ZSTD = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);

/** Decompresses the beginning of a frame, although its end may be missing. */
function beginning(frame: Buffer): Buffer {
  try {
    return zstdDecompressSync(frame, { finishFlush: 0 } as never);
  } catch {
    return Buffer.alloc(0);
  }
}

describe('the deletion of a user with thousands of events', () => {
  it('leaves no byte in any file, tells each source once, and balances', async () => {
    const drill = await Drill.open({ withDown: true });
    await drill.fill();
    await drill.crm.count(1);
    await drill.live.stop();
    for (const text of [USER, ANONYMOUS, MARK]) expect(placesOf([text], drill.place.data)).not.toEqual([]);
    await drill.start();
    const id = await drill.delete(USER);
    // The endpoint that is down would be tried for hours.
    await drill.crm.until(() => drill.notifications().length === 2);
    await drill.api('DELETE', 'destinations/down?confirm=true').catch(() => {});
    const receipt = await drill.receipt(id);
    expect(receipt.overallStatus).toBe('PARTIAL_SUCCESS');
    expect(receipt.erased.events).toBe(EVENTS + 30);
    const confirmed = receipt.streamStatus.filter(({ destination }) => destination === 'crm');
    expect(confirmed.map(({ source, status }) => `${source} ${status}`).sort()).toEqual([
      'app FINISHED',
      'website FINISHED',
    ]);
    expect(drill.notifications()).toEqual([`del_${id}_app_1`, `del_${id}_website_1`]);
    expect(await drill.api('GET', 'ledger')).toMatchObject({ balanced: true });
    await drill.expectNothingLeft();
  });

  it('takes the profile and the memberships with it, and tells who heard of them', async () => {
    const more = [
      'audiences:',
      `  - { name: Buyers, definition: "event('Order Placed').count() >= 1", destinations: [crm] }`,
      `  - { name: Regulars, definition: "event('Order Placed').within(7 days).count() >= 5", destinations: [crm] }`,
      'traits:',
      `  - { name: Orders, definition: "event('Order Placed').count()", destinations: [crm] }`,
    ].join('\n');
    const drill = await Drill.open({ more });
    await drill.fill(1000);
    const isTold = (key: string) =>
      drill.crm.arrivals.some(
        ({ body }) => body.includes(`"computation_key":"${key}"`) && body.includes(USER),
      );
    await drill.crm.until(() => ['buyers', 'regulars', 'orders'].every(isTold));
    const id = await drill.delete(USER);
    const receipt = await drill.receipt(id);
    expect(receipt.profiles).toBe(1);
    expect(drill.notifications()).toEqual([
      `del_${id}_app_1`,
      `del_${id}_audiences_1`,
      `del_${id}_website_1`,
    ]);
    expect(await drill.api('GET', 'ledger')).toMatchObject({ balanced: true });
    await drill.expectNothingLeft();
  });
});

const LOG_WAL = 'millrace.db-wal';
const PROFILES_WAL = 'users.db-wal';

const begins = (step: string, part?: string) =>
  part === undefined ? `"step":"${step}","event"` : `"part":"${part}"`;

interface Killing extends Death {
  /** Name of the step at which the program dies. */
  readonly name: string;
  /** How the program that comes after it dies too. */
  readonly again?: Death;
  /** A notification may have been sent before, and is then sent once more with the same id. */
  readonly mayRepeat?: boolean;
}

/** Before a storage call of a step; `text` names the step. */
const before = (
  name: string,
  text: string,
  [file, kind, nth]: readonly [string, 'write' | 'sync' | 'truncate', number],
): Killing => ({ name, text, call: { file, kind, nth } });

const ALL_KILLINGS: readonly Killing[] = [
  { name: 'the record was made', text: '"regulation.made"' },
  { name: 'the survey', text: begins('survey') },
  before('the survey is stored', begins('survey'), [LOG_WAL, 'sync', 1]),
  { name: 'the erasure begins', text: begins('erase', 'events') },
  before('a slice of chunks, queue, dead letters and answers', begins('erase', 'events'), [
    LOG_WAL,
    'write',
    3,
  ]),
  before('the first slice is synced', begins('erase', 'events'), [LOG_WAL, 'sync', 1]),
  before('the second slice is synced', begins('erase', 'events'), [LOG_WAL, 'sync', 2]),
  before('the third slice is synced', begins('erase', 'events'), [LOG_WAL, 'sync', 3]),
  { name: 'profiles', text: begins('erase', 'profiles') },
  before('the profile is deleted', begins('erase', 'profiles'), [PROFILES_WAL, 'write', 2]),
  before('its deletion is synced', begins('erase', 'profiles'), [PROFILES_WAL, 'sync', 1]),
  before('the file of profiles is overwritten', begins('erase', 'profiles'), ['users.db', 'write', 1]),
  before('the file of profiles is synced', begins('erase', 'profiles'), ['users.db', 'sync', 1]),
  before('the log of profiles is emptied', begins('erase', 'profiles'), [PROFILES_WAL, 'truncate', 1]),
  before('it is emptied again', begins('erase', 'profiles'), [PROFILES_WAL, 'truncate', 2]),
  {
    ...before('the file of profiles is made anew', begins('erase', 'profiles'), [
      PROFILES_WAL,
      'truncate',
      1,
    ]),
    again: { text: '"profiles.started"', call: { file: PROFILES_WAL, kind: 'write', nth: 20 } },
  },
  {
    ...before('the new file of profiles takes its place', begins('erase', 'profiles'), [
      PROFILES_WAL,
      'truncate',
      1,
    ]),
    again: { text: '"profiles.started"', call: { file: 'users.db', kind: 'write', nth: 5 } },
  },
  { name: 'requests in flight', text: begins('erase', 'requests') },
  { name: 'samples of discarded calls', text: begins('erase', 'samples') },
  { name: 'saved answers', text: begins('erase', 'answers') },
  { name: 'free pages', text: begins('erase', 'space') },
  before('the log is overwritten', begins('erase', 'space'), ['millrace.db', 'write', 1]),
  before('the write-ahead log is emptied', begins('erase', 'space'), [LOG_WAL, 'truncate', 1]),
  { name: 'notifications', text: begins('notify') },
  before('notifications are stored', begins('notify'), [LOG_WAL, 'sync', 1]),
  { name: 'the deliveries of notifications', text: begins('await'), mayRepeat: true },
  { ...before('a result is stored', begins('await'), [LOG_WAL, 'sync', 1]), mayRepeat: true },
  { name: 'a notification arrives', text: '', mayRepeat: true },
  { name: 'notifications are erased', text: begins('finish'), mayRepeat: true },
  { ...before('their erasure is synced', begins('finish'), [LOG_WAL, 'sync', 1]), mayRepeat: true },
  { name: 'the last cleaning', text: begins('clean'), mayRepeat: true },
  { ...before('its write-ahead log', begins('clean'), [LOG_WAL, 'truncate', 1]), mayRepeat: true },
  { ...before('the receipt', begins('clean'), [LOG_WAL, 'sync', 1]), mayRepeat: true },
  { name: 'the receipt was stored', text: '"regulation.done"', mayRepeat: true },
];

/**
 * Cases in the gate: in the log, in the profiles (a program that dies twice), in the free pages, and during
 * notification.
 */
const IN_GATE = new Set([
  'the second slice is synced',
  'the file of profiles is made anew',
  'the log is overwritten',
  'a notification arrives',
]);

const KILLINGS = ALL_KILLINGS.filter(({ name }) => IS_LONG || IN_GATE.has(name));

/** The texts of the nth user, which stand nowhere else. */
const textsOf = (nth: number) => {
  const own = String(nth).padStart(2, '0');
  return { user: `erase-${own}-7f3a`, anonymous: `anon-${own}-4be1`, mark: `mark-${own}-55d0` };
};

/** Chunks that are too full to be merged: more than two slices of the erasure. */
const BATCHES = 34;
/** Each user's events of a batch. */
const EACH = Math.ceil(490 / KILLINGS.length);

/** Events that wait when their user is deleted. */
const WAITING = 40;

/**
 * Every user has events in every chunk, delivered to one destination and dead for another; a profile, and two
 * memberships.
 */
async function fillWithAll(drill: Drill): Promise<void> {
  const users = KILLINGS.map((_, nth) => textsOf(nth));
  for (let nth = 0; nth < BATCHES; nth++) {
    const batch = users.flatMap(({ user, anonymous, mark }) =>
      Array.from({ length: EACH }, (_, n) =>
        track(`${mark}-${nth}-${n}`, {
          userId: n % 7 === 6 ? undefined : user,
          anonymousId: n % 7 >= 5 ? anonymous : undefined,
          event: 'Order Placed',
          properties: { mark },
          // One of eight is owed, delivered and dead; the others fill the chunks.
          ...(n % 8 === 0 ? {} : { integrations: { All: false } }),
        }),
      ),
    );
    const writeKey = nth % 2 === 0 ? 'wk_app' : 'wk';
    expect((await send(drill.live.url, '/v1/batch', { batch }, { writeKey })).status).toBe(200);
  }
}

sayWhatIsLeftOut('a deletion killed in each of its steps');

describe.runIf(HAS_DISK_FAULTS)('a deletion whose program is killed', () => {
  it('comes to the same end, in whichever step it was', async () => {
    const more = [
      'log: debug',
      'audiences:',
      `  - { name: Buyers, definition: "event('Order Placed').count() >= 1", destinations: [crm] }`,
      `  - { name: Regulars, definition: "event('Order Placed').within(7 days).count() >= 5", destinations: [crm] }`,
    ].join('\n');
    const drill = await Drill.open({ withLate: true, more });
    const disk = new DiskFaults(drill.place.data);
    ended.push(() => disk.remove());
    await fillWithAll(drill);
    for (const [nth] of KILLINGS.entries()) {
      const { user } = textsOf(nth);
      const isTold = ({ body }: Arrival) =>
        body.includes('"computation_key":"regulars"') && body.includes(user);
      await drill.crm.until(() => drill.crm.arrivals.some(isTold));
    }
    await drill.live.stop();
    for (const [nth, killing] of KILLINGS.entries()) await killIn(drill, { nth, killing, disk });
    passed('deletion', { kills: KILLINGS.length + KILLINGS.filter(({ again }) => again).length });
  });
});

/** Deletes the nth user in a program that dies, lets the next one finish it, and looks at what is left. */
async function killIn(
  drill: Drill,
  { nth, killing, disk }: { nth: number; killing: Killing; disk: DiskFaults },
): Promise<void> {
  const { name, again, mayRepeat = false } = killing;
  const texts = textsOf(nth);
  await drill.start({ ...disk.env, ...(killing.text === '' ? {} : dyingAt(killing)) });
  drill.refused = texts.user;
  await send(drill.live.url, '/v1/track', { userId: texts.user, properties: { mark: texts.mark } });
  const batch = Array.from({ length: WAITING }, (_, n) =>
    track(`${texts.mark}-waiting-${n}`, { userId: texts.user, properties: { mark: texts.mark } }),
  );
  await send(drill.live.url, '/v1/batch', { batch });
  if (killing.text === '') {
    drill.onArrival = ({ body }) => {
      if (body.includes(NOTIFICATION) && body.includes(texts.user)) process.kill(drill.live.pid, 'SIGKILL');
    };
  }
  // The program may die before it answers.
  await drill.delete(texts.user).catch(() => {});
  expect([name, await within(`it dies: ${name}`, drill.live.ended)]).toEqual([name, null]);
  drill.onArrival = () => {};
  if (again !== undefined) {
    const next = launch(drill.place, { env: { ...disk.env, ...dyingAt(again) } });
    expect([name, await within(`it dies again: ${name}`, next.ended)]).toEqual([name, null]);
  }
  await drill.start();
  const { data } = await drill.api<{ data: readonly { id: string }[] }>('GET', 'regulations?limit=1');
  const { id } = data[0]!;
  const trail = await drill.api<{ data: readonly object[] }>('GET', `audit?kind=regulation&name=${id}`);
  expect([name, trail.data]).toMatchObject([name, [{ action: 'created', by: 'admin' }]]);
  // It would be tried again in some seconds.
  await drill.api('POST', 'destinations/late/pause');
  await drill.api('POST', 'destinations/late/resume');
  const receipt = await drill.receipt(id);
  expect([name, receipt]).toMatchObject([name, { profiles: 1, overallStatus: 'PARTIAL_SUCCESS' }]);
  expect([name, receipt.erased.deliveries > 0]).toEqual([name, true]);
  expect([name, receipt.erased.events]).toEqual([name, BATCHES * EACH + WAITING + 2]);
  const told = drill.notifications(texts.user);
  const all = ['app', 'audiences', 'website'].map((source) => `del_${id}_${source}_1`);
  expect([name, [...new Set(told)]]).toEqual([name, all]);
  if (!mayRepeat) expect([name, told.length]).toEqual([name, all.length]);
  expect([name, await drill.api('GET', 'ledger')]).toMatchObject([name, { balanced: true }]);
  await drill.live.stop();
  expect([name, placesOf(Object.values(texts), drill.place.data)]).toEqual([name, []]);
}
