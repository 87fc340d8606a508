import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { millrace, runVerb, startVerb, type Verb } from '../../../cli/test/program.ts';
import { send, track } from '../support/calls.ts';
import { adminTokenOf, makePlace, type Place, type Program, startProgram } from '../support/program.ts';
import { freePort, startReceiver, type TestReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';

const yaml = (receiver: TestReceiver) => `
egress: { allow: [127.0.0.0/8] }
sources:
  - { name: website, writeKeys: [wk] }
  - { name: app, writeKeys: [wk_app] }
  - { name: bulk, writeKeys: [wk_bulk] }
destinations:
  - { name: crm, type: webhooks, sources: [website], settings: { endpoints: [{ url: "${receiver.url}/in?token=t0ken" }] } }
  - { name: refuses, type: webhooks, sources: [website], settings: { endpoints: [{ url: "${receiver.url}/no" }] } }
`;

describe('watching what happens', () => {
  let receiver: TestReceiver;
  let place: Place;
  let program: Program;
  let port: number;
  const viewers: Viewer[] = [];
  const verbs: Verb[] = [];

  beforeAll(async () => {
    receiver = await startReceiver({
      answer: (response, { path }) => void response.writeHead(path === '/no' ? 410 : 200).end(),
    });
    place = makePlace(yaml(receiver));
    port = await freePort();
  });

  beforeEach(() => start());

  afterEach(async () => {
    for (const viewer of viewers.splice(0)) viewer.socket.destroy();
    for (const verb of verbs.splice(0)) await verb.stop();
  });

  afterAll(async () => {
    await program.kill();
    await receiver.stop();
    place.remove();
  });

  let isRunning = false;

  async function start(): Promise<void> {
    if (isRunning) return;
    isRunning = true;
    const args = ['start', '--config', place.config, '--data', place.data, '--port', String(port)];
    program = await startProgram({ args: [...args, '--host', '127.0.0.1'] });
  }

  function stop(): Promise<number | null> {
    isRunning = false;
    return program.stop();
  }

  const token = () => adminTokenOf(place);
  const tailArguments = (...args: string[]) => ['tail', '--url', program.url, '--data', place.data, ...args];
  const tail = (...args: string[]): Verb => {
    const verb = startVerb(tailArguments(...args));
    verbs.push(verb);
    return verb;
  };
  const sendTo = (key: string, path: string, body: unknown) =>
    send(program.url, path, body, { writeKey: key });

  /** A viewer with a connection of its own, who reads or does not. */
  class Viewer {
    readonly socket: Socket;
    /** The head, comments and events, with the framing of chunks between them. */
    readonly blocks: string[] = [];
    readonly closed: Promise<unknown>;
    #rest = '';

    constructor(query: string, method = 'GET') {
      this.socket = connect(port, '127.0.0.1');
      this.closed = once(this.socket, 'close');
      this.socket.setEncoding('utf8').on('data', (part: string) => {
        const blocks = (this.#rest + part).split('\n\n');
        this.#rest = blocks.pop()!;
        this.blocks.push(...blocks);
      });
      this.socket.on('error', () => {});
      const head = [
        `${method} /api/v1/tail?${query} HTTP/1.1`,
        'Host: localhost',
        `Authorization: Bearer ${token()}`,
      ];
      this.socket.write(`${head.join('\r\n')}\r\n\r\n`);
      viewers.push(this);
    }

    /** Resolves when there are so many blocks of the kind. */
    async saw(pattern: RegExp, count = 1): Promise<this> {
      let seen = 0;
      for (let at = 0; seen < count; at++) {
        while (at >= this.blocks.length) await once(this.socket, 'data');
        if (pattern.test(this.blocks[at]!)) seen++;
      }
      return this;
    }

    /** The last chunk of the answer has come. */
    get isComplete(): boolean {
      return this.#rest.endsWith('0\r\n\r\n');
    }

    events(): { name: string; data: string }[] {
      return this.blocks.flatMap((block) => {
        const [, name, data] = /^event: (\w+)\ndata: (.*)$/m.exec(block) ?? [];
        return name === undefined ? [] : [{ name, data: data! }];
      });
    }

    names(): string[] {
      return this.events().map(({ name }) => name);
    }
  }

  const watching = (query = '') => new Viewer(query).saw(/: watching/);

  it('prints what happens as lines, and ends with 0 at Ctrl-C', async () => {
    const viewer = millrace(tailArguments());
    await viewer.says('err', /watching http/);
    await sendTo('wk', '/v1/track', track('order-1'));
    await viewer.says('out', /crm +200 /);
    await viewer.says('out', /refuses +410 /);
    await sendTo('wk', '/v1/track', track('order-1'));
    await sendTo('wk', '/v1/batch', { batch: [{ type: 'track', userId: 'u1' }] });
    await sendTo('nobody', '/v1/track', track('order-2'));
    await viewer.says('out', /discarded +website/);
    await viewer.says('out', /discarded +–/);
    viewer.child.kill('SIGINT');
    const { code, out, err } = await viewer.ended;
    expect({ code, err }).toEqual({ code: 0, err: `millrace: watching ${program.url}, until Ctrl-C.\n` });
    expect(out.trimEnd().split('\n')).toHaveLength(6);
    expect(out).toMatch(/^\S+ {2}track +Order Placed +u1 +accepted in \S+ ms$/m);
    expect(out).toMatch(/^\S+ {2}track +Order Placed +u1 +duplicate, not delivered again$/m);
    expect(out).toMatch(/^\S+ {2}→ track +Order Placed +u1 +crm +200 in \S+ ms$/m);
    expect(out).toMatch(
      /^\S+ {2}✗ track +Order Placed +u1 +refuses +410 in \S+ ms, dead letter: status_410$/m,
    );
    expect(out).toMatch(/^\S+ {2}– +discarded +website +event_not_defined$/m);
    expect(out).toMatch(/^\S+ {2}– +discarded +– +invalid_write_key$/m);
  });

  it('prints whole events and JSON when asked, and never a write key or a secret', async () => {
    const whole = tail('--body', '--type', 'track', '--source', 'website');
    const json = tail('--json', '--failed', '--destination', 'refuses');
    await Promise.all([whole, json].map((one) => one.says('err', /watching/)));
    await sendTo('wk', '/v1/page', { ...track('page-1'), type: 'page', name: 'Home' });
    await sendTo('wk', '/v1/track', track('order-3', { writeKey: 'wk' }));
    const [line] = await json.says('out', /.*"order-3".*\n/);
    await whole.says('out', /refuses/);
    await whole.says('out', / {4} {2}"properties": \{\n {4} {4}"total": 9\n/);
    const { out } = await whole.stop();
    const told = await json.stop();
    expect(out).not.toMatch(/Home|wk|t0ken/);
    expect(JSON.parse(line)).toEqual({
      ...{
        kind: 'settled',
        at: expect.any(String),
        source: 'website',
        destination: 'refuses',
        state: 'dead',
      },
      reason: 'status_410',
      event: { messageId: 'order-3', type: 'track', userId: 'u1', event: 'Order Placed' },
      attempts: [
        {
          ...{ endpoint: `${receiver.url}/no`, startedAt: expect.any(String), latencyMs: expect.any(Number) },
          ...{ outcome: 'refused', reason: 'status_410', status: 410 },
        },
      ],
    });
    expect(told.out.trimEnd().split('\n')).toHaveLength(2);
  });

  it('shows to each what passes its filter', async () => {
    const [all, app, crm, failed] = await Promise.all(
      ['', 'source=app', 'destination=crm', 'failed=true'].map(watching),
    );
    await sendTo('wk_app', '/v1/track', track('app-1'));
    await sendTo('wk', '/v1/track', track('web-1'));
    await all!.saw(/event: settled/, 2);
    await Promise.all([app!.saw(/app-1/), crm!.saw(/web-1/), failed!.saw(/web-1/)]);
    expect(all!.names().sort()).toEqual(['accepted', 'accepted', 'settled', 'settled']);
    expect(app!.names()).toEqual(['accepted']);
    expect(crm!.names()).toEqual(['settled']);
    expect(failed!.names()).toEqual(['settled']);
    expect(failed!.events()[0]!.data).toContain('"destination":"refuses"');
  });

  it('watches a server that was restarted, and says so', async () => {
    const viewer = tail();
    await viewer.says('err', /watching/);
    expect(await stop()).toBe(0);
    await viewer.says('err', /ended the connection; trying again/);
    await start();
    await viewer.says('err', /watching \S+ again/);
    await sendTo('wk', '/v1/track', track('order-2'));
    await viewer.says('out', /crm +200/);
    expect((await viewer.stop()).code).toBe(0);
  });

  it('ends with 1 where there is nothing to watch, and with 2 for what it does not understand', async () => {
    const ends = async (...args: string[]) => {
      const { code, out, err } = await runVerb(tailArguments(...args));
      expect(out).toBe('');
      return [code, err];
    };
    const nobody = `http://127.0.0.1:${await freePort()}`;
    const wrong: [string[], number, string][] = [
      [['--source', 'nobody'], 1, '"nobody" is no source'],
      [['--destination', 'crn'], 1, '"crn" is no destination'],
      [['--token', 'wrong'], 1, 'refused the token'],
      [['--url', nobody], 1, 'server unreachable at'],
      [['--type', 'order'], 2, 'Allowed choices are identify'],
    ];
    const ended = await Promise.all(wrong.map(([args]) => ends(...args)));
    expect(ended).toEqual(wrong.map(([, code, err]) => [code, expect.stringContaining(err)]));
  });

  it('gives 20 viewers a place and asks the next to come again, answers HEAD, and stops with all of them', async () => {
    await Promise.all(Array.from({ length: 20 }, () => watching()));
    const headers = { authorization: `Bearer ${token()}` };
    const full = await fetch(`${program.url}/api/v1/tail`, { headers });
    expect([full.status, full.headers.get('retry-after'), full.headers.get('content-type')]).toEqual([
      ...[503, '10', 'application/problem+json'],
    ]);
    expect(await full.json()).toMatchObject({ code: 'too_many_viewers' });
    viewers.pop()!.socket.destroy();
    // The place becomes free once the server notices the closed connection.
    const head = await until('a place is free', async () => {
      const answer = await fetch(`${program.url}/api/v1/tail`, { method: 'HEAD', headers });
      return answer.status !== 503 && answer;
    });
    expect([head.status, head.headers.get('content-type')]).toEqual([200, 'text/event-stream']);
    expect(await stop()).toBe(0);
    // Their answers were brought to an end, which a stop that waits until its grace is over does not do.
    await Promise.all(viewers.map(({ closed }) => closed));
    expect(viewers.map(({ isComplete }) => isComplete)).toEqual(viewers.map(() => true));
  });

  it('never waits for a viewer who does not read: every call is stored, and the viewer is told what is missing', async () => {
    const [calls, size] = [20_000, 400];
    const slow = await watching('source=bulk&body=true');
    slow.socket.pause();
    const quick = await watching('source=bulk');
    const properties = { text: 'x'.repeat(1000) };
    for (let n = 0; n < calls; n += size) {
      const batch = Array.from({ length: size }, (_, nth) => track(`m-${n + nth}`, { properties }));
      expect((await sendTo('wk_bulk', '/v1/batch', { batch })).status).toBe(200);
    }
    await quick.saw(new RegExp(`"m-${calls - 1}"`));
    slow.socket.resume();
    // A few are missing before the system's buffers are full, most of them afterwards.
    let [shown, missing] = [0, 0];
    for (let at = 0; shown + missing < calls; at++) {
      while (at >= slow.blocks.length) await once(slow.socket, 'data');
      const [, name, lost = 0] = /event: (\w+)\ndata: (?:\{"count":(\d+))?/.exec(slow.blocks[at]!) ?? [];
      if (name === 'accepted') shown++;
      missing += Number(lost);
    }
    expect(shown + missing).toBe(calls);
    expect(missing).toBeGreaterThan(0);
    // Only the system's buffers and a little of the server's kept events; all events together are 28 MB.
    expect(slow.blocks.reduce((sum, { length }) => sum + length, 0)).toBeLessThan(20_000_000);
    const ledger = await fetch(`${program.url}/api/v1/ledger`, {
      headers: { authorization: `Bearer ${token()}` },
    });
    expect(await ledger.json()).toMatchObject({ sources: { bulk: { received: calls, accepted: calls } } });
    slow.socket.pause();
    expect(await stop()).toBe(0);
  });
});
