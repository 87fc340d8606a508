import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server as HttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runVerb } from '../../../cli/test/program.ts';
import { readRecords } from '../../src/config/load.ts';
import { makePlace, type Program, startProgram } from '../support/program.ts';

const FIXTURES = join(import.meta.dirname, '../../../spec/fixtures/import-config');
const fixture = (name: string) =>
  JSON.parse(readFileSync(join(FIXTURES, name), 'utf8')) as Record<string, unknown>;

/** Values that the exports do not have. */
const ANSWERS = { WEBSITE_WRITE_KEY: 'wk_typed', PARTNER_SECRET: 'a-secret-that-was-typed-in' };

let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'import-config-'));
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

function stored(name: string, value: unknown): string {
  const path = join(folder, name);
  writeFileSync(path, JSON.stringify(value));
  return path;
}

/** The file without comments, and with one name for every secret. */
function essence(yaml: string): string {
  return yaml
    .split('\n')
    .filter((line) => line !== '' && !/^ *#/.test(line))
    .map((line) => line.replace(/sharedSecret: .*$/, 'sharedSecret: SECRET'))
    .map((line) => line.replace(/\$\{WEBSITE_WRITE_KEY\}/, ANSWERS.WEBSITE_WRITE_KEY))
    .join('\n');
}

describe('the file of an imported workspace', () => {
  it.each([
    ['the Public API', () => join(FIXTURES, 'workspace.json')],
    ['Git Sync', () => join(FIXTURES, 'git-sync')],
    ['Terraform', () => stored('state.json', fixture('terraform-state.json')['state'])],
    ['RudderStack', () => stored('rudder.json', fixture('rudderstack-workspace.json')['config'])],
  ])('of %s is applied, changes nothing the second time, and is exported the same', async (name, input) => {
    const file = join(folder, `${name}.yaml`);
    const place = makePlace('');
    let program: Program | undefined;
    try {
      program = await startProgram({
        args: ['start', '--data', place.data, '--port', '0', '--host', '127.0.0.1'],
      });
      const server = ['--url', program.url, '--data', place.data];
      expect(await runVerb(['import-config', input(), '-o', file], ANSWERS)).toMatchObject({ code: 0 });
      const applied = await runVerb(['apply', '-f', file, '--yes', ...server], ANSWERS);
      expect(applied).toMatchObject({ code: 0, out: expect.stringMatching(/\nDone: \d+ created\.\n$/) });
      expect(await runVerb(['plan', '-f', file, ...server], ANSWERS)).toMatchObject({
        code: 0,
        out: 'Nothing to change.\n',
      });
      const exported = await runVerb(['export', ...server]);
      expect(essence(exported.out)).toBe(essence(readFileSync(file, 'utf8')));
    } finally {
      await program?.kill();
      place.remove();
    }
  });
});

describe('a workspace that is read over the network', () => {
  const requests = fixture('workspace.json')['requests'] as Record<string, unknown>;
  let api: HttpServer;
  let url: string;

  beforeAll(async () => {
    api = createServer((message, response) => {
      const { pathname, searchParams } = new URL(message.url ?? '', 'http://x');
      const type = searchParams.get('resourceType');
      const body = requests[`GET ${pathname}${type === null ? '' : `?resourceType=${type}`}`];
      response.writeHead(body === undefined ? 404 : 200).end(JSON.stringify(body ?? { errors: [] }));
    });
    await new Promise<void>((resolve) => api.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(api.address() as AddressInfo).port}`;
  });

  afterAll(async () => {
    api.closeAllConnections();
    await new Promise((resolve) => api.close(resolve));
  });

  it('becomes the same records as its answers in a file', async () => {
    const [file, other] = [join(folder, 'network.yaml'), join(folder, 'stored.yaml')];
    const asked = await runVerb(['import-config', url, '-o', file], { SEGMENT_TOKEN: 'token' });
    expect(asked).toMatchObject({
      code: 0,
      out: expect.stringContaining('answer GET /destination/d_act2/filters: answered 404'),
    });
    expect(asked.out + asked.err + readFileSync(file, 'utf8')).not.toMatch(/SEGMENT_TOKEN|\btoken\b/);
    await runVerb(['import-config', join(FIXTURES, 'workspace.json'), '-o', other]);
    expect(essence(readFileSync(file, 'utf8'))).toBe(essence(readFileSync(other, 'utf8')));
    const { sources } = readRecords({ path: file, text: readFileSync(file, 'utf8') }, {});
    expect(sources.map(({ name }) => name)).toEqual(['Old App', 'Orders', 'Website']);
  });
});
