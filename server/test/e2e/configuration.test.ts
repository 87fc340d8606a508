import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { apply } from '../../../cli/src/plan.ts';
import type { RunContext } from '../../../cli/src/run-context.ts';
import { runVerb } from '../../../cli/test/program.ts';
import { type ExportedRecords, formatConfig, readRecords } from '../../src/config/load.ts';
import { send, track } from '../support/calls.ts';
import { adminTokenOf, makePlace, type Place, type Program, startProgram } from '../support/program.ts';
import { randomRecords } from '../support/random-records.ts';
import { freePort } from '../support/receiver.ts';
import { secretVariables } from '../support/secret-variables.ts';

/** A running server on a folder of its own. */
interface Server {
  readonly place: Place;
  readonly program: Program;
  /** Runs a command of the program, which is told the server's address. */
  run(args: readonly string[], env?: Readonly<Record<string, string>>): ReturnType<typeof runVerb>;
  ask(method: string, path: string, body?: object): Promise<{ status: number; answer: never }>;
}

async function serve(place: Place, ...more: string[]): Promise<Server> {
  const args = ['start', '--data', place.data, '--port', '0', '--host', '127.0.0.1', ...more];
  const program = await startProgram({ args });
  const token = adminTokenOf(place);
  return {
    place,
    program,
    run: (given, env) => runVerb([...given, '--url', program.url, '--data', place.data], env),
    ask: async (method, path, body) => {
      const response = await fetch(`${program.url}/api/v1/${path}`, {
        ...{ method, headers: { authorization: `Bearer ${token}` } },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      return { status: response.status, answer: JSON.parse((await response.text()) || 'null') as never };
    },
  };
}

/** Every setting a record can have, with characters that files and shells stumble over. */
const RICH = `
sources:
  - { name: website, writeKeys: [wk_1, "1e3"], mode: strict, rateLimit: 100, dedupeWindow: 36h }
  - { name: "yes", writeKeys: ["{}"], enabled: false, whenDisabled: discard }
destinations:
  - name: crm
    type: webhooks
    sources: [website, "yes"]
    enabled: false
    settings:
      endpoints:
        - url: https://a.example/hook?x={1}&y=$$\{z}
          headers: { X-Team: "growth: #1", Authorization: "Bearer \${BEARER}" }
        - { url: "http://b.example:8080/" }
      sharedSecret: \${FIRST}
      signingSecrets: [\${OLD}, \${NEW}]
      format: canonical
      success: each
      filter: { types: [track, page], events: ["Order *", "- x", "a\\nb", "$$\{HOME}", ünd, "🚀"] }
      rateLimit: 7
      concurrency: 3
  - name: "1a b: [c]"
    type: webhooks
    sources: []
    paused: true
    settings: { endpoints: [{ url: https://c.example }], sharedSecret: \${SECOND} }
`;
const SECRETS = {
  FIRST: 'the first "secret"',
  SECOND: '$$\u007bsecond}',
  BEARER: 'x',
  OLD: `whsec_${Buffer.alloc(24, 1).toString('base64')}`,
  NEW: `whsec_${Buffer.alloc(24, 2).toString('base64')}`,
};

describe('configuration as code', () => {
  const servers: Server[] = [];
  let first: Server;
  let empty: Server;

  beforeAll(async () => {
    const places = [makePlace(RICH), makePlace('')];
    servers.push(...(await Promise.all(places.map((place) => serve(place)))));
    [first, empty] = servers as [Server, Server];
  });

  afterAll(async () => {
    for (const { program, place } of servers) {
      await program.kill();
      place.remove();
    }
  });

  it('is the same, byte for byte, after export, apply on an empty server, and export', async () => {
    const { config, folder } = first.place;
    const applied = await first.run(['apply', '-f', config], SECRETS);
    expect(applied).toMatchObject({ code: 0, out: expect.stringMatching(/\nDone: 4 created\.\n$/) });
    const exported = await first.run(['export']);
    expect(exported).toMatchObject({ code: 0, err: '' });
    for (const secret of Object.values(SECRETS).filter((text) => text.length > 1))
      expect(exported.out).not.toContain(secret);

    const file = join(folder, 'exported.yaml');
    writeFileSync(file, exported.out);
    const env = {
      CRM_SECRET: SECRETS.FIRST,
      CRM_SIGNING_SECRET_1: SECRETS.OLD,
      CRM_SIGNING_SECRET_2: SECRETS.NEW,
      CRM_HEADER_1_AUTHORIZATION: `Bearer ${SECRETS.BEARER}`,
      CRM_QUERY_1_X: '{1}',
      CRM_QUERY_1_Y: '$\u007bz}',
      _1A_B_C_SECRET: SECRETS.SECOND,
    };
    // With these secrets the file equals the server's settings: no secret went to the wrong place.
    const [planned, moved] = await Promise.all([
      first.run(['plan', '-f', file], env),
      empty.run(['apply', '-f', file, '--json'], env),
    ]);
    expect(planned).toMatchObject({ code: 0, out: 'Nothing to change.\n', err: '' });
    expect(moved.code).toBe(0);
    expect(JSON.parse(moved.out)).toMatchObject({ applied: true, changes: { length: 4 } });
    const again = join(folder, 'again.yaml');
    expect((await empty.run(['export', '-o', again])).code).toBe(0);
    expect(readFileSync(again, 'utf8')).toBe(exported.out);
  });

  it('is refused with its line where an address is, or a source is none, by plan and by apply', async () => {
    const file = join(first.place.folder, 'refused.yaml');
    writeFileSync(
      file,
      `sources: [{ name: shop, writeKeys: [wk_shop] }]
destinations:
  - { name: a, type: webhooks, sources: [shpo], settings: { endpoints: [{ url: "http://169.254.169.254/" }] } }
  - name: b
    type: webhooks
    sources: [shop, nobody]
    settings: { endpoints: [{ url: "http://[::1]:1/" }, { url: "https://1.1.1.1" }] }
`,
    );
    for (const verb of ['plan', 'apply']) {
      const { code, out, err } = await first.run([verb, '-f', file]);
      expect({ code, out }).toEqual({ code: 1, out: '' });
      expect(err.replaceAll(file, 'f').split('\n')).toEqual([
        'millrace: the server refuses f, and nothing was changed:',
        'f:3:42  destinations[0].sources[0]  names the source "shpo", which does not exist; did you mean "shop"?',
        'f:6:21  destinations[1].sources[1]  names the source "nobody", which does not exist',
        '',
      ]);
    }
    writeFileSync(file, readFileSync(file, 'utf8').replace('shpo', 'shop').replace(', nobody', ''));
    for (const verb of ['plan', 'apply']) {
      const { code, err } = await first.run([verb, '-f', file]);
      expect(code).toBe(1);
      expect(err.replaceAll(file, 'f').split('\n')).toEqual([
        'millrace: the server refuses f, and nothing was changed:',
        'f:3:80  destinations[0].settings.endpoints[0].url  169.254.169.254 is refused as link-local; add it to egress.allow if it is yours',
        'f:7:36  destinations[1].settings.endpoints[0].url  ::1 is refused as loopback; add it to egress.allow if it is yours',
        '',
      ]);
    }
  });

  it('warns of names that do not resolve and of short secrets, and saves them', async () => {
    const file = join(first.place.folder, 'warned.yaml');
    writeFileSync(
      file,
      `destinations:
  - name: later
    type: webhooks
    sources: []
    settings: { endpoints: [{ url: "http://nowhere.invalid/" }], sharedSecret: short }
`,
    );
    const warned = [
      'millrace: warning: f:5:36  destinations[0].settings.endpoints[0].url  nowhere.invalid does not resolve: nothing is sent until it does',
      'millrace: warning: f:5:80  destinations[0].settings.sharedSecret  has fewer than 16 characters, and could be guessed from one signed request; take a longer one if the receiver can',
      '',
    ];
    for (const verb of ['plan', 'apply']) {
      const { code, err } = await first.run([verb, '-f', file]);
      expect(code).toBe(0);
      expect(err.replaceAll(file, 'f').split('\n')).toEqual(warned);
    }
    // Settings already stored are not warned of again.
    expect(await first.run(['apply', '-f', file])).toMatchObject({ code: 0, err: '' });
  });

  it('is applied with the ETag of its plan only while the records are those that it was made for', async () => {
    const { program, place, ask } = empty;
    const put = async (query: string, rateLimit: number, tag?: string) => {
      const headers = {
        authorization: `Bearer ${adminTokenOf(place)}`,
        ...(tag === undefined ? {} : { 'if-match': tag }),
      };
      const body = JSON.stringify({ sources: [{ name: 'app', writeKeys: ['wk'], rateLimit }] });
      return await fetch(`${program.url}/api/v1/config?${query}`, { method: 'PUT', headers, body });
    };
    const planned = (await put('dryRun=true', 1)).headers.get('etag') ?? '';
    expect((await ask('POST', 'sources', { name: 'other' })).status).toBe(201);
    expect((await put('', 1, planned)).status).toBe(412);
    expect((await ask('GET', 'sources/app')).status).toBe(404);
    const again = (await put('dryRun=true', 1)).headers.get('etag') ?? '';
    const applied = await put('', 1, again);
    expect(applied.status).toBe(200);
    expect((await put('', 2, again)).status).toBe(412);
    expect((await put('', 2, applied.headers.get('etag') ?? '')).status).toBe(200);
  });

  it('goes round through the server whatever names and texts it has: 20 configurations', async () => {
    const { ask } = empty;
    for (const document of fc.sample(randomRecords, 20)) {
      const made = await ask('PUT', 'config?prune=true&confirm=true', document);
      expect(made.status, JSON.stringify(made.answer)).toBe(200);
      const shown: ExportedRecords = (await ask('GET', 'config')).answer;
      const text = formatConfig(shown);
      const read = readRecords({ path: 'f', text }, secretVariables(text, shown, document));
      const { sources, destinations } = read;
      const planned = await ask('PUT', 'config?prune=true&dryRun=true', { sources, destinations });
      expect(planned.answer).toMatchObject({ changes: [], kept: [] });
    }
  });
});

const OWED = (url: string, enabled = true) => `
egress: { allow: [127.0.0.0/8] }
sources: [{ name: website, writeKeys: [wk] }]
destinations:
  - { name: crm, type: webhooks, sources: [website], enabled: ${enabled}, settings: { endpoints: [{ url: "${url}" }] } }
`;

describe('a destination that something is owed to', () => {
  let server: Server;
  let url: string;

  beforeAll(async () => {
    url = `http://127.0.0.1:${await freePort()}/in`;
    const place = makePlace(OWED(url));
    server = await serve(place, '--config', place.config);
    await send(server.program.url, '/v1/track', track('a'));
    await send(server.program.url, '/v1/track', track('b'));
  });

  afterAll(async () => {
    await server.program.kill();
    server.place.remove();
  });

  /** Runs a command on a terminal where a person types this. */
  async function applied(typed: string, more: { prune?: boolean } = {}) {
    const keyboard = Object.assign(new PassThrough(), { isTTY: true });
    const screen = Object.assign(new PassThrough().setEncoding('utf8'), { isTTY: true });
    const out = new PassThrough().setEncoding('utf8');
    const context = {
      env: { NO_COLOR: '1' },
      in: keyboard,
      out,
      err: screen,
      stopping: new Promise(() => {}),
    };
    keyboard.write(typed);
    const { config: file, data } = server.place;
    const code = await apply(
      { file, data, url: server.program.url, ...more },
      context as never as RunContext,
    );
    return { code, out: String(out.read() ?? ''), screen: String(screen.read()) };
  }

  it('is disconnected only by a person who confirms it', async () => {
    writeFileSync(server.place.config, OWED(url, false));
    const [planned, refused] = await Promise.all([
      server.run(['plan', '-f', server.place.config]),
      server.run(['apply', '-f', server.place.config]),
    ]);
    expect(planned).toMatchObject({
      code: 0,
      out: '~ destination crm\n    enabled: true → false\n\nDestination crm is still owed 2 deliveries, and this disconnects it.\nWould be: 1 changed.\n',
    });
    expect(refused).toMatchObject({ code: 1, out: '' });
    expect(refused.err).toMatch(
      /nothing was changed.*\n {2}destination "crm" is still owed 2 deliveries\n.*--yes/,
    );
    expect((await server.ask('GET', 'destinations/crm')).answer).toMatchObject({ enabled: true });
    const confirmed = await server.run(['apply', '-f', server.place.config, '--yes']);
    expect(confirmed).toMatchObject({ code: 0, out: expect.stringMatching(/Done: 1 changed\.\n$/) });
    expect((await server.ask('GET', 'destinations/crm')).answer).toMatchObject({ enabled: false });
  });

  it('stays paused under a file that says nothing of it, and is resumed by one that says so', async () => {
    const { run, ask, place } = server;
    const file = place.config;
    const shown = async () => (await ask('GET', 'destinations/crm')).answer as { paused?: boolean };
    writeFileSync(file, OWED(url));
    expect((await run(['apply', '-f', file])).code).toBe(0);
    expect((await run(['pause', 'crm'])).code).toBe(0);
    expect(await run(['plan', '-f', file])).toMatchObject({ code: 0, out: 'Nothing to change.\n' });
    expect(await run(['apply', '-f', file])).toMatchObject({ code: 0, out: 'Nothing to change.\n' });
    expect(await shown()).toMatchObject({ paused: true });
    expect((await run(['export'])).out).toMatch(/^ {4}paused: true$/m);

    writeFileSync(file, OWED(url).replace('enabled: true', 'paused: false'));
    expect((await run(['plan', '-f', file])).out).toMatch(/~ destination crm\n {4}paused: .*true/);
    expect((await run(['apply', '-f', file])).code).toBe(0);
    expect(await shown()).not.toHaveProperty('paused');
    expect((await run(['export'])).out).not.toMatch(/paused/);

    writeFileSync(file, OWED(url).replace('enabled: true', 'paused: true'));
    expect((await run(['apply', '-f', file])).code).toBe(0);
    expect(await shown()).toMatchObject({ paused: true });
    const patched = await ask('PATCH', 'destinations/crm', { paused: null });
    expect(patched.answer).not.toHaveProperty('paused');
    expect((await ask('PATCH', 'destinations/crm', { paused: true })).answer).toMatchObject({ paused: true });
    expect((await run(['resume', 'crm'])).code).toBe(0);
    writeFileSync(file, OWED(url, false));
    expect((await run(['apply', '-f', file, '--yes'])).code).toBe(0);
  });

  it('takes a file from standard input, and names it so', async () => {
    const { data } = server.place;
    const run = (verb: string, input: string) =>
      runVerb([verb, '-f', '-', '--data', data, '--url', server.program.url], {}, input);
    const shop = 'sources: [{ name: shop, writeKeys: [wk_shop] }]\n';
    expect(await run('plan', shop)).toMatchObject({ code: 0, out: expect.stringContaining('+ source shop') });
    expect(await run('apply', shop)).toMatchObject({
      code: 0,
      out: expect.stringContaining('Done: 1 created'),
    });
    expect((await server.ask('DELETE', 'sources/shop')).status).toBe(204);
    expect(await run('apply', 'sources: [{ nam: x }]')).toMatchObject({ code: 2, out: '' });
    expect((await run('plan', 'sources: [{ nam: x }]')).err).toMatch(/standard input:1/);
  });

  it('is asked about on a terminal, once, after the plan', async () => {
    writeFileSync(server.place.config, 'sources: []\n');
    const refused = await applied('no\n', { prune: true });
    expect(refused).toMatchObject({ code: 1, out: '' });
    expect(refused.screen).toMatch(
      /- source website\n- destination crm\n\nDestination crm is still owed 2 .*\nWould be: 2 removed\.\nChange http:\S+ so\? \[y\/N\] millrace: nothing was changed\.\n$/,
    );
    const accepted = await applied('y\n', { prune: true });
    expect(accepted).toMatchObject({ code: 0, out: expect.stringMatching(/Done: 2 removed\.\n$/) });
    const unchanged = await applied('');
    expect(unchanged).toEqual({ code: 0, out: 'Nothing to change.\n', screen: 'null' });
  });

  it('has what the server says against a file told by its line', async () => {
    const { config } = server.place;
    await server.ask('POST', 'sources', { name: 'app', writeKeys: ['taken'] });
    writeFileSync(config, 'port: 1\nsources:\n  - name: website\n    writeKeys: [wk, taken]\n');
    const refused = await server.run(['apply', '-f', config]);
    expect(refused).toMatchObject({ code: 1, out: '' });
    expect(refused.err).toContain(
      `${config}:4:21  sources[0].writeKeys[1]  is also a write key of the source "app", which is not named here and stays\n`,
    );
    expect(refused.err).toMatch(/^millrace: port of \S+: read by millrace start, not sent/);
  });
});

describe('a server with records of a file', () => {
  let place: Place;
  let server: Server;

  const startWithFile = async () => {
    server = await serve(place, '--config', place.config);
  };

  beforeAll(async () => {
    place = makePlace(OWED('http://127.0.0.1:9/in'));
    await startWithFile();
  });

  afterAll(async () => {
    await server.program.kill();
    place.remove();
  });

  it('refuses an export by a viewer, because a viewer is shown no write keys', async () => {
    const { out } = await server.run(['token', 'create', 'looker', '--role', 'viewer']);
    const refused = await runVerb(['export', '--url', server.program.url], {
      MILLRACE_ADMIN_TOKEN: out.trim(),
    });
    expect(refused).toMatchObject({ code: 1, out: '' });
    expect(refused.err).toContain('a viewer is shown no write keys: export with the token of an editor');
    const file = join(place.folder, 'masked.yaml');
    writeFileSync(file, 'sources: [{ name: website, writeKeys: […1234] }]');
    const applied = await server.run(['apply', '-f', file, '--yes']);
    expect(applied).toMatchObject({ code: expect.any(Number), out: '' });
    expect([applied.code === 0, applied.err]).toEqual([
      false,
      expect.stringMatching(/writeKeys\[0\] {2}must be a whole write key, and not how one ends/),
    ]);
    expect((await server.run(['token', 'revoke', 'looker'])).code).toBe(0);
  });

  it('loses an edit over the API when it starts with a file that says otherwise, and a warning names its author', async () => {
    const made = await server.run(['token', 'create', 'ann', '--role', 'editor', '--expires', '90d']);
    expect(made).toMatchObject({ code: 0, out: expect.stringMatching(/^mr_[\w-]{43}\n$/) });
    expect(made.err).not.toContain(made.out.trim());
    const patch = {
      method: 'PATCH',
      headers: { authorization: `Bearer ${made.out.trim()}` },
      body: JSON.stringify({ settings: { rateLimit: 9 } }),
    };
    const edit = () => fetch(`${server.program.url}/api/v1/destinations/crm`, patch);
    const help = ['token', 'create', 'help', '--role', 'viewer', '--destination', 'crm', '--no-bodies'];
    expect(await server.run(help)).toMatchObject({ code: 0 });
    const [edited, listed] = await Promise.all([edit(), server.run(['token', 'list'])]);
    expect(edited.status).toBe(200);
    const revoked = await server.run(['token', 'revoke', 'ann']);
    expect((await edit()).status).toBe(401);
    expect(listed.out).toMatch(
      /^name +role +ends in +made +good until +for\nann +editor +…\S{4} +20\S+Z +20\S+Z *\nhelp +viewer +…\S{4} +20\S+Z +crm, no bodies\n$/,
    );
    expect(revoked).toMatchObject({ code: 0, out: 'ann is revoked.\n' });
    await server.program.stop();

    await startWithFile();
    const { out } = server.program;
    const [warning] = out.stderr.split('\n').filter((line) => line.includes('overwritten'));
    expect(JSON.parse(warning!)).toMatchObject({
      ...{ level: 'warn', event: 'settings.overwritten' },
      ...{ kind: 'destination', name: 'crm', by: 'ann', at: expect.stringMatching(/^20\S+Z$/) },
    });
    const { answer } = await server.ask('GET', 'destinations/crm');
    expect(answer).not.toHaveProperty('settings.rateLimit');
  });

  it('names those records, so that an edit can be known beforehand to be lost', async () => {
    await server.ask('POST', 'sources', { name: 'app' });
    expect((await server.ask('GET', 'config/file')).answer).toEqual({
      ...{ sources: ['website'], destinations: ['crm'], audiences: [], traits: [], alerts: [] },
    });
    await server.program.kill();
    server = await serve(place);
    expect((await server.ask('GET', 'config/file')).answer).toMatchObject({ sources: [], destinations: [] });
  });
});
