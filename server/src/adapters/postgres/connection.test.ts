import { chmodSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { connectionOptions, hostsOf, shownPlace, unprotectedHosts } from './connection.ts';

const folder = mkdtempSync(join(tmpdir(), 'millrace-connection-'));
afterAll(() => rmSync(folder, { recursive: true }));

describe('the address of a database', () => {
  it('names user, password, host, port and database', () => {
    expect(connectionOptions('postgres://us%40er:p%2Fw@db.internal:6432/mill%20race', {})).toEqual({
      ...{ user: 'us@er', password: 'p/w', database: 'mill race' },
      ...{ ssl: false, application_name: 'millrace' },
    });
    expect(hostsOf('postgres://us%40er:p%2Fw@db.internal:6432/mill%20race')).toEqual([
      { host: 'db.internal', port: 6432 },
    ]);
  });

  it('names as many servers as there are', () => {
    const both = [{ host: 'one', port: 5433 }, { host: 'two' }];
    expect(hostsOf('postgres://m:p@one:5433,two/m?sslmode=require')).toEqual(both);
    expect(connectionOptions('postgres://m:p@one:5433,two/m', {})).toMatchObject({
      user: 'm',
      database: 'm',
    });
    expect(hostsOf('postgres:///m?host=/a,/b&port=1,2')).toEqual([
      { host: '/a', port: 1 },
      { host: '/b', port: 2 },
    ]);
    expect(hostsOf('postgres://one,two/m?port=7')).toEqual([
      { host: 'one', port: 7 },
      { host: 'two', port: 7 },
    ]);
    expect(hostsOf('postgres:///m')).toEqual([{}]);
    expect(() => hostsOf('postgres:///m?host=a,b&port=1,2,3')).toThrow('names 2 hosts and 3 ports');
  });

  it('may name the folder of a socket', () => {
    const options = connectionOptions('postgres:///db?host=%2Frun%2Fpostgresql&port=6543&user=m', {});
    expect(options).toMatchObject({ user: 'm', database: 'db' });
    expect(hostsOf('postgres:///db?host=%2Frun%2Fpostgresql&port=6543')).toEqual([
      { host: '/run/postgresql', port: 6543 },
    ]);
  });

  it('leads over a network without TLS, or not', () => {
    const open: [string, NodeJS.ProcessEnv, string[]][] = [
      ['postgres://m@db.internal/m', {}, ['db.internal']],
      ['postgres://m@localhost,10.0.0.7:6432/m', {}, ['10.0.0.7']],
      ['postgres:///m?host=/run/postgresql,db&user=m', {}, ['db']],
      ['postgres:///m', { PGHOST: 'db' }, ['db']],
      ['postgres://m@db/m?sslmode=disable', { PGSSLMODE: 'require' }, ['db']],
      ['postgres://m@db/m?sslmode=require', {}, []],
      ['postgres://m@db/m', { PGSSLMODE: 'verify-full' }, []],
      ['postgres://m@127.0.0.1/m', {}, []],
      ['postgres:///m', {}, []],
      ['postgres:///m', { PGHOST: '/run/postgresql' }, []],
    ];
    for (const [address, env, hosts] of open)
      expect([address, unprotectedHosts(address, env)]).toEqual([address, hosts]);
  });

  it('that cannot be read is refused without being quoted', () => {
    expect(() => connectionOptions('postgres://u:s3cret@[/x', {})).toThrow('the address cannot be read');
    const unescaped = () => hostsOf('postgres://u:s3cret%@db/x');
    expect(unescaped).toThrow(/cannot be read: .*% as %25/);
    expect(unescaped).not.toThrow('s3cret');
  });

  it('is refused with a setting of TLS that it does not know, which would leave the way open', () => {
    for (const wrong of ['sslmod=require', 'ssl=true', 'sslcert=/c.pem'])
      expect(() => connectionOptions(`postgres://m@db/m?${wrong}`, {})).toThrow(
        'which Millrace does not know',
      );
    expect(connectionOptions('postgres://m@db/m?connect_timeout=5', {})).toMatchObject({ user: 'm' });
  });

  it('is shown in messages, without a password', () => {
    expect(shownPlace('postgres://m:s3cret@one,two:5433/db')).toBe(
      'the database postgres://one:5432,two:5433/db',
    );
    expect(shownPlace('postgres:///db')).toBe('the database');
  });

  it('has a password that is read again at each connection', async () => {
    const file = join(folder, 'password');
    const env = { MILLRACE_DATABASE_PASSWORD_FILE: file };
    const { password } = connectionOptions('postgres://m@db/m', env);
    const read = password as () => Promise<string>;
    await expect(read()).rejects.toThrow(`cannot be read from ${file} (ENOENT)`);
    writeFileSync(file, 'one\n');
    expect(await read()).toBe('one');
    writeFileSync(file, 'two');
    expect(await read()).toBe('two');
    chmodSync(file, 0o666);
    await expect(read()).rejects.toThrow(/which may be written by everybody on this machine: .*chmod o-w/);
    chmodSync(file, 0o660);
    // As an orchestrator mounts it.
    symlinkSync(file, join(folder, 'mounted'));
    const mounted = connectionOptions('postgres://m@db/m', {
      MILLRACE_DATABASE_PASSWORD_FILE: join(folder, 'mounted'),
    }).password as () => Promise<string>;
    expect(await mounted()).toBe('two');
    expect(connectionOptions('postgres://m:in-address@db/m', env).password).toBe('in-address');
  });

  it('says what a certificate must show', () => {
    const ca = join(folder, 'ca.pem');
    writeFileSync(ca, 'certificate');
    const ssl = (query: string, env = {}) => connectionOptions(`postgres://m@db/m${query}`, env).ssl;
    expect(ssl('')).toBe(false);
    expect(ssl('?sslmode=require')).toMatchObject({ rejectUnauthorized: false });
    expect(ssl(`?sslmode=require&sslrootcert=${ca}`)).toMatchObject({
      rejectUnauthorized: true,
      ca: 'certificate',
    });
    expect(ssl('?sslmode=verify-ca')).toHaveProperty('checkServerIdentity');
    expect(ssl('', { PGSSLMODE: 'verify-full', PGSSLROOTCERT: ca })).toEqual({ ca: 'certificate' });
    expect(() => ssl('?sslmode=prefer')).toThrow('sslmode must be disable, require, verify-ca, verify-full');
    expect(() => ssl('?sslmode=require&sslrootcert=/nowhere')).toThrow(
      'cannot be read from /nowhere (ENOENT)',
    );
  });
});
