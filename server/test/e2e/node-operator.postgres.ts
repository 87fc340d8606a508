import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { openPostgresStore } from '../../src/adapters/postgres/store.ts';
import { systemClock } from '../../src/adapters/system/clock.ts';
import { lasting } from '../faults/waiting.ts';
import { connectTo, nameOf, type Postgres } from '../support/postgres.ts';
import { HAS_POSTGRES, usePostgres } from '../support/postgres-fixture.ts';
import {
  failuresOf,
  makePlace,
  oneDestination,
  type Place,
  runProgram,
  startProgram,
} from '../support/program.ts';
import { until, within } from '../support/until.ts';

const TOKEN = 'token-of-the-tests';

describe.skipIf(!HAS_POSTGRES)('a node, as its operator sees it', () => {
  const postgres = usePostgres();
  let server: Postgres;
  const ended: (() => unknown)[] = [];

  beforeAll(async () => {
    // Passwords over the network, as every distribution sets it up.
    server = await postgres.startServer();
    await server.administrate(`create role guarded login password 'right'`);
    await server.administrate('create database guarded owner guarded');
    const rules = join(server.folder, 'data', 'pg_hba.conf');
    const others = readFileSync(rules, 'utf8');
    writeFileSync(rules, 'local all guarded scram-sha-256\nlocal all turned_away reject\n');
    appendFileSync(rules, others);
    await server.administrate('select pg_reload_conf()');
  });
  afterEach(async () => {
    for (const end of ended.splice(0).reverse()) await end();
  });

  function place(yaml = oneDestination(['http://127.0.0.1:9/in'])): Place {
    const made = makePlace(yaml);
    ended.push(() => made.remove());
    return made;
  }

  const argumentsOf = ({ config, data }: Place, folder = data) => [
    ...['start', '--config', config, '--data', folder, '--port', '0', '--host', '127.0.0.1'],
  ];

  const envOf = (database: string, node = 'a') => ({
    ...{ MILLRACE_DATABASE: database, MILLRACE_NODE: node, MILLRACE_ADMIN_TOKEN: TOKEN },
    ...{ PGPASSWORD: '', PGPASSFILE: '/nowhere' },
  });

  it.each<[string, { user?: string; name?: string; more?: string }, RegExp]>([
    ['no password', { user: 'guarded' }, /asks for a password, and none is given.*PGPASSWORD/],
    ['a wrong password', { user: 'guarded:wrong' }, /28P01.*correct the user in "database", or the password/],
    ['a host that lets nobody in', { user: 'turned_away:x' }, /28000.*pg_hba\.conf/],
    ['a database that is not there', { name: 'none' }, /3D000.*create it \(createdb/],
    ['a server without TLS', { more: '&sslmode=require' }, /turn ssl on/],
    [
      'a misspelt setting',
      { more: '&sslmod=require' },
      /"sslmod", which Millrace does not know: it takes sslmode/,
    ],
    ['a password with a sign of addresses', { user: 'guarded:a%b' }, /cannot be read: .*write .*% as %25/],
  ])('says what to do about %s', async (_, { user = 'millrace', name = 'guarded', more = '' }, expected) => {
    const database = `postgres://${user}@localhost/${name}?host=${encodeURIComponent(server.folder)}${more}`;
    const { code, stderr } = await runProgram({ args: argumentsOf(place()), env: envOf(database) });
    const [failure = '', ...others] = failuresOf(stderr);
    expect(failure).toMatch(expected);
    expect(others).toEqual([]);
    expect(stderr).not.toMatch(/wrong|right|SASL|\n\s+at /);
    expect(code).toBe(1);
  });

  it('refuses tables of another user, and a schema in which it may make none, with what to run', async () => {
    const others = await server.makeDatabase();
    await (await openPostgresStore({ clock: systemClock, url: others, node: 'setup' })).stop();
    const client = await connectTo(others);
    await client.query('create role "The App" login');
    await client.query('grant all on all tables in schema public to "The App"');
    await client.query('grant all on all sequences in schema public to "The App"');
    // Tables of an extension have another owner and are not ours.
    await client.query('create extension if not exists pg_stat_statements').catch(() => undefined);
    const user = `postgres://The%20App@localhost/${nameOf(others)}?host=${encodeURIComponent(server.folder)}`;
    const { code, stderr } = await runProgram({ args: argumentsOf(place()), env: envOf(user) });
    const said = failuresOf(stderr).join('\n');
    expect([code, said]).toEqual([
      1,
      expect.stringMatching(
        /user "The App" of the database does not own the tables, which belong to \w+, and may make no/,
      ),
    ]);
    const [, statements] = /Run as a superuser: (.*)$/.exec(said)!;
    await client.query(statements!);
    await client.end();
    const program = await startProgram({ args: argumentsOf(place()), env: envOf(user) });
    await program.kill();
  });

  it('names the database that it cannot use, and a host that nobody knows', async () => {
    const database = 'postgres://guarded:p@ss@nowhere.invalid:5433/guarded';
    const { stderr } = await runProgram({ args: argumentsOf(place()), env: envOf(database) });
    expect(stderr).toMatch(/cannot use the database postgres:\/\/.*nowhere\.invalid:5433\/guarded/);
    expect(stderr).toMatch(/does not find that host.*@ as %40/);
  });

  it('has its folder for itself, and doctor finds it there', async () => {
    const database = await postgres.makeDatabase();
    const one = place();
    const node = await startProgram({ args: argumentsOf(one), env: envOf(database) });
    ended.push(() => node.kill());
    const second = await runProgram({ args: argumentsOf(one), env: envOf(database, 'b') });
    expect([second.code, second.stderr]).toEqual([1, expect.stringContaining('in use by another running')]);
    const doctor = await runProgram({
      args: ['doctor', '--config', one.config, '--data', one.data, '--url', node.url],
      env: envOf(database),
    });
    expect(doctor.stdout).toMatch(/ok +server/);
    expect(doctor.stdout).not.toMatch(/does not work on this data folder/);
    await node.kill();
    const next = await startProgram({ args: argumentsOf(one), env: envOf(database) });
    ended.push(() => next.kill());
  });

  it('hears of doctor that its database cannot hold every text, before a start refuses it', async () => {
    const good = await postgres.makeDatabase();
    const name = `latin_${process.pid}`;
    await postgres.administrate(`create database ${name} encoding 'LATIN1' locale 'C' template template0`);
    ended.push(() => postgres.administrate(`drop database ${name}`));
    const one = place();
    const said = async (database: string) => {
      const args = ['doctor', '--config', one.config, '--data', one.data, '--url', 'http://127.0.0.1:9'];
      return (await runProgram({ args, env: envOf(database) })).stdout.replaceAll(/\s+/g, ' ');
    };
    expect(await said(good)).toContain('ok database it answers, and a start can use it');
    expect(await said(good.replace(nameOf(good), name))).toMatch(
      /FAIL database the database has the encoding LATIN1.*encoding 'UTF8'/i,
    );
  });

  it('says while the database is away what is wrong with it, in the log once, and goes on by itself', async () => {
    const away = await postgres.startServer();
    const one = place();
    const node = await startProgram({ args: argumentsOf(one), env: envOf(await away.makeDatabase()) });
    ended.push(() => node.kill());
    const readiness = async () => await (await fetch(`${node.url}/readyz`)).text();
    await away.crash();
    await until('the node says why it cannot join again', async () =>
      expect(await readiness()).toMatch(/joins again: cannot use the database .*ECONN|ENOENT/),
    );
    // Some more tries.
    await lasting(2000);
    const said = node.out.stderr.split('\n').filter((line) => line.includes('database.not_joined'));
    expect(new Set(said.map((line) => JSON.parse(line).reason)).size).toBe(said.length);
    const status = await runProgram({
      args: ['status', '--url', node.url, '--token', TOKEN],
      env: {},
    });
    expect(status.stdout + status.stderr).toMatch(/is the server running, and can this machine reach it/);
    await away.restart();
    await until('the node is ready', async () => expect(await readiness()).toBe('{"status":"ready"}'));
  });

  it('says that its roles leave out the control API, to whoever asks it for that', async () => {
    const database = await postgres.makeDatabase();
    const one = place(`roles: [ingest, deliver, users]\n${oneDestination(['http://127.0.0.1:9/in'])}`);
    const program = await startProgram({ args: argumentsOf(one), env: envOf(database) });
    ended.push(() => program.kill());
    const { code, stderr } = await runProgram({ args: ['status', '--url', program.url, '--token', TOKEN] });
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/^millrace: .*no control API.*its roles leave it out.*Ask a node/s),
    ]);
  });

  it('refuses a file that gives a source the write key of another one that the file does not name', async () => {
    const database = await postgres.makeDatabase();
    const [one, other] = ['website', 'second'].map((name) =>
      place(`sources: [{ name: ${name}, writeKeys: [wk_web_1] }]`),
    );
    const first = await startProgram({ args: argumentsOf(one!), env: envOf(database) });
    ended.push(() => first.kill());
    const { code, stderr } = await runProgram({ args: argumentsOf(other!), env: envOf(database, 'b') });
    expect(code).toBe(2);
    expect(failuresOf(stderr).join('')).toMatch(
      /writeKeys.*is also a write key of the source "website", which this file does not name/,
    );
    expect(stderr).not.toContain('wk_web_1');
  });

  it('says what its file changes for all nodes, and where settings are when it has none', async () => {
    const database = await postgres.makeDatabase();
    const [one, other] = [place(), place(oneDestination(['http://127.0.0.1:9/other']))];
    const first = await startProgram({ args: argumentsOf(one), env: envOf(database) });
    ended.push(() => first.kill());
    const second = await startProgram({ args: argumentsOf(other), env: envOf(database, 'b') });
    ended.push(() => second.kill());
    const changed = second.saw(/"changed":\["destination crm"\].*"settings\.file_changed"/);
    await within('the node says what its file changes', changed);
    const told = async (...verb: string[]) =>
      (await runProgram({ args: [...verb, '--url', first.url, '--token', TOKEN] })).stdout;
    const differ = 'the configuration files of its nodes differ (a / b)';
    expect(await told('status')).toContain(differ);
    expect(await told('doctor')).toContain(differ);
    await second.stop();
    const same = await startProgram({ args: argumentsOf(one, other.data), env: envOf(database, 'b') });
    ended.push(() => same.kill());
    expect(await told('status')).not.toContain('differ');
    await same.stop();
    expect(first.out.stderr + first.out.stdout).not.toMatch(/settings\.file_changed/);
    const args = ['start', '--data', other.data, '--port', '0', '--host', '127.0.0.1'];
    const third = await startProgram({ args, env: envOf(database, 'c') });
    ended.push(() => third.kill());
    expect(third.out.stderr).toMatch(/sources and destinations are those the database has/);
  });
});
