import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { get, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { unpackFixture } from '../e2e/upgrade/fixture.ts';
import { ADMIN_TOKEN, CONFIG, PROXY } from '../e2e/upgrade/life.ts';
import { send, track } from '../support/calls.ts';
import { connectTo } from '../support/postgres.ts';
import { HAS_POSTGRES, usePostgres } from '../support/postgres-fixture.ts';
import { logOf, makePlace, type Place, type Program, startProgram } from '../support/program.ts';
import { hasNginx, readCompose, startNginx, type TestNginx } from './compose.ts';

const FOLDER = join(import.meta.dirname, 'earlier');
const AUTHORIZED = { authorization: `Bearer ${ADMIN_TOKEN}` };

/**
 * The files of deploy/ and compose.yaml as they were before sources had a trust: people who have them start
 * this program with them.
 */
describe.skipIf(!HAS_POSTGRES)('files of the version before sources had a trust', () => {
  const postgres = usePostgres();
  let place: Place;
  let database: string;
  let before: ReturnType<typeof unpackFixture>['before'];
  let proxy: TestNginx | undefined;
  const nodes: Program[] = [];

  beforeEach(async () => {
    place = makePlace(CONFIG);
    const fixture = unpackFixture(place.data, 'postgres');
    before = fixture.before;
    database = await postgres.makeDatabase();
    const client = await connectTo(database);
    await client.query(fixture.dump!);
    await client.end();
  });
  afterEach(async () => {
    await proxy?.stop();
    proxy = undefined;
    for (const node of nodes.splice(0)) await node.kill();
    place.remove();
  });

  const portOf = ({ url }: Program) => Number(new URL(url).port);

  /** Sends a request of an operator or a probe, by the name that they have for a node or the proxy. */
  async function ask(port: number, path: string, headers: Readonly<Record<string, string>> = {}) {
    const answer = await new Promise<IncomingMessage>((resolve, reject) =>
      get({ port, host: '127.0.0.1', path, headers }, resolve).once('error', reject),
    );
    return { status: answer.statusCode, body: await text(answer) };
  }

  const exposed = ({ out }: Program) =>
    logOf(out.stderr).filter(({ event }) => event === 'server.admin_exposed').length;

  it.runIf(hasNginx())(
    'compose.yaml: calls, console, control API and metrics are on port 8080 as before',
    async () => {
      const compose = readCompose(join(FOLDER, 'compose.yaml'));
      for (const name of ['a', 'b']) {
        const { environment } = compose.services[name]!;
        const env = {
          ...environment,
          ...{
            MILLRACE_DATABASE: database,
            MILLRACE_ADMIN_TOKEN: ADMIN_TOKEN,
            MILLRACE_CONFIG: place.config,
          },
          ...{ MILLRACE_TRUSTED_PROXIES: '127.0.0.1/32', PGPASSWORD: 'password' },
          // Of the image.
          ...{ MILLRACE_DATA: name === 'a' ? place.data : `${place.data}-b`, MILLRACE_PORT: '0' },
          [PROXY]: 'http://127.0.0.1:9',
        };
        nodes.push(await startProgram({ args: ['start'], env }));
      }
      const [a, b] = nodes.map(portOf) as [number, number];
      for (const port of [a, b]) expect((await ask(port, '/readyz')).status).toBe(200);
      proxy = await startNginx({ a, b }, { compose });
      const { port } = new URL(proxy.url);
      expect((await send(proxy.url, '/v1/track', track('one'), { writeKey: 'wk_web' })).status).toBe(200);
      for (const host of [`127.0.0.1:${port}`, 'collect.example.com']) {
        const at = (path: string, headers = {}) => ask(Number(port), path, { host, ...headers });
        expect((await at('/')).body).toContain('<html');
        expect((await at('/metrics', AUTHORIZED)).status).toBe(200);
        const bob = await at('/api/v1/profiles/bob', AUTHORIZED);
        expect(JSON.parse(bob.body)).toMatchObject(before.told['profiles/bob'] as object);
        expect((await at('/api/v1/status')).status).toBe(401);
      }
      await signsIn(proxy.url);
      expect(nodes.map(exposed)).toEqual([1, 1]);
    },
  );

  /**
   * As the console does it in a browser: sign in, look, change something. The proxy of before takes the port
   * from `Host`.
   */
  async function signsIn(url: string): Promise<void> {
    const page = { origin: url, 'sec-fetch-site': 'same-origin' };
    const session = `${url}/api/v1/session`;
    const body = JSON.stringify({ token: ADMIN_TOKEN });
    const signedIn = await fetch(session, { method: 'POST', headers: page, body });
    expect(signedIn.status).toBe(201);
    const { key } = (await signedIn.json()) as { key: string };
    const headers = {
      ...page,
      cookie: signedIn.headers.get('set-cookie')!.split(';')[0]!,
      'x-millrace-console': key,
    };
    expect((await fetch(session, { headers })).status).toBe(200);
    const pause = `${url}/api/v1/destinations/crm/pause`;
    expect((await fetch(pause, { method: 'POST', headers })).status).toBe(200);
  }

  it('deploy/kubernetes.yaml: a node starts with the links of a configuration and a secret', async () => {
    const documents = parseAllDocuments(readFileSync(join(FOLDER, 'kubernetes.yaml'), 'utf8'));
    const resources = documents.map((one) => one.toJS() as { kind: string; data?: Record<string, string> });
    const file = resources.find(({ kind }) => kind === 'ConfigMap')!.data!['millrace.yaml']!;
    const [ofFile] = file.split('sources:');
    const config = mounted('config', 'millrace.yaml', ofFile! + CONFIG);
    const password = mounted('secret', 'database-password', 'password');
    const env = {
      ...{ MILLRACE_CONFIG: config, MILLRACE_NODE: 'millrace-0', MILLRACE_ADMIN_TOKEN: ADMIN_TOKEN },
      ...{ MILLRACE_DATABASE_PASSWORD_FILE: password, MILLRACE_DATABASE: database },
      ...{ MILLRACE_DATA: place.data, MILLRACE_PORT: '0', [PROXY]: 'http://127.0.0.1:9' },
    };
    const node = await startProgram({ args: ['start'], env });
    nodes.push(node);
    const port = portOf(node);
    for (const path of ['/healthz', '/readyz'])
      expect((await ask(port, path, { host: '10.1.2.3:8080' })).status).toBe(200);
    const control = await ask(port, '/api/v1/sources', { host: 'millrace-control:8080', ...AUTHORIZED });
    expect(JSON.parse(control.body)).toMatchObject(before.told['sources'] as object);
    expect((await ask(port, '/', { host: 'localhost:8080' })).body).toContain('<html');
    expect(exposed(node)).toBe(1);
  });

  /** A file as Kubernetes shows it: a link to a link of a folder. */
  function mounted(volume: string, name: string, content: string): string {
    const folder = join(place.folder, volume);
    mkdirSync(join(folder, '..2026_11_30'), { recursive: true });
    writeFileSync(join(folder, '..2026_11_30', name), content, { mode: 0o440 });
    symlinkSync('..2026_11_30', join(folder, '..data'));
    symlinkSync(join('..data', name), join(folder, name));
    return join(folder, name);
  }
});
