import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import errors from '../../../spec/errors.json' with { type: 'json' };
import receiving from '../../../spec/receiving.openapi.json' with { type: 'json' };
import { loadConfig } from '../../src/config/load.ts';
import { ERRORS } from '../../src/http/exchange.ts';
import { post, startTestServer, type TestServer } from '../support/http-server.ts';
import { ROOT } from '../support/program.ts';

/** The text of docs/reference/receiving.md, which is compared with the code. */

const TEXT = readFileSync(join(ROOT, 'docs/reference/receiving.md'), 'utf8');

/** The rows of every table, their cells without blanks around them. */
const ROWS = [...TEXT.matchAll(/^\|(?!-)(.*)\|$/gm)].map(([, row]) =>
  row!.split('|').map((cell) => cell.trim()),
);
const codesIn = (cell: string) => Array.from(cell.matchAll(/`([^`]+)`/g), ([, code]) => code!);
const blocks = (language: string) =>
  Array.from(TEXT.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, 'gms')), ([, block]) => block!);

let running: TestServer;

beforeAll(async () => {
  running = await startTestServer();
});

afterAll(() => running.listener.stop());

describe('docs/reference/receiving.md', () => {
  test('names every code of an answer with its status', () => {
    const statuses = new Map<string, number>();
    for (const [status = '', codes = ''] of ROWS) {
      if (/^\d{3}$/.test(status)) for (const code of codesIn(codes)) statuses.set(code, Number(status));
    }
    for (const [code, { status }] of Object.entries(errors.request))
      expect([code, statuses.get(code)]).toEqual([code, status]);
    for (const [code, status] of statuses) {
      if (/^[a-z_]+$/.test(code)) expect([code, ERRORS.get(code)?.status]).toEqual([code, status]);
    }
  });

  test('names paths that exist', async () => {
    const paths = ROWS.flatMap(([cell = '']) => codesIn(cell)).filter((name) =>
      /^(GET )?\/(v1|healthz|readyz)/.test(name),
    );
    expect(paths.length).toBeGreaterThan(15);
    const connection = await running.connect();
    for (const named of paths) {
      const path = named.replace('GET ', '').replace('<type>', 'track').replace('<write key>', 'wk');
      const bytes = named.startsWith('GET ') ? `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n` : post(path, '{}');
      await connection.send(bytes);
      expect([named, (await connection.nextResponse()).status]).toEqual([named, 200]);
    }
  });

  test('shows answers as they are', async () => {
    const connection = await running.connect();
    await connection.send(post('/v1/track', '{}'));
    const [success = '', failure = ''] = blocks('json');
    expect(JSON.parse((await connection.nextResponse()).body)).toEqual(JSON.parse(success));
    const { code, message } = JSON.parse(failure);
    // What is wrong in particular may follow.
    expect(message.startsWith(errors.request[code as 'invalid_write_key'].message)).toBe(true);
  });

  test('shows settings that are accepted, with their defaults', () => {
    for (const text of blocks('yaml')) {
      const load = () =>
        loadConfig({ file: { path: 'doc.yaml', text }, env: {}, flags: {}, defaults: { host: '0.0.0.0' } });
      expect(load().warnings).toEqual([]);
    }
    const { limits } = loadConfig({ env: {}, flags: {}, defaults: { host: '0.0.0.0' } }).config;
    const defaults = new Map(ROWS.map(([name = '', value = '']) => [codesIn(name)[0], codesIn(value)[0]]));
    expect(defaults.get('limits.connections')).toBe(String(limits.connections));
    expect(defaults.get('limits.requests')).toBe(String(limits.requests));
    expect(defaults.get('limits.requestBytes')).toBe(`${limits.requestBytes / 1024 ** 2}MB`);
  });
});

describe('spec/receiving.openapi.json', () => {
  const { InvalidCall, InvalidBatch } = receiving.components.responses;
  const codesOf = ({ content }: typeof InvalidCall | typeof InvalidBatch) =>
    content['application/json'].schema.allOf.flatMap((part) =>
      'properties' in part && part.properties !== undefined ? part.properties.code.enum : [],
    );

  test('has every reason a single call can be refused for', () => {
    // A single call has its type from its path, so the type exists. `batch_refused` is for batches; a wrong
    // key is answered 401, and a call of a suppressed user or a forwarded deletion 200.
    const others = ['unknown_type', 'batch_refused', 'unknown_write_key', 'source_disabled'];
    others.push('suppressed', 'forwarded_delete');
    const reasons = Object.keys(errors.discard).filter((code) => !others.includes(code));
    expect(codesOf(InvalidCall)).toEqual(expect.arrayContaining(reasons));
  });

  test('has every reason a batch can be refused for, what stands beside its calls too', () => {
    const reasons = ['batch_not_array', 'batch_too_large', 'context_not_object', 'integrations_not_object'];
    expect(codesOf(InvalidBatch)).toEqual(expect.arrayContaining(reasons));
  });
});
