import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { createServer as createTlsServer } from 'node:tls';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { millrace, runVerb } from '../../../cli/test/program.ts';
import { send, track } from '../support/calls.ts';
import { adminTokenOf, makePlace, type Place, type Program, ROOT, startProgram } from '../support/program.ts';
import { freePort, startReceiver, type TestReceiver } from '../support/receiver.ts';

/** A real server for one of the sources, which comes back at the same address after a kill. */
class RealCell {
  readonly name: string;
  readonly place: Place;
  readonly #port: number;
  program!: Program;

  private constructor(name: string, place: Place, port: number) {
    this.name = name;
    this.place = place;
    this.#port = port;
  }

  static async open(name: string, endpoint: string): Promise<RealCell> {
    const destination = {
      ...{ name: 'crm', type: 'webhooks', sources: [name] },
      settings: { endpoints: [{ url: `${endpoint}/${name}` }] },
    };
    const configuration = {
      egress: { allow: ['127.0.0.0/8'] },
      sources: [{ name, writeKeys: [`wk-${name}`] }],
      destinations: [destination],
    };
    const cell = new RealCell(name, makePlace(JSON.stringify(configuration)), await freePort());
    await cell.start();
    return cell;
  }

  async start(): Promise<void> {
    const { config, data } = this.place;
    const address = ['--port', String(this.#port), '--host', '127.0.0.1'];
    this.program = await startProgram({ args: ['start', '--config', config, '--data', data, ...address] });
  }

  async call(messageId: string, userId: string): Promise<void> {
    const options = { writeKey: `wk-${this.name}` };
    const { status } = await send(this.program.url, '/v1/track', track(messageId, { userId }), options);
    expect(status).toBe(200);
  }
}

let receiver: TestReceiver;
let holding = false;
let [east, west]: RealCell[] = [];
let env: Record<string, string>;

beforeAll(async () => {
  // While it holds, deletions stay open: their notifications are answered with an error.
  receiver = await startReceiver({
    answer: (response, { body }) => {
      const isHeld = holding && body.toString().includes('"type":"delete"');
      response.writeHead(isHeld ? 503 : 200).end();
    },
  });
  east = await RealCell.open('east', receiver.url);
  west = await RealCell.open('west', receiver.url);
  const file = join(east.place.folder, 'cells.yaml');
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference.
  const token = '${EAST_TOKEN}';
  writeFileSync(
    file,
    `cells:\n  - { name: east, url: "${east.program.url}", token: ${token} }\n` +
      `  - { name: west, url: "${west.program.url}", tokenFile: ${join(west.place.data, 'admin-token')} }\n`,
  );
  env = { MILLRACE_CELLS: file, EAST_TOKEN: adminTokenOf(east.place) };
});
afterAll(async () => {
  for (const cell of [east, west]) {
    await cell?.program.kill();
    cell?.place.remove();
  }
  await receiver.stop();
});

const run = (...args: string[]) => runVerb(['cells', ...args], env);

it('asks two servers for one status, one trace and one deletion, also while one of them is down', async () => {
  for (const id of ['e1', 'e2', 'e3']) await east!.call(id, 'u1');
  for (const id of ['w1', 'w2']) await west!.call(id, 'u1');
  await receiver.count(5);

  const both = await run('status', '--json');
  expect([both.code, both.err]).toEqual([0, '']);
  expect(JSON.parse(both.out)).toMatchObject({
    cells: [
      { name: 'east', nodes: 1, accepted: 3, owed: 3, balanced: true },
      { name: 'west', nodes: 1, accepted: 2, owed: 2, balanced: true },
    ],
    sums: { received: 5, accepted: 5, owed: 5 },
    balanced: true,
  });
  expect((await run('status')).out).toContain('balanced in every cell');

  const traced = await run('trace', 'w1');
  expect(traced.code).toBe(0);
  expect(traced.out).toMatch(/^cell west\n\nw1 {2}track [\s\S]*accepted from west/);
  expect(traced.out).not.toContain('cell east');

  // One is killed while a deletion waits for both.
  holding = true;
  const waiting = millrace(['cells', 'delete-user', 'u1', '--wait'], env);
  await receiver.until(() => ['/east', '/west'].every(isToldOfDeletion));
  await west!.program.kill();
  const lost = await waiting.says(
    'err',
    /west has taken it and gives no answer now: .*cells regulation (\S+)/,
  );
  holding = false;
  const ended = await waiting.ended;
  expect(ended.code).toBe(1);
  expect(ended.out).toMatch(/cell east\n {2}\S+ {2}DELETE_ONLY of 1 user: FINISHED/);

  const down = await run('status');
  expect(down.code).toBe(1);
  expect(down.out).toContain('balanced in the one cell that answered; not known of west');
  expect(down.err).toMatch(/^millrace: west is not in the sums: server unreachable at .*ECONNREFUSED/);
  const untraced = await run('trace', 'w2');
  expect(untraced.code).toBe(1);
  expect(untraced.err).toContain('west could not be asked');
  const half = await run('delete-user', 'u2');
  expect(half.code).toBe(1);
  expect(half.err).toContain('NOT CONFIRMED by west');

  // It comes back, ends what it had taken, and the repeated deletion reaches both.
  await west!.start();
  const receipt = await run('regulation', lost[1]!, '--wait');
  expect([receipt.code, receipt.err]).toEqual([0, '']);
  expect(receipt.out).toMatch(/^cell west\n.*FINISHED\n[\s\S]*erased: 2 events/);
  const again = await run('delete-user', 'u2', 'u1', '--wait');
  expect([again.code, again.err]).toEqual([0, '']);
  expect(again.out.match(/FINISHED\n/g)).toHaveLength(2);
  expect((await run('trace', 'w1')).code).toBe(1);
  expect((await run('status')).code).toBe(0);
});

it('finds events in both, and refuses two addresses of one store', async () => {
  await east!.call('e9', 'u9');
  await west!.call('w9', 'u9');
  await east!.call('e10', 'u9');
  const { code, out, err } = await run('events', '--user-id', 'u9', '--json');
  expect([code, err]).toEqual([0, '']);
  const lines = out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(lines.map(({ cell, event }) => `${cell} ${event.messageId}`)).toEqual([
    'east e10',
    'west w9',
    'east e9',
  ]);
  const file = join(east!.place.folder, 'twice.yaml');
  const { port } = new URL(east!.program.url);
  const urls = [`http://127.0.0.1:${port}`, `http://localhost:${port}`];
  const token = adminTokenOf(east!.place);
  const named = urls.map((url, nth) => `  - { name: e${nth}, url: "${url}", token: ${token} }\n`);
  writeFileSync(file, `cells:\n${named.join('')}`, { mode: 0o600 });
  const twice = await run('delete-user', 'u9', '--cells', file);
  expect([twice.code, twice.out]).toEqual([2, '']);
  expect(twice.err).toContain('leads to the same store as cells[0]');
});

it('shows the cells that answer beside those that do not, and waits for none of them longer than ten seconds', async () => {
  const made = Object.entries(BAD).map(([name, make]) => ({ name, server: make() }));
  const waits = new Waits(made.filter(({ name }) => DEAF.includes(name)).map(({ server }) => server));
  const servers = await Promise.all(made.map(({ server }) => listening(server)));
  const names = Object.keys(BAD);
  /** Each verb asks them at a path of its own. */
  const bad = (verb: string) =>
    servers.map(({ port }, nth) => {
      const scheme = SECURED.includes(names[nth]!) ? 'https' : 'http';
      return `  - { name: ${names[nth]}, url: "${scheme}://127.0.0.1:${port}/${verb}", token: S3CRET }\n`;
    });
  const good = `  - { name: west, url: "${west!.program.url}", tokenFile: ${join(west!.place.data, 'admin-token')} }\n`;
  const wrong = `  - { name: wrong, url: "${east!.program.url}", token: S3CRET }\n`;
  const fileFor = (verb: string) => {
    const file = join(east!.place.folder, `bad-${verb}.yaml`);
    writeFileSync(file, `cells:\n${bad(verb).join('')}${good}${wrong}`, { mode: 0o600 });
    return file;
  };
  const verbs = [['status'], ['trace', 'w9'], ['events', '--user-id', 'u9'], ['delete-user', 'u7']];
  const [status, trace, events, deletion] = await Promise.all(
    verbs.map(([verb, ...args]) => {
      const files = { MILLRACE_CELLS: fileFor(verb!), NODE_EXTRA_CA_CERTS: AUTHORITY };
      return millrace(['cells', verb!, ...args], files).ended;
    }),
  );
  // Each waits for all of them at once, and not for one after the other.
  for (const [verb] of verbs) expect([verb, waits.most.get(verb!)]).toEqual([verb, DEAF.length]);
  expect(status!.out).toMatch(/^west .*balanced$/m);
  expect(trace!.out).toContain('cell west');
  expect(events!.out).toMatch(/^west .* w9/m);
  expect(deletion!.out).toContain('cell west');
  for (const { code, out, err } of [status!, trace!, events!, deletion!]) {
    expect(code).toBe(1);
    expect(out + err).not.toContain('S3CRET');
    const said = err.split('\n');
    const of = (name: string) =>
      said.find((line) => new RegExp(`^millrace: (not all of )?${name} `).test(line));
    expect(of('silent')).toContain('waited 10 s');
    expect(of('stalled')).toContain('waited 10 s');
    expect(of('html')).toContain('is it a Millrace');
    expect(of('other')).toContain('speaks of its status in another way');
    expect(of('moved')).toContain('answered 302');
    expect(of('certificate')).toMatch(/certificate.*SELF_SIGNED/);
    expect(of('host')).toMatch(/certificate.* for another host, namely DNS:other\.example/);
    expect(of('expired')).toMatch(/certificate.* has expired/);
    // A busy machine may not send so much within ten seconds.
    expect(of('flood')).toMatch(/sends an answer of more than 32 MB|waited 10 s/);
    expect(of('wrong')).toContain('refused the token');
  }
  for (const { close } of servers) await close();
});

const TLS = join(ROOT, 'server/test/support/tls');
const secured = (name: string) =>
  createTlsServer({
    key: readFileSync(join(TLS, `${name}.key`)),
    cert: readFileSync(join(TLS, `${name}.pem`)),
  });
const saying = (text: string) =>
  createServer((socket) => socket.once('data', () => socket.write(text)).on('error', () => {}));
const answering = (status: string, body: string) =>
  saying(`HTTP/1.1 ${status}\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`);

/** What may stand at the address of a cell. */
const BAD: Readonly<Record<string, () => Server>> = {
  silent: () => createServer(() => {}),
  stalled: () => saying('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{'),
  html: () => answering('200 OK', '<!doctype html><title>Sign in</title>'),
  other: () => answering('200 OK', '{"status":"ok"}'),
  moved: () => answering('302 Found\r\nlocation: /login', ''),
  certificate: () => secured('self-signed'),
  host: () => secured('other-host'),
  expired: () => secured('expired'),
  flood: () =>
    createServer((socket) => {
      const part = Buffer.alloc(2 ** 20, ' ');
      const pour = () => {
        while (socket.writable && socket.write(part));
      };
      socket.on('error', () => {}).on('drain', pour);
      socket.once('data', () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\n');
        pour();
      });
    }),
};

/** Those that keep whoever asks waiting. */
const DEAF = ['silent', 'stalled'];

/** How many requests below one path wait at some servers at the same time, at most. */
class Waits {
  readonly most = new Map<string, number>();
  readonly #now = new Map<string, number>();

  constructor(servers: readonly Server[]) {
    for (const server of servers) {
      server.on('connection', (socket: Socket) => {
        socket.once('data', (head) => {
          const path = String(head).split('/')[1]!;
          this.#add(path, 1);
          socket.once('close', () => this.#add(path, -1));
        });
      });
    }
  }

  #add(path: string, more: number): void {
    const now = (this.#now.get(path) ?? 0) + more;
    this.#now.set(path, now);
    this.most.set(path, Math.max(now, this.most.get(path) ?? 0));
  }
}

/** Those with a certificate, which is signed by an authority that is trusted here, or by nobody. */
const SECURED = ['certificate', 'host', 'expired'];
const AUTHORITY = join(TLS, 'ca.pem');

async function listening(server: Server): Promise<{ port: number; close: () => Promise<unknown> }> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => sockets.add(socket));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const close = async () => {
    for (const socket of sockets) socket.destroy();
    await once(server.close(), 'close');
  };
  return { port: (server.address() as AddressInfo).port, close };
}

function isToldOfDeletion(of: string): boolean {
  return receiver.arrivals.some(
    ({ path, body }) => path === of && body.toString().includes('"type":"delete"'),
  );
}
