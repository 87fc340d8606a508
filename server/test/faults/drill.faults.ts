import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import { millrace } from '../../../cli/test/program.ts';
import { send, track } from '../support/calls.ts';
import { makePlace, type Place } from '../support/program.ts';
import { freePort, startReceiver, type TestReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';
import { endAll, type Instance, start } from './instance.ts';
import { HAS_SMALL_DISK, makeSmallDisk, type SmallDisk } from './small-disk.ts';
import { lasting } from './waiting.ts';

/**
 * A drill for the person on call: a symptom, the one command that names its cause, and the one that repairs
 * it, with the real program against real sockets and disks. It prints what a person would see;
 * docs/operations/runbook.md is written from it.
 */

const yaml = (url: string, keys = '[wk_web_2]') => `
egress: { allow: [127.0.0.0/8] }
sources:
  - { name: website, writeKeys: ${keys} }
destinations:
  - name: crm
    type: webhooks
    sources: [website]
    settings:
      endpoints: [{ url: "${url}", headers: { X-Token: \${TOKEN} } }]
`;

const ended: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  await endAll();
  for (const end of ended.splice(0).reverse()) await end();
});

/** A server with one destination, an operator at a terminal, and clients. */
class Scene {
  readonly place: Place;
  readonly #live: Instance & { url: string };
  #sent = 0;

  private constructor(place: Place, live: Instance & { url: string }) {
    this.place = place;
    this.#live = live;
  }

  static async open(symptom: string, url: string, disk?: SmallDisk): Promise<Scene> {
    console.log(`\n━━ ${symptom}`);
    const made = makePlace(yaml(url));
    ended.push(() => made.remove());
    const place = disk === undefined ? made : { ...made, data: disk.data };
    return new Scene(place, await start(place, { env: { TOKEN: 'token-of-2025', ...disk?.env } }));
  }

  /** Runs a command as the operator types it; resolves to its output. */
  async type(line: string, env: Readonly<Record<string, string>> = {}): Promise<string> {
    const args = line.split(' ').slice(1);
    const where = { MILLRACE_URL: this.#live.url, MILLRACE_DATA: this.place.data };
    const { out, err } = await millrace(
      args.map((arg) => (arg === 'millrace.yaml' ? this.place.config : arg)),
      { ...where, ...env },
    ).ended;
    const said = `${out}${err}`.trimEnd();
    const settings = Object.entries(env).map(([name, value]) => `${name}=${value} `);
    console.log([`$ ${settings.join('')}${line}`, ...said.split('\n')].join('\n  '));
    return said;
  }

  /** Runs a command again until its output matches, and shows the last run only. */
  async typeUntil(line: string, pattern: RegExp): Promise<void> {
    const print = console.log;
    let shown = '';
    try {
      console.log = (text: string) => {
        shown = text;
      };
      await until(`${line} says ${pattern}`, async () => expect(await this.type(line)).toMatch(pattern));
    } finally {
      console.log = print;
    }
    print(shown);
  }

  async call(writeKey = 'wk_web_2'): Promise<number> {
    const { status } = await send(this.#live.url, '/v1/track', track(`order-${++this.#sent}`), { writeKey });
    return status;
  }

  /** Too many and too large for what a full disk still has room for. */
  async importCalls(): Promise<number> {
    const batch = Array.from({ length: 100 }, (_, nth) =>
      track(`import-${nth}`, { properties: { text: randomBytes(2000).toString('hex') } }),
    );
    return (await send(this.#live.url, '/v1/batch', { batch }, { writeKey: 'wk_web_2' })).status;
  }

  edit(yaml: string): void {
    writeFileSync(this.place.config, yaml);
    console.log(`(the file is edited: ${this.place.config.split('/').at(-1)})`);
  }
}

async function receiver(options: Parameters<typeof startReceiver>[0] = {}): Promise<TestReceiver> {
  const started = await startReceiver(options);
  ended.push(() => started.stop());
  return started;
}

describe('the drill', () => {
  it('bad write key: a client still uses the key of last year', async () => {
    const { url, count } = await receiver();
    const scene = await Scene.open('bad write key: nothing arrives from a client', `${url}/in`);
    expect([await scene.call('wk_web_1'), await scene.call('wk_web_1')]).toEqual([401, 401]);
    expect(await scene.type('millrace status')).toMatch(/calls of no source +2 refused: invalid_write_key 2/);
    scene.edit(yaml(`${url}/in`, '[wk_web_2, wk_web_1]'));
    expect(await scene.type('millrace apply -f millrace.yaml', { TOKEN: 'token-of-2025' })).toMatch(
      /~ source website\n +writeKeys: \["wk_web_2"\] → \["wk_web_2", "wk_web_1"\]/,
    );
    expect(await scene.call('wk_web_1')).toBe(200);
    await count(1);
  });

  it('disabled destination: somebody disabled it and forgot', async () => {
    const { url, count } = await receiver();
    const scene = await Scene.open('disabled destination: one destination gets nothing', `${url}/in`);
    const disabled = new Date().toISOString();
    await scene.type('millrace disable crm');
    expect(await scene.call()).toBe(200);
    await scene.typeUntil('millrace status', /crm +disabled.*skipped: destination_disabled 1/);
    expect(await scene.type('millrace enable crm')).toMatch(/^crm is enabled/);
    expect(await scene.type(`millrace replay crm --from ${disabled}`)).toMatch(/1/);
    await count(1);
  });

  it('paused destination: somebody paused it and forgot', async () => {
    const { url, count } = await receiver();
    const scene = await Scene.open('paused destination: one destination gets nothing', `${url}/in`);
    await scene.type('millrace pause crm');
    expect(await scene.call()).toBe(200);
    await scene.typeUntil('millrace status', /crm +paused.*1 waits, kept until/);
    expect(await scene.type('millrace resume crm')).toMatch(/^crm is resumed: the 1 delivery/);
    await count(1);
  });

  it('endpoint 401: the receiver has a new token', async () => {
    const wanted = 'token-of-2026';
    const { url, arrivals, until } = await receiver({
      answer: (response, { headers }) => {
        response.writeHead(headers['x-token'] === wanted ? 200 : 401).end('who are you?');
      },
    });
    const scene = await Scene.open('endpoint 401: deliveries become dead letters', `${url}/in`);
    await scene.call();
    await scene.call();
    await scene.typeUntil('millrace status', /crm .*dead: status_401 2/);
    expect(await scene.type('millrace trace order-1')).toMatch(/401[\s\S]*who are you\?/);
    expect(await scene.type('millrace apply -f millrace.yaml', { TOKEN: wanted })).toMatch(
      /X-Token: a secret/,
    );
    expect(await scene.type('millrace redeliver crm --reason status_401')).toMatch(
      /^2 dead letters of crm are owed/,
    );
    await until(() => arrivals.filter(({ headers }) => headers['x-token'] === wanted).length === 2);
    await scene.typeUntil('millrace status', /crm +healthy +2 +2 +0/);
  });

  // An hour would show the same numbers, only larger; some seconds show the cause and the way back.
  it('endpoint down: nobody listens there, for some seconds in place of an hour', async () => {
    const port = await freePort();
    const url = `http://127.0.0.1:${port}/in`;
    const scene = await Scene.open('endpoint down: one destination falls behind', url);
    for (let nth = 0; nth < 5; nth++) expect(await scene.call()).toBe(200);
    await scene.typeUntil('millrace status', /crm +failing .*failing since .*connection_refused at http/);
    expect(await scene.type('millrace doctor --config millrace.yaml', { TOKEN: 'token-of-2025' })).toMatch(
      /fail +endpoint 1 of crm +http:\/\/127\.0\.0\.1:\d+\/in: connection_refused/,
    );
    const back = await receiver({ port });
    console.log('(the receiver is started again)');
    await back.count(5);
    await scene.typeUntil('millrace status', /crm +healthy +5 +5 +0/);
  });

  it.runIf(HAS_SMALL_DISK)('full disk: calls are turned away until there is space', async () => {
    const { url, count } = await receiver();
    const folder = makePlace('');
    const disk = makeSmallDisk(folder.folder);
    ended.push(
      () => folder.remove(),
      () => disk.remove(),
    );
    const scene = await Scene.open(`full disk (${disk.kind}): clients get 503`, `${url}/in`, disk);
    expect(await scene.call()).toBe(200);
    await count(1);
    // The filler takes every byte that becomes free, and clients send refused calls again.
    let isFilling = true;
    const accepted = (async () => {
      for (let isStored = false; isFilling || !isStored; await lasting(50)) {
        if (isFilling) disk.fill();
        isStored = (await scene.importCalls()) === 200;
      }
    })();
    accepted.catch(() => {});
    await scene.typeUntil('millrace status', /CALLS ARE TURNED AWAY \(503\): .*full/);
    const doctor = await scene.type('millrace doctor');
    expect(doctor).toMatch(/fail +disk sync +nothing can be written \(ENOSPC\)\n +→ free some space/);
    expect(doctor).toMatch(/fail +server +\S+ takes no calls: .*full/);
    isFilling = false;
    disk.free();
    console.log('(space is freed)');
    await accepted;
    await scene.typeUntil(
      'millrace status',
      /^Millrace on [^\n]*\n\n[\s\S]*crm +healthy +(\d+) +\1 +0 [\s\S]*ledger +balanced/,
    );
    expect(await scene.call()).toBe(200);
  });
});
