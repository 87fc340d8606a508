import {
  chmodSync,
  copyFileSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { request } from 'node:https';
import { connect as connectTcp } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { IngestHandler } from '../../src/ports/ingest.ts';
import { realTurns } from '../support/clock.ts';
import {
  controlHandler,
  post,
  postHead,
  startTestServer,
  stillClock,
  TestConnection,
  type TestServer,
} from '../support/http-server.ts';
import { failuresOf, ROOT, runProgram, startArguments, startProgram } from '../support/program.ts';
import { until } from '../support/until.ts';

/** https on the listener's own port: `tls` of the configuration. spec/contract.md, "Paths of the server". */

const CERTIFICATES = join(ROOT, 'server/test/support/tls');
const CA = readFileSync(join(CERTIFICATES, 'ca.pem'));

let folder: string;
let files: { readonly cert: string; readonly key: string };
let running: TestServer | undefined;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-tls-'));
  files = { cert: join(folder, 'chain.pem'), key: join(folder, 'key.pem') };
  install('server');
});

afterEach(async () => {
  await running?.listener.stop();
  running = undefined;
  rmSync(folder, { recursive: true, force: true });
});

/** Puts another pair in place of the files, each at once, as tools that renew certificates do. */
function install(name: string): void {
  for (const [kind, ending] of [
    ['cert', 'pem'],
    ['key', 'key'],
  ] as const) {
    const fresh = `${files[kind]}.new`;
    copyFileSync(join(CERTIFICATES, `${name}.${ending}`), fresh);
    renameSync(fresh, files[kind]);
  }
}

/** A connection after its handshake, and whom the other side says it is. */
async function connect(
  port: number,
  options: object = { ca: CA },
): Promise<TestConnection & { subject?: string }> {
  const socket = connectTls({ port, host: 'localhost', servername: 'localhost', ...options });
  await new Promise((resolve, reject) => socket.once('secureConnect', resolve).once('error', reject));
  return new TestConnection(socket);
}

/** The first 16 digits of the certificate that a new connection is shown. */
async function shown(port: number): Promise<string> {
  const socket = connectTls({ port, host: 'localhost', rejectUnauthorized: false });
  await new Promise((resolve, reject) => socket.once('secureConnect', resolve).once('error', reject));
  const { fingerprint256 } = socket.getPeerCertificate();
  socket.destroy();
  return fingerprint256;
}

/** A clock whose waits end when the test says so. */
function steppedClock() {
  const waits: { at: number; wake: () => void }[] = [];
  let now = 0;
  return {
    clock: {
      now: () => now,
      monotonic: () => now,
      steps: () => [{ at: 0, ahead: 0 }],
      ...realTurns,
      after: (delay: number, wake: () => void) => {
        const wait = { at: now + delay, wake };
        waits.push(wait);
        return () => void waits.splice(waits.indexOf(wait), waits.includes(wait) ? 1 : 0);
      },
    },
    /** Wakes the next one. */
    step: () => {
      const wait = waits.sort((a, b) => a.at - b.at).shift()!;
      now = wait.at;
      wait.wake();
    },
    waits,
  };
}

/** Resolves when the log has a line more of this name. */
async function logged(event: string, more = 1): Promise<void> {
  const count = () => running!.logged.filter((line) => line.event === event).length;
  const wanted = count() + more;
  await until(`the log has ${event}`, () => count() >= wanted);
}

describe('the listener', () => {
  test('serves https with keep-alive, and a client that trusts the authority trusts it', async () => {
    running = await startTestServer({ tls: files });
    const connection = await connect(running.port);
    for (let nth = 0; nth < 3; nth++) {
      await connection.send(post('/v1/track', '{}'));
      expect(await connection.nextResponse()).toMatchObject({ status: 200, body: '{"success":true}' });
    }
    expect(running.calls).toHaveLength(3);
    connection.destroy();
  });

  test('tells browsers to send to it by https', async () => {
    running = await startTestServer({ tls: files });
    const connection = await connect(running.port);
    await connection.send('GET /v1/projects/wk/settings HTTP/1.1\r\nHost: here.example\r\n\r\n');
    expect(JSON.parse((await connection.nextResponse()).body).integrations).toEqual({
      'Segment.io': { apiKey: 'wk', apiHost: 'here.example/v1', protocol: 'https' },
    });
    connection.destroy();
  });

  test('speaks no TLS older than 1.2', async () => {
    running = await startTestServer({ tls: files });
    const old = { ca: CA, minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT:@SECLEVEL=0' };
    await expect(connect(running.port, old)).rejects.toThrow(/alert|version|protocol/i);
    const recent = await connect(running.port, { ca: CA, maxVersion: 'TLSv1.2' });
    recent.destroy();
  });

  test('takes no cipher without forward secrecy, also with a renewed certificate', async () => {
    install('rsa');
    const { clock, step, waits } = steppedClock();
    running = await startTestServer({ tls: files, clock });
    const { port } = running;
    const trust = { rejectUnauthorized: false, maxVersion: 'TLSv1.2' };
    const refuses = async () => {
      for (const ciphers of ['AES128-GCM-SHA256', 'AES256-GCM-SHA384', 'AES128-SHA', 'AES256-SHA256'])
        await expect(connect(port, { ...trust, ciphers })).rejects.toThrow(/handshake/i);
      for (const ciphers of ['ECDHE-RSA-AES128-GCM-SHA256', 'ECDHE-RSA-AES256-SHA'])
        (await connect(port, { ...trust, ciphers })).destroy();
    };
    await refuses();
    install('server');
    const renewed = logged('tls.renewed');
    step();
    await renewed;
    install('rsa');
    const again = logged('tls.renewed');
    await until('a wait has begun', () => waits.length > 0);
    step();
    await again;
    await refuses();
  });

  test('tells browsers to stay with https for the names that publicUrl gives it, and for no other', async () => {
    const control = controlHandler(async () => ({ status: 200, headers: {}, body: '{}' }));
    const publicUrls = ['https://localhost/collect', 'http://plain.example'];
    running = await startTestServer({ tls: files, control, publicUrls });
    const connection = await connect(running.port);
    const told = async (path: string, host: string) => {
      await connection.send(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
      return (await connection.nextResponse()).headers.get('strict-transport-security');
    };
    for (const path of ['/api/v1/status', '/metrics'])
      expect(await told(path, 'LocalHost:8443')).toBe('max-age=31536000');
    for (const host of ['127.0.0.1', 'plain.example', 'localhost.example'])
      expect([host, await told('/metrics', host)]).toEqual([host, undefined]);
    for (const path of ['/healthz', '/v1/projects/wk/settings'])
      expect([path, await told(path, 'localhost')]).toEqual([path, undefined]);
    connection.destroy();
    await running.listener.stop();
    running = await startTestServer({ control, publicUrls });
    const plain = await running.connect();
    await plain.send('GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n');
    expect((await plain.nextResponse()).headers.has('strict-transport-security')).toBe(false);
    plain.destroy();
  });

  test('closes a connection that speaks plain HTTP or breaks off its handshake, and serves others on', async () => {
    running = await startTestServer({ tls: files, timeouts: { head: 1000, checkInterval: 50 } });
    for (const bytes of [post('/v1/track', '{}'), Buffer.alloc(100), Buffer.from([0x16, 3, 1])]) {
      const plain = new TestConnection(connectTcp(running.port, '127.0.0.1'));
      await plain.send(bytes);
      await plain.closed;
    }
    const connection = await connect(running.port);
    await connection.send(post('/v1/track', '{}'));
    expect((await connection.nextResponse()).status).toBe(200);
    expect(running.calls).toHaveLength(1);
    connection.destroy();
  });

  test('cuts off who sends requests without waiting for answers, and forgets who leaves in the middle of a body', async () => {
    running = await startTestServer({
      tls: files,
      bounds: { connections: 100, requests: 20, bytes: 1_000_000 },
    });
    const flood = await connect(running.port);
    await flood.send(...Array.from({ length: 1000 }, () => post('/v1/track', '{}')));
    const answers = [await flood.nextResponse()];
    // Those that were read together are under way together, more than there are places; too many of them are
    // the end.
    while (answers.at(-1)!.headers.get('connection') !== 'close') answers.push(await flood.nextResponse());
    expect(answers.at(-1)!.status).toBe(429);
    await flood.closed;
    for (let nth = 0; nth < 60; nth++) {
      const leaving = await connect(running.port);
      await leaving.send(postHead('/v1/track', 100), 'x');
      leaving.destroy();
    }
    const connection = await connect(running.port);
    let { status } = answers.at(-1)!;
    while (status !== 200) {
      await connection.send(post('/v1/track', '{}'));
      status = (await connection.nextResponse()).status;
    }
    connection.destroy();
  });

  test('stops at once although a handshake is under way and a connection has not said a word', async () => {
    running = await startTestServer({ tls: files });
    const handshaking = new TestConnection(connectTcp(running.port, '127.0.0.1'));
    const silent = await connect(running.port);
    // The clock of these tests stands still: the grace never ends.
    await running.listener.stop();
    await Promise.all([handshaking.closed, silent.closed]);
    expect([handshaking.isGone, silent.isGone, running.calls]).toEqual([true, true, []]);
  });

  test('lets a request under way finish when it stops', async () => {
    const held: (() => void)[] = [];
    const verdict: IngestHandler = (_, answer) => void held.push(() => answer({ kind: 'stored' }));
    running = await startTestServer({ tls: files, verdict });
    const connection = await connect(running.port);
    await connection.send(post('/v1/track', '{}'));
    await until('a call waits for its verdict', () => held.length > 0);
    const stopped = running.listener.stop();
    held[0]!();
    await stopped;
    const { status, headers } = await connection.nextResponse();
    expect([status, headers.get('connection')]).toEqual([200, 'close']);
  });
});

describe('renewed files', () => {
  test('are served to new connections within a minute; open ones go on', async () => {
    const { clock, step, waits } = steppedClock();
    running = await startTestServer({ tls: files, clock });
    const before = await shown(running.port);
    const open = await connect(running.port);
    expect(waits.map(({ at }) => at)).toEqual([60_000]);
    install('self-signed');
    const renewed = logged('tls.renewed');
    step();
    await renewed;
    expect(await shown(running.port)).not.toBe(before);
    await open.send(post('/v1/track', '{}'));
    expect((await open.nextResponse()).status).toBe(200);
    open.destroy();
  });

  test('that do not fit together are logged once, and the old ones are served until they do', async () => {
    const { clock, step, waits } = steppedClock();
    running = await startTestServer({ tls: files, clock });
    const before = await shown(running.port);
    copyFileSync(join(CERTIFICATES, 'self-signed.pem'), files.cert);
    const refused = logged('tls.not_renewed');
    step();
    await refused;
    expect(await shown(running.port)).toBe(before);
    await until('a wait has begun', () => waits.length > 0);
    step();
    await until('a wait has begun', () => waits.length > 0);
    expect(running.logged.filter(({ event }) => event === 'tls.not_renewed')).toHaveLength(1);
    copyFileSync(join(CERTIFICATES, 'self-signed.key'), files.key);
    const renewed = logged('tls.renewed');
    step();
    await renewed;
    expect(await shown(running.port)).not.toBe(before);
  });

  test('a certificate that has expired is served and logged', async () => {
    install('expired');
    running = await startTestServer({
      tls: files,
      clock: { ...stillClock, now: () => Date.UTC(2026, 0, 1) },
    });
    expect(running.logged).toMatchObject([
      { event: 'tls.expired', facts: { validTo: expect.stringMatching(/^2020/) } },
    ]);
  });

  test('a certificate that expires within two weeks is logged', async () => {
    install('expired');
    const soon = Date.UTC(2020, 0, 25);
    running = await startTestServer({ tls: files, clock: { ...stillClock, now: () => soon } });
    expect(running.logged).toMatchObject([{ event: 'tls.expires_soon' }]);
  });
});

describe('a start says in one line what to do', () => {
  const failure = () => startTestServer({ tls: files });

  test('about a file that does not exist', async () => {
    rmSync(files.cert);
    await expect(failure()).rejects.toThrow(`tls.cert: ${files.cert} does not exist`);
  });

  test('about a file that is none', async () => {
    rmSync(files.key);
    await expect(startTestServer({ tls: { cert: files.cert, key: folder } })).rejects.toThrow(
      `tls.key: ${folder} is a folder`,
    );
  });

  test('about files that are no PEM, or exchanged', async () => {
    await expect(startTestServer({ tls: { cert: files.key, key: files.cert } })).rejects.toThrow(
      `tls.cert: ${files.key} holds no certificate in PEM form`,
    );
    writeFileSync(files.key, 'nothing');
    await expect(failure()).rejects.toThrow(`tls.key: ${files.key} holds no private key in PEM form`);
  });

  test('about a key that everybody may write, also behind a link', async () => {
    chmodSync(files.key, 0o666);
    const link = join(folder, 'mounted.key');
    symlinkSync(files.key, link);
    const linked = () => startTestServer({ tls: { cert: files.cert, key: link } });
    await expect(linked()).rejects.toThrow(
      /^tls\.key: .*mounted\.key may be written by everybody.*chmod o-w/,
    );
    chmodSync(files.key, 0o640);
    running = await linked();
  });

  test('about a key of another certificate', async () => {
    copyFileSync(join(CERTIFICATES, 'self-signed.key'), files.key);
    await expect(failure()).rejects.toThrow(
      `tls.key: ${files.key} is not the key of the certificate in ${files.cert}`,
    );
  });
});

describe('millrace start', () => {
  const configure = (tls: object) => {
    const config = join(folder, 'millrace.yaml');
    writeFileSync(config, JSON.stringify({ tls, sources: [{ name: 'website', writeKeys: ['wk'] }] }));
    return startArguments({ config, data: join(folder, 'data') });
  };

  test('serves https with the files of its configuration, and says so', async () => {
    const program = await startProgram({ args: configure(files) });
    expect(program.url).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/);
    expect(program.out.stderr).not.toContain('no effect');
    const status = await new Promise((resolve, reject) => {
      const body = JSON.stringify({ userId: 'u1', event: 'E' });
      const options = { method: 'POST', ca: CA, auth: 'wk:', agent: false };
      request(`${program.url}/v1/track`, options, (answer) => resolve(answer.resume().statusCode))
        .on('error', reject)
        .end(body);
    });
    expect(status).toBe(200);
    expect(await program.stop()).toBe(0);
  });

  test('ends with 1 and one line when it cannot', async () => {
    const { code, stderr } = await runProgram({ args: configure({ ...files, key: join(folder, 'none') }) });
    expect(code).toBe(1);
    expect(failuresOf(stderr)).toEqual([
      expect.stringContaining(`tls.key: ${join(folder, 'none')} does not exist`),
    ]);
  });
});
