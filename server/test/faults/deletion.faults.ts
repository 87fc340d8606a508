import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { zstdDecompressSync } from 'node:zlib';
import { afterEach, describe, expect, it } from 'vitest';
import { send, track } from '../support/calls.ts';
import { adminTokenOf, makePlace, type Place } from '../support/program.ts';
import { freePort, startReceiver, type TestReceiver } from '../support/receiver.ts';
import { endAll, type Instance, start } from './instance.ts';
import { lasting } from './waiting.ts';

/**
 * A user with 10,000 events in many chunks, deleted from a real program: afterwards no file of the data folder holds a byte of the
 * user, raw or compressed, in a page that is used or not. The same with a kill at every step.
 */

const USER = 'erase-me-7f3a9c';
const ANONYMOUS = 'anon-erase-4be1';
/** Stands in every event of the user, and nowhere else. */
const MARK = 'mark-of-erased-55d0';
const EVENTS = 10_000;

/** Each is stored when it begins, and repeated after a crash. */
const STEPS = ['survey', 'erase', 'notify', 'await', 'finish', 'clean'];

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

  private constructor(place: Place, crm: TestReceiver) {
    this.place = place;
    this.crm = crm;
  }

  /** `crm` accepts, `refusing` refuses and repeats what it got, `down` does not listen. */
  static async open({ withDown = false, more = '' } = {}): Promise<Drill> {
    const crm = await startReceiver();
    const refusing = await startReceiver({
      answer: (response, { body }) => response.writeHead(410).end(`no: ${body}`),
    });
    const down = `http://127.0.0.1:${await freePort()}/in`;
    const urls = { crm: crm.url, refusing: refusing.url, ...(withDown ? { down } : {}) };
    const place = makePlace(yaml(urls, more));
    ended.push(
      () => place.remove(),
      () => crm.stop(),
      () => refusing.stop(),
    );
    const drill = new Drill(place, crm);
    await drill.start();
    return drill;
  }

  async start(): Promise<void> {
    this.live = await start(this.place);
  }

  /** Resolves to the first step at this place or behind it that the program has begun since its start; to −1 when the deletion is done. */
  async stepFrom(place: number, id: string): Promise<number> {
    const begun = () =>
      STEPS.findIndex((name, nth) => nth >= place && this.live.said().includes(`"step":"${name}"`));
    for (;;) {
      if (begun() >= 0) return begun();
      const { finishedAt } = await this.api<Receipt>('GET', `regulations/${id}`);
      if (finishedAt !== undefined) return begun();
    }
  }

  async killAndStart(): Promise<void> {
    await this.live.kill();
    await this.start();
  }

  /** Events of the user among as many of others, in batches and in single calls. */
  async fill(events = EVENTS): Promise<void> {
    let nth = 0;
    const next = (userId: string | undefined, properties: object) =>
      track(`m-${nth++}`, { userId, anonymousId: userId === undefined ? ANONYMOUS : undefined, properties });
    for (let sent = 0; sent < events; sent += 200) {
      const batch = Array.from({ length: 400 }, (_, n) => {
        if (n % 2 === 1) return next(`user-${n}`, { n });
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
    for (;;) {
      const receipt = await this.api<Receipt>('GET', `regulations/${id}`);
      if (receipt.finishedAt !== undefined) return receipt;
      await lasting(50);
    }
  }

  notifications(): string[] {
    const found = this.crm.arrivals.filter(({ body }) => body.includes('"type":"delete"'));
    return found.map(({ headers }) => String(headers['webhook-id'])).sort();
  }

  async expectNothingLeft(): Promise<void> {
    await this.live.stop();
    for (const text of [USER, ANONYMOUS, MARK])
      expect([text, placesOf(text, this.place.data)]).toEqual([text, []]);
  }
}

interface Receipt {
  readonly overallStatus: string;
  readonly finishedAt?: string;
  readonly erased: { readonly events: number; readonly deadLetters: number };
  readonly profiles?: number;
  readonly streamStatus: readonly {
    source: string;
    destination: string;
    status: string;
    confirmed: number;
  }[];
}

/** Where a text stands in the files of a folder: in their bytes, or in anything compressed in them. */
function placesOf(text: string, folder: string): string[] {
  const places: string[] = [];
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    const bytes = readFileSync(path);
    if (bytes.includes(text)) places.push(`${name}: raw at ${bytes.indexOf(text)}`);
    // Frames of zstd wherever they begin: in rows, in the gaps between them, in free pages.
    for (let at = bytes.indexOf(ZSTD); at >= 0; at = bytes.indexOf(ZSTD, at + 1)) {
      if (beginning(bytes.subarray(at, at + 65_536)).includes(text))
        places.push(`${name}: compressed at ${at}`);
    }
  }
  const file = join(folder, 'millrace.db');
  if (!existsSync(file)) return places;
  const database = new DatabaseSync(file, { readOnly: true });
  for (const { first, codec, body } of database
    .prepare('select first, codec, body from chunk')
    .all() as unknown as Row[])
    if (codec % 16 === 1 && zstdDecompressSync(body).includes(text)) places.push(`chunk ${first}`);
  database.close();
  return places;
}

interface Row {
  first: number;
  codec: number;
  body: Uint8Array;
}

const ZSTD = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);

/** What the beginning of a frame decompresses to, although its end may be missing. */
function beginning(frame: Buffer): Buffer {
  try {
    return zstdDecompressSync(frame, { finishFlush: 0 } as never);
  } catch {
    return Buffer.alloc(0);
  }
}

describe('the deletion of a user with 10,000 events', () => {
  it('leaves no byte in any file, tells each source once, and balances', async () => {
    const drill = await Drill.open({ withDown: true });
    await drill.fill();
    await drill.crm.count(1);
    await drill.live.stop();
    for (const text of [USER, ANONYMOUS, MARK]) expect(placesOf(text, drill.place.data)).not.toEqual([]);
    await drill.start();
    const id = await drill.delete(USER);
    // The endpoint that is down would be tried for hours.
    await lasting(3000);
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

  it('comes to the same end when the program is killed at each of its steps', async () => {
    const drill = await Drill.open({ more: 'log: debug' });
    await drill.fill(4000);
    await drill.crm.count(1);
    const id = await drill.delete(USER);
    const killed: string[] = [];
    while (killed.at(-1) !== STEPS.at(-1)) {
      const step = await drill.stepFrom(STEPS.indexOf(killed.at(-1) ?? '') + 1, id);
      if (step < 0) break;
      await drill.killAndStart();
      killed.push(STEPS[step]!);
    }
    // A step that ends before the signal arrives is missing here.
    console.log(`  deletion: killed in ${killed.join(', ')}`);
    expect(killed[0]).toBe('survey');
    const receipt = await drill.receipt(id);
    expect(receipt.erased.events).toBe(4000 + 30);
    // A notification may be sent twice when the program dies before its result is written; it then has the same id.
    expect([...new Set(drill.notifications())]).toEqual([`del_${id}_app_1`, `del_${id}_website_1`]);
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
