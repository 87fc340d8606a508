import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { createServer as createTlsServer, getCACertificates, setDefaultCACertificates } from 'node:tls';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { answerText } from './answer-text.ts';
import {
  askControl,
  type ControlAddress,
  type ControlFlags,
  controlAddress,
  readControl,
} from './control-api.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-control-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

function address(flags: ControlFlags, env: NodeJS.ProcessEnv = {}): ControlAddress {
  const found = controlAddress(flags, env);
  if (typeof found === 'string') throw new Error(found);
  return found;
}

describe('where the server is', () => {
  it('is the flag, else the variable, else this machine', () => {
    const env = { MILLRACE_URL: 'https://millrace.example:8443/behind/a/proxy/' };
    expect(address({}).url.href).toBe('http://127.0.0.1:8080/');
    expect(address({}, { MILLRACE_URL: '' }).url.href).toBe('http://127.0.0.1:8080/');
    expect(address({}, env).url.href).toBe(env.MILLRACE_URL);
    expect(address({ url: 'http://[::1]:9000' }, env).url.href).toBe('http://[::1]:9000/');
  });

  it.each([
    [{ url: '127.0.0.1:8080' }, {}, '--url'],
    [{ url: 'ftp://example.com' }, {}, '--url'],
    [{}, { MILLRACE_URL: 'nonsense' }, 'MILLRACE_URL'],
  ])('is refused when it is no address: %j %j', (flags, env, namedBy) => {
    expect(controlAddress(flags, env)).toBe(
      `${namedBy} is no URL of a server, such as http://127.0.0.1:8080`,
    );
  });
});

describe('an address as the pages about the API write it', () => {
  it.each([
    ['http://h:1/api/v1', 'http://h:1/'],
    ['http://h:1/api/v1/', 'http://h:1/'],
    ['http://h:1/api', 'http://h:1/'],
    ['http://h:1/below/api/v1', 'http://h:1/below/'],
    ['http://h:1/apiary', 'http://h:1/apiary'],
  ])('%s is that of the server', (url, server) => {
    expect(address({ url }).url.href).toBe(server);
  });
});

describe('the token', () => {
  it('is the flag, else the variable, else the file in the data folder', () => {
    writeFileSync(join(folder, 'admin-token'), 'from-file\n');
    const env = { MILLRACE_ADMIN_TOKEN: 'from-env', MILLRACE_DATA: folder };
    expect(address({ token: 'from-flag', data: folder }, env)).toMatchObject({
      token: 'from-flag',
      tokenFrom: '--token',
    });
    expect(address({ data: folder }, env)).toMatchObject({
      token: 'from-env',
      tokenFrom: 'MILLRACE_ADMIN_TOKEN',
    });
    const kept = { token: 'from-file', tokenFrom: join(folder, 'admin-token') };
    expect(address({}, { ...env, MILLRACE_ADMIN_TOKEN: '' })).toMatchObject(kept);
    expect(address({ data: folder }, { MILLRACE_DATA: '/nowhere' })).toMatchObject(kept);
  });

  it('is looked for in ./data when no folder is named, and may be missing', () => {
    const { token, tokenFrom } = address({ data: join(folder, 'none') });
    expect(token).toBeUndefined();
    expect(tokenFrom).toBe(join(folder, 'none', 'admin-token'));
    expect(address({}).tokenFrom).toContain(resolve('data', 'admin-token'));
  });

  it('is refused where no header could carry it, without being shown', () => {
    const refused = controlAddress({ token: 'zwei Wörter' }, {});
    expect(refused).toMatch(/^the token from --token is not one word/);
    expect(refused).not.toContain('Wörter');
  });
});

describe('asking the server', () => {
  let server: Server;
  let url: string;
  let answer: RequestListener;

  beforeEach(async () => {
    server = createServer((request, response) => answer(request, response)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterEach(() => {
    server.close();
    server.closeAllConnections();
  });

  const read = (flags: ControlFlags = {}) =>
    readControl(address({ url, token: 's3cret', ...flags }), 'status');

  it('sends the token to the resource, below whatever path the server has', async () => {
    const asked: unknown[] = [];
    answer = ({ method, url: path, headers: { authorization } }, response) => {
      asked.push([method, path, authorization]);
      response.end('{"a":1}');
    };
    expect(await read()).toEqual({ kind: 'answered', value: { a: 1 }, text: '{"a":1}' });
    await read({ url: `${url}/behind/a/proxy/?x=1` });
    await read({ url: `${url}//evil.example` });
    expect(asked).toEqual([
      ['GET', '/api/v1/status', 'Bearer s3cret'],
      ['GET', '/behind/a/proxy/api/v1/status', 'Bearer s3cret'],
      ['GET', '//evil.example/api/v1/status', 'Bearer s3cret'],
    ]);
  });

  /** The single line of the error message. */
  async function failure(flags?: ControlFlags): Promise<string> {
    const reply = await read(flags);
    if (reply.kind !== 'failed') throw new Error('it was answered');
    expect(reply.message).not.toMatch(/\n|s3cret/);
    return reply.message;
  }

  it('says where a token is to be found when there is none, and when it is wrong', async () => {
    answer = (_, response) => response.writeHead(401).end('{}');
    const wrong = await failure();
    expect(wrong).toContain(`the server at ${url} refused the token from --token: `);
    expect(wrong).toMatch(
      /admin\.token .*MILLRACE_ADMIN_TOKEN.*the file admin-token of its data folder.*--data/,
    );
    const reply = await readControl(address({ url, data: folder }), 'status');
    expect(reply).toEqual({
      kind: 'failed',
      message: expect.stringMatching(/wants a token, and there is none in \S+admin-token: .*--data/),
    });
  });

  it('asks in every way there is, and hands on what the server has against it', async () => {
    const asked: unknown[] = [];
    answer = async (request, response) => {
      asked.push([request.method, request.url, await text(request)]);
      response.writeHead(request.method === 'DELETE' ? 204 : 409);
      const errors = [{ path: 'destinations "crm"', message: 'is still owed 2' }];
      const problem = { code: 'confirmation_needed', detail: 'It disconnects. Confirm it.', errors };
      response.end(request.method === 'DELETE' ? '' : JSON.stringify(problem));
    };
    const server = address({ url, token: 's3cret' });
    const query = { dryRun: 'true', prune: undefined };
    expect(await askControl(server, 'config', { method: 'PUT', query, body: { a: 1 } })).toEqual({
      ...{ kind: 'failed', message: 'It disconnects. Confirm it' },
      problem: {
        ...{ code: 'confirmation_needed', detail: 'It disconnects. Confirm it.' },
        errors: [{ path: 'destinations "crm"', message: 'is still owed 2' }],
        truncated: false,
      },
    });
    const removed = await askControl(server, 'tokens/a', { method: 'DELETE' });
    expect(removed).toEqual({ kind: 'answered', value: undefined, text: '' });
    expect(asked).toEqual([
      ['PUT', '/api/v1/config?dryRun=true', '{"a":1}'],
      ['DELETE', '/api/v1/tokens/a', ''],
    ]);
  });

  it('says so when no server answers', async () => {
    server.close();
    await once(server, 'close');
    expect(await failure()).toBe(
      `server unreachable at ${url} (ECONNREFUSED): start it, or say where it is with --url or MILLRACE_URL`,
    );
  });

  it('says so when another program answers', async () => {
    answer = (_, response) => response.end('<html>');
    expect(await failure()).toMatch(/\/api\/v1\/status answered 200: is it a Millrace/);
    answer = (_, response) => response.writeHead(302, { Location: 'http://127.0.0.1:1/' }).end();
    expect(await failure()).toMatch(/answered 302: is it a Millrace/);
    answer = (_, response) => response.writeHead(503).end('{"detail":"The store cannot be read now."}');
    expect(await failure()).toMatch(/answered 503 \(The store cannot be read now\.\): /);
    answer = (request) => void request.socket.destroy();
    expect(await failure()).toMatch(/^server unreachable at /);
    expect(await failure({ url: url.replace('http', 'https') })).toMatch(
      /does not speak https \(ERR_SSL_WRONG_VERSION_NUMBER\): ask it by http, or say where it is with --url/,
    );
  });

  it.each([
    ['as it is', {}, (bytes: Buffer) => bytes],
    ['packed a thousand times smaller', { 'content-encoding': 'gzip' }, (bytes: Buffer) => gzipSync(bytes)],
  ])('reads no more of an answer than a Millrace sends: %s', async (_, headers, packed) => {
    let sent = 0;
    const part = packed(Buffer.alloc(1024 ** 2, ' '));
    const parts = function* () {
      for (; sent < 2 ** 30; sent += part.length) yield part;
    };
    answer = (_, response) => {
      response.writeHead(200, headers);
      pipeline(Readable.from(parts()), response).catch(() => undefined);
    };
    expect(await failure()).toBe(
      `the server at ${url} sends an answer of more than 32 MB: is it a Millrace? If not, say where it is with --url or MILLRACE_URL`,
    );
    expect(sent).toBeLessThan(2 ** 29);
  });
});

it('an answer of small objects, which take ten times as much memory, is read no further either', async () => {
  const body = `[${'{},'.repeat(1_000_000)}{}]`;
  await expect(answerText(new Response(body))).rejects.toThrow('an answer of more than a million objects');
  const most = `[${'{},'.repeat(999_998)}{}]`;
  expect(await answerText(new Response(most))).toBe(most);
  // The texts of events may be full of braces, and of quoted ones.
  const sent = JSON.stringify({ name: '{"['.repeat(1_000_000) });
  expect(await answerText(new Response(sent))).toBe(sent);
});

describe('a certificate', () => {
  const tls = (name: string) =>
    readFileSync(join(import.meta.dirname, '../../server/test/support/tls', name));

  it.each([
    [
      'other-host',
      /is for another host, namely DNS:other\.example \(ERR_TLS_CERT_ALTNAME_INVALID\): have it made for this one, or say where/,
    ],
    [
      'expired',
      /has expired \(CERT_HAS_EXPIRED\): renew it, look whether the clock of this machine is right, or say where/,
    ],
    [
      'self-signed',
      /is not accepted \(\w*SELF_SIGNED\w*\): name the file of its authority in NODE_EXTRA_CA_CERTS, or say where/,
    ],
  ])('that is wrong is named with what is wrong with it: %s', async (name, said) => {
    const server = createTlsServer({ key: tls(`${name}.key`), cert: tls(`${name}.pem`) }).listen(
      0,
      '127.0.0.1',
    );
    await once(server, 'listening');
    const before = getCACertificates('default');
    setDefaultCACertificates([...before, tls('ca.pem').toString()]);
    const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
    try {
      const reply = await readControl(address({ url, token: 's3cret' }), 'status');
      expect(reply).toMatchObject({ kind: 'failed', message: expect.stringMatching(said) });
    } finally {
      setDefaultCACertificates(before);
      server.close();
    }
  });
});
