import { mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { runVerb } from '../../../cli/test/program.ts';
import { loadConfig } from '../../src/config/load.ts';
import { unpackFixture } from '../e2e/upgrade/fixture.ts';
import { CONFIG, PROXY } from '../e2e/upgrade/life.ts';
import { send, track } from '../support/calls.ts';
import { logOf, makePlace, type Place, type Program, startProgram } from '../support/program.ts';

const FILE = readFileSync(join(import.meta.dirname, 'earlier/millrace.yaml'), 'utf8');

it('the example of the version before sources had a trust is a configuration that this program takes', () => {
  const path = 'millrace.example.yaml';
  const text = readFileSync(join(import.meta.dirname, 'earlier', path), 'utf8');
  const everything = text.replace(/^( *)#((?: {2})*[a-zA-Z]+:)/gm, '$1$2');
  for (const all of [text, everything]) {
    const env = {
      ...{ CRM_SECRET: 'a secret of the crm', CRM_TOKEN: 't', MILLRACE_ADMIN_TOKEN: 'a-token-of-the-admin' },
      ...{ ALERT_SECRET: `whsec_${'c2VjcmV0'.repeat(4)}`, SMTP_PASSWORD: 'password of the mail server' },
    };
    const file = { path, text: all };
    const { config } = loadConfig({ file, env, flags: {}, defaults: { host: '0.0.0.0' } });
    // Of `limit: 1000`.
    expect(config.identities.limits).toEqual({ anonymousIds: 900, externalIds: 100 });
    // Nobody has asked for a time.
    expect(config.retention.audit).toBeUndefined();
  }
});

/**
 * The configuration of the production guide as it was before sources had a trust, over a data folder of that
 * version.
 */
describe('the production guide of the version before sources had a trust', () => {
  let place: Place;
  let data: string;
  let before: ReturnType<typeof unpackFixture>['before'];
  let program: Program | undefined;

  beforeEach(() => {
    const { admin: _, ...records } = parse(CONFIG) as Record<string, unknown>;
    const { sources: _s, destinations: _d, retention: _r, ...file } = parse(FILE) as Record<string, unknown>;
    place = makePlace(stringify({ ...records, ...file }));
    // As systemd makes it for DynamicUser: the name that everybody knows is a link.
    const library = join(place.folder, 'lib');
    mkdirSync(join(library, 'private/millrace'), { recursive: true, mode: 0o700 });
    symlinkSync('private/millrace', join(library, 'millrace'));
    data = join(library, 'millrace/data');
    ({ before } = unpackFixture(data, 'sqlite'));
  });
  afterEach(async () => {
    await program?.kill();
    program = undefined;
    place.remove();
  });

  it.each([
    ['as a service', {}, '127.0.0.1'],
    ['as a container', { MILLRACE_HOST: '0.0.0.0' }, '0.0.0.0'],
  ])('%s: calls on one port, and what is for operators on the other', async (_, more, host) => {
    const env = { NODE_ENV: 'production', MILLRACE_DATA: data, [PROXY]: 'http://127.0.0.1:9', ...more };
    const ports = { MILLRACE_PORT: '0', MILLRACE_ADMIN_PORT: '0' };
    program = await startProgram({ args: ['start', '--config', place.config], env: { ...env, ...ports } });
    const lines = logOf(program.out.stderr);
    const { url, adminUrl } = lines.at(-1) as unknown as { url: string; adminUrl: string };
    expect([url, adminUrl].map((one) => new URL(one).hostname)).toEqual([host, host]);
    expect(lines.map(({ event }) => event)).not.toContain('server.admin_exposed');
    const [calls, operators] = [url, adminUrl].map((one) => `http://127.0.0.1:${new URL(one).port}`) as [
      string,
      string,
    ];
    const proxied = { 'x-forwarded-for': '203.0.113.7', 'x-forwarded-proto': 'https' };
    const taken = await send(calls, '/v1/track', track('one'), { writeKey: 'wk_web', headers: proxied });
    expect(taken.status).toBe(200);
    for (const path of ['/', '/api/v1/status', '/metrics'])
      expect([path, (await fetch(calls + path)).status]).toEqual([path, 404]);
    expect(await (await fetch(operators)).text()).toContain('<html');
    const token = readFileSync(join(data, 'admin-token'), 'utf8').trim();
    const sources = await fetch(`${operators}/api/v1/sources`, {
      headers: { authorization: `Bearer ${token}` },
    });
    expect(await sources.json()).toMatchObject(before.told['sources'] as object);
    const { code, out, err } = await runVerb(['status', '--data', data], { MILLRACE_URL: operators });
    expect(code, out + err).toBe(0);
  });
});
