import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Overview } from '../../src/app.ts';
import { send, track } from '../support/calls.ts';
import { nameOf, type Postgres } from '../support/postgres.ts';
import { HAS_POSTGRES, usePostgres } from '../support/postgres-fixture.ts';
import { type PostgresLine, startPostgresLine } from '../support/postgres-line.ts';
import {
  failuresOf,
  logOf,
  makePlace,
  oneDestination,
  type Place,
  type Program,
  startProgram,
} from '../support/program.ts';
import { until } from '../support/until.ts';

const TOKEN = 'token-of-the-tests';

describe.skipIf(!HAS_POSTGRES)('two nodes, of which one has trouble with its database,', () => {
  const postgres = usePostgres();
  let server: Postgres;
  let line: PostgresLine;
  let database: string;
  let place: Place;
  const running: Program[] = [];

  beforeEach(async () => {
    server = await postgres.startServer();
    line = await startPostgresLine(server.folder);
    database = await server.makeDatabase();
    place = makePlace(oneDestination(['http://127.0.0.1:9/in']));
  });
  afterEach(async () => {
    for (const one of running.splice(0)) await one.kill();
    line.close();
    place.remove();
  });

  async function start(node: string, url = database): Promise<Program> {
    const args = ['start', '--config', place.config, '--data', `${place.data}-${node}`, '--port', '0'];
    const env = { MILLRACE_DATABASE: url, MILLRACE_NODE: node, MILLRACE_ADMIN_TOKEN: TOKEN };
    const program = await startProgram({ args: [...args, '--host', '127.0.0.1'], env });
    running.push(program);
    return program;
  }

  async function jobsOf({ url }: Program, node: string): Promise<readonly string[]> {
    const answer = await fetch(`${url}/api/v1/status`, { headers: { authorization: `Bearer ${TOKEN}` } });
    const { nodes = [] } = (await answer.json()) as Overview;
    return nodes.find(({ name }) => name === node)?.jobs ?? [];
  }

  const saw = ({ out }: Program, event: string) => logOf(out.stderr).some((one) => one.event === event);

  it('are ready as soon as it has joined again, whatever it found while it had the jobs', async () => {
    const a = await start('a', line.through(database));
    await until('it has the job', async () => (await jobsOf(a, 'a')).includes('maintenance'));
    const b = await start('b');
    line.swallow();
    await until('the job has failed, and another node has it', async () => {
      expect(saw(a, 'upkeep.failed')).toBe(true);
      expect(await jobsOf(b, 'b')).toContain('maintenance');
    });
    expect((await fetch(`${a.url}/readyz`)).status).toBe(503);
    line.carry();
    await until('it has joined again', () => saw(a, 'database.joined_again'));
    // Its own jobs are those of the other node, which keeps them.
    await until('it is ready', async () => (await fetch(`${a.url}/readyz`)).status === 200);
    expect(await jobsOf(b, 'b')).toContain('maintenance');
    expect((await send(a.url, '/v1/track', track('after'))).status).toBe(200);
  });

  it('do not become two installations when the database is made anew: the old one ends and says why', async () => {
    const a = await start('a');
    expect((await send(a.url, '/v1/track', track('m1'))).status).toBe(200);
    const name = nameOf(database);
    await server.administrate(`drop database "${name}" with (force)`);
    await server.administrate(`create database "${name}"`);
    const b = await start('b');
    expect(await a.ended()).toBe(1);
    const said = logOf(a.out.stderr).flatMap(({ event, msg }) => (event === 'server.failed' ? [msg] : []));
    expect(said).toEqual([
      expect.stringMatching(/database was made anew.*so it ends\. Start it again if that is meant/),
    ]);
    expect(failuresOf(a.out.stderr)).toEqual([]);
    expect((await send(b.url, '/v1/track', track('m1'))).status).toBe(200);
  });
});
