import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { ROOT } from '../support/program.ts';
import { freePort } from '../support/receiver.ts';

interface Compose {
  readonly services: { readonly database: { readonly healthcheck: { readonly test: readonly string[] } } };
  readonly configs: { readonly proxy: { readonly content: string } };
}

const compose = parse(readFileSync(join(ROOT, 'compose.yaml'), 'utf8'), { merge: true }) as Compose;

const HAS_NGINX = spawnSync('nginx', ['-v']).status === 0;
if (!HAS_NGINX)
  console.log('left out: the proxy of compose.yaml, because nginx is not installed (nginx-light)');

describe.runIf(HAS_NGINX)('the proxy of compose.yaml', () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-proxy-'));
  const reached: string[] = [];
  const nodes: string[] = [];
  const upstreams = ['a', 'b'].map((name) => hangingUp(name, reached, nodes));
  let proxy: ChildProcess;
  let address = '';

  beforeAll(async () => {
    const [a, b] = await Promise.all(upstreams.map(portOf));
    const port = await freePort();
    address = `http://127.0.0.1:${port}`;
    const servers = compose.configs.proxy.content
      .replaceAll('$$', '$')
      .replaceAll('server a:8080', `server 127.0.0.1:${a} max_fails=0`)
      .replaceAll('server b:8080', `server 127.0.0.1:${b} max_fails=0`)
      .replace('listen 8080', `listen 127.0.0.1:${port}`);
    // Debian's own folders for these belong to root.
    const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
      .map((kind) => `${kind}_temp_path ${folder}/${kind};`)
      .join(' ');
    const file = join(folder, 'nginx.conf');
    writeFileSync(
      file,
      `pid ${folder}/pid; error_log stderr; events {} http { access_log off; ${temporary} ${servers} }`,
    );
    proxy = spawn('nginx', ['-p', folder, '-c', file, '-g', 'daemon off; master_process off;'], {
      stdio: 'ignore',
    });
    await Promise.race([listening(port), ended(proxy)]);
  });

  afterAll(async () => {
    if (proxy.exitCode === null && proxy.kill()) await once(proxy, 'exit');
    for (const one of upstreams) one.close();
    rmSync(folder, { recursive: true });
  });

  /** The first lines of the requests that reached a node, for one request whose connection every node cuts. */
  async function attemptsOf(method: string, path: string): Promise<readonly string[]> {
    reached.length = 0;
    nodes.length = 0;
    const answer = await fetch(address + path, { method, ...(method === 'POST' && { body: '{}' }) });
    expect(answer.status).toBe(502);
    return [...reached];
  }

  it('sends a call to the other node when the first one is cut off', async () => {
    for (const path of ['/v1/track', '/v1/batch'])
      expect(await attemptsOf('POST', path)).toEqual([`POST ${path} HTTP/1.1`, `POST ${path} HTTP/1.1`]);
  });

  it('keeps a client of the console on one node', async () => {
    const asked = new Set<string>();
    for (let n = 0; n < 4; n += 1) {
      await attemptsOf('POST', '/api/v1/session');
      asked.add(nodes.join());
    }
    expect([...asked]).toHaveLength(1);
  });

  it('never sends a change by the control API twice', async () => {
    for (const path of ['/api/v1/replays', '/api/v1/redeliveries'])
      expect(await attemptsOf('POST', path)).toEqual([`POST ${path} HTTP/1.1`]);
  });
});

describe('the database of compose.yaml', () => {
  it('is healthy only when it listens on the network, which the server that fills a new one does not', () => {
    expect(compose.services.database.healthcheck.test.join(', ')).toContain('pg_isready, -h, 127.0.0.1');
  });
});

/** A node that dies with every request in hand: it notes its name and the first line, and cuts the connection. */
function hangingUp(name: string, lines: string[], nodes: string[]): Server {
  return createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', (bytes) => {
      lines.push(bytes.toString('latin1').split('\r\n', 1)[0] ?? '');
      nodes.push(name);
      socket.destroy();
    });
  });
}

async function portOf(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

async function ended(child: ChildProcess): Promise<never> {
  const [code] = await once(child, 'exit');
  throw new Error(`nginx ended with ${code}`);
}

/** Resolves when the port takes connections. */
async function listening(port: number): Promise<void> {
  for (;;) {
    const socket = connect(port, '127.0.0.1');
    const taken = await once(socket, 'connect').then(
      () => true,
      () => false,
    );
    socket.destroy();
    if (taken) return;
    await pause(20);
  }
}
