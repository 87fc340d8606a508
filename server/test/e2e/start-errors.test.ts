import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  failuresOf,
  makePlace,
  oneDestination,
  type Place,
  type Program,
  runProgram,
  startServer,
} from '../support/program.ts';

const GOOD = oneDestination(['http://127.0.0.1:9/in']);

describe('millrace start', () => {
  let place: Place;
  const args = (...more: string[]) => [
    'start',
    '--config',
    place.config,
    '--data',
    place.data,
    '--host',
    '127.0.0.1',
    ...more,
  ];
  const start = (...more: string[]) => runProgram({ args: args(...more) });

  beforeEach(() => {
    place = makePlace(GOOD);
  });
  afterEach(() => place.remove());

  it('names file, line, path and reason of what is wrong in the configuration, and ends with 2', async () => {
    writeFileSync(place.config, GOOD.replace('http://127.0.0.1:9/in', 'example.com/hook'));
    const { code, stderr } = await start();
    expect(code).toBe(2);
    const line = GOOD.split('\n').findIndex((text) => text.includes('url:')) + 1;
    expect(stderr).toContain(`millrace.yaml:${line}:`);
    expect(stderr).toContain('destinations[0].settings.endpoints[0].url');
    expect(stderr).toContain('example.com/hook');
  });

  it('refuses an endpoint at an address that the egress rules refuse, with its line, and ends with 2', async () => {
    const url = 'http://169.254.169.254/latest';
    writeFileSync(place.config, oneDestination([url]));
    const { code, stderr } = await start();
    expect(code).toBe(2);
    expect(stderr).toContain(
      'destinations[0].settings.endpoints[0].url  169.254.169.254 is refused as link-local; add it to egress.allow if it is yours',
    );
    expect(stderr).toMatch(/millrace\.yaml:12:18 {2}destinations/);
  });

  it('refuses a source that neither the file nor the data folder has, with its line, and ends with 2', async () => {
    writeFileSync(place.config, GOOD.replace('sources: [website]', 'sources: [webiste]'));
    const { code, stderr } = await start();
    expect(code).toBe(2);
    expect(failuresOf(stderr)[0]).toMatch(
      /millrace\.yaml:9:15 {2}destinations\[0\]\.sources\[0\] {2}names the source "webiste", which does not exist; did you mean "website"\?/,
    );
  });

  it('refuses a short admin token where others can reach it', async () => {
    writeFileSync(place.config, `admin: { token: fifteen-letters }\n${GOOD}`);
    const open = await runProgram({ args: ['start', '--config', place.config, '--data', place.data] });
    expect(open.code).toBe(2);
    expect(open.stderr).toMatch(
      /millrace\.yaml:1:17 {2}admin\.token {2}must have at least 16 characters where the server listens on 0\.0\.0\.0/,
    );
    expect(open.stderr).not.toContain('fifteen-letters');
    const env = { MILLRACE_ADMIN_TOKEN: 'fifteen-letters' };
    writeFileSync(place.config, GOOD);
    const given = await runProgram({ args: ['start', '--config', place.config, '--data', place.data], env });
    expect(given).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('MILLRACE_ADMIN_TOKEN  must have'),
    });
  });

  it('says so when the configuration file does not exist, and ends with 2', async () => {
    const { code, stderr } = await runProgram({
      args: ['start', '--config', join(place.folder, 'none.yaml')],
    });
    expect(code).toBe(2);
    expect(stderr).toContain('none.yaml');
  });

  it('says in one line what to do when the port is in use', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    const { code, stderr } = await start('--port', String(port));
    other.close();
    expect(code).toBe(1);
    expect(failuresOf(stderr)).toEqual([
      expect.stringMatching(new RegExp(`port ${port}.*already in use.*--port`)),
    ]);
  });

  it('names the key of a database that it cannot open, and ends with 1', async () => {
    const database = 'postgres://127.0.0.1:9/millrace';
    writeFileSync(place.config, `${GOOD}\ndatabase: ${database}\n`);
    // In a run on PostgreSQL the address that the environment has comes first.
    const { code, stderr } = await runProgram({
      args: args('--port', '0'),
      env: { MILLRACE_DATABASE: database },
    });
    expect(code).toBe(1);
    expect(failuresOf(stderr)).toEqual([expect.stringMatching(/database/)]);
  });
});

describe('a server that starts', () => {
  let place: Place;
  let program: Program;

  beforeAll(async () => {
    place = makePlace(`
admin: { token: fifteen-letters }
sources: [{ name: webiste, writeKeys: [wk_2] }]
destinations:
  - { name: crm, type: webhooks, sources: [], settings: { endpoints: [{ url: "http://nowhere.invalid/" }] } }
`);
    program = await startServer(place);
  });

  afterAll(async () => {
    await program.kill();
    place.remove();
  });

  it('has an endpoint whose name does not resolve, and says so', async () => {
    await program.saw(/nowhere\.invalid does not resolve/);
  });

  it('takes a short admin token on loopback', async () => {
    const headers = { authorization: 'Bearer fifteen-letters' };
    expect((await fetch(`${program.url}/api/v1/ledger`, { headers })).status).toBe(200);
  });

  it('starts again on its folder when it was killed, and a source that only the earlier start has made counts', async () => {
    await program.kill();
    writeFileSync(place.config, GOOD.replace('sources: [website]', 'sources: [webiste]'));
    program = await startServer(place);
    expect(await program.stop()).toBe(0);
    expect(program.out.stderr).not.toContain('webiste');
  });
});
