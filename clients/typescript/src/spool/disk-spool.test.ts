import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { GIVE_UP_AFTER } from '../../../../server/test/support/until.ts';
import { type Collector, FAST, startCollector } from '../../test/collector.ts';
import type { Entry } from '../backlog.ts';
import { Client } from '../client.ts';
import type { Failure } from '../failure.ts';
import { diskSpool } from './disk-spool.ts';

describe('a spool on the disk', () => {
  let dir: string;
  let collector: Collector;
  let status = 200;
  let failures: Failure[];

  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), 'millrace-spool-'));
    status = 200;
    failures = [];
    collector = await startCollector((response) => {
      response.statusCode = status;
      response.end('{}');
    });
  });
  afterEach(async () => {
    await collector.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  const start = (maxBytes?: number, whenFull?: 'refuse' | 'drop-oldest') => open('first', maxBytes, whenFull);
  /** Another process, by its write key: a request the first one has cut off may arrive late. */
  const restart = () => open('second');
  const open = (writeKey: string, maxBytes?: number, whenFull?: 'refuse' | 'drop-oldest') =>
    new Client(writeKey, {
      endpoint: collector.url,
      clock: FAST,
      closeTimeout: GIVE_UP_AFTER,
      spool: diskSpool({ dir, maxBytes, whenFull }),
      onFailure: (failure) => failures.push(failure),
    });
  const files = () => readdirSync(dir).toSorted();
  /** Message ids that the second client sent. */
  const ids = () =>
    collector.requests
      .filter(({ headers }) => headers.authorization === `Basic ${btoa('second:')}`)
      .flatMap(({ body }) => body.batch.map(({ messageId }) => messageId));
  const track = (client: Client, messageId: string, properties = {}) =>
    client.track({ userId: 'u1', event: 'E', messageId, properties });

  it('refuses an option that it does not have, before it makes its folder', () => {
    const none = join(dir, 'none');
    const options = { dir: none, maxbytes: 5 } as unknown as Parameters<typeof diskSpool>[0];
    expect(() => diskSpool(options)).toThrow('there is no option maxbytes; did you mean maxBytes?');
    expect(existsSync(none)).toBe(false);
  });

  it('has a call on the disk before it is accepted, and nothing left when all are answered for', async () => {
    const client = start();
    track(client, 'm1');
    expect(files()).toEqual(['0000000001.calls', 'lock']);
    expect(readFileSync(join(dir, '0000000001.calls'), 'utf8')).toMatch(/^\{"messageId":"m1".*\}\n$/);
    expect(await client.flush()).toMatchObject({ delivered: 1, pending: 0 });
    expect(files()).toEqual(['lock']);
    await client.close();
    expect(files()).toEqual([]);
  });

  it('keeps what it cannot send, and sends it on the next start, in order', async () => {
    status = 503;
    const client = start();
    for (let n = 0; n < 50; n++) track(client, `m${n}`);
    expect(await client.close({ timeout: 20 })).toMatchObject({
      accepted: 50,
      delivered: 0,
      failed: 0,
      pending: 50,
    });
    status = 200;
    const next = restart();
    expect(next.counts).toMatchObject({ accepted: 50, pending: 50 });
    expect(await next.close()).toMatchObject({ delivered: 50, pending: 0 });
    expect(ids().toSorted()).toEqual(Array.from({ length: 50 }, (_, n) => `m${n}`).toSorted());
    expect(files()).toEqual([]);
  });

  it('sends nothing again that was answered for before it ended without closing', async () => {
    const client = start();
    for (let n = 0; n < 30; n++) track(client, `m${n}`);
    await client.flush();
    status = 503;
    for (let n = 30; n < 60; n++) track(client, `m${n}`);
    await client.close({ timeout: 20 });
    status = 200;
    const next = restart();
    await next.close();
    expect(ids().toSorted()).toEqual(Array.from({ length: 30 }, (_, n) => `m${n + 30}`));
  });

  it('holds more calls than memory has room for, and delivers every one of them once', async () => {
    status = 503;
    const client = start();
    const total = 6_000;
    for (let n = 0; n < total; n++) expect(track(client, `m${n}`)).toBeUndefined();
    await collector.until(() => collector.requests.length > 1);
    const failing = collector.requests.length;
    status = 200;
    expect(await client.flush()).toMatchObject({ delivered: total, failed: 0 });
    const sent = collector.requests
      .slice(failing)
      .flatMap(({ body }) => body.batch.map((item) => item.messageId));
    expect(new Set([...sent]).size).toBe(total);
    expect(sent).toHaveLength(total);
    await client.close();
  });

  it('tells callbacks of calls that were on the disk only', async () => {
    status = 503;
    const client = start();
    let stored = 0;
    for (let n = 0; n < 2_500; n++) {
      client.track({ userId: 'u1', event: 'E' }, (failure) => {
        if (failure === undefined) stored++;
      });
    }
    status = 200;
    await client.close();
    expect(stored).toBe(2_500);
  });

  it('drops the oldest calls when the disk may hold no more, and reports each of them', async () => {
    status = 503;
    const client = start(1024 * 1024);
    const properties = { pad: 'x'.repeat(10_000) };
    for (let n = 0; n < 200; n++) expect(track(client, `m${n}`, properties)).toBeUndefined();
    const size = files().reduce((sum, name) => sum + statSync(join(dir, name)).size, 0);
    expect(size).toBeLessThan(1024 * 1024);
    const dropped = failures.map(({ messageId }) => messageId);
    expect(dropped).toEqual(Array.from({ length: dropped.length }, (_, n) => `m${n}`));
    expect(dropped.length).toBeGreaterThan(90);
    expect(failures.every(({ code, accepted }) => code === 'dropped' && accepted)).toBe(true);
    status = 200;
    expect(await client.close()).toEqual({
      accepted: 200,
      delivered: 200 - dropped.length,
      failed: dropped.length,
      pending: 0,
    });
  });

  it('refuses calls instead when that is the policy', async () => {
    status = 503;
    const client = start(1024 * 1024, 'refuse');
    const properties = { pad: 'x'.repeat(30_000) };
    const codes = Array.from({ length: 40 }, (_, n) => track(client, `m${n}`, properties)?.code);
    expect(codes.filter((code) => code === 'full').length).toBeGreaterThan(3);
    status = 200;
    expect(await client.close()).toMatchObject({ failed: 0, pending: 0 });
  });

  it('leaves out a line that was cut short, and reports one that is damaged', async () => {
    status = 503;
    const client = start();
    for (const id of ['m1', 'm2', 'm3']) track(client, id);
    await client.close({ timeout: 20 });
    const path = join(dir, '0000000001.calls');
    const [first, second, third] = readFileSync(path, 'utf8').split('\n');
    writeFileSync(path, `${first}\n${second!.replace('{', '?')}\n${third}\n{"messageId":"m4","ty`);
    status = 200;
    const next = restart();
    expect(await next.close()).toEqual({ accepted: 3, delivered: 2, failed: 1, pending: 0 });
    expect(ids()).toEqual(['m1', 'm3']);
    expect(failures.map(({ code }) => code)).toEqual(['spool_damaged']);
  });

  it('reports calls whose file became shorter while it ran', async () => {
    status = 503;
    const client = start();
    for (let n = 0; n < 2_100; n++) track(client, `m${n}`);
    await collector.until(() => collector.requests.length > 0);
    truncateSync(join(dir, '0000000001.calls'), 1_000);
    status = 200;
    const { delivered, failed, pending } = await client.flush();
    expect({ sum: delivered + failed, pending }).toEqual({ sum: 2_100, pending: 0 });
    expect(new Set(failures.map(({ code }) => code))).toEqual(new Set(['spool_damaged']));
    await client.close();
  });

  it('reads marks that were cut short as far as they go', async () => {
    status = 503;
    const client = start();
    for (let n = 0; n < 5; n++) track(client, `m${n}`);
    await client.close({ timeout: 20 });
    appendFileSync(join(dir, '0000000001.answered'), '0-1\n3-');
    status = 200;
    await restart().close();
    expect(ids()).toEqual(['m2', 'm3', 'm4']);
  });

  it('refuses a call it cannot write, and takes calls again when it can', async () => {
    const spool = diskSpool({ dir });
    spool.start({ found: () => {}, lost: () => {} });
    const entry: Entry = { json: '{"messageId":"m1"}', bytes: 18 };
    rmSync(dir, { recursive: true });
    expect(spool.add(entry)).toBe('spool_failed');
  });

  it('belongs to one process at a time, and to the next when that one has died', async () => {
    const client = start();
    expect(() => diskSpool({ dir })).toThrow(`used by process ${process.pid}`);
    await client.close();
    const module = new URL('disk-spool.ts', import.meta.url).href;
    const script = `import { diskSpool } from '${module}'; diskSpool({ dir: ${JSON.stringify(dir)} });
      console.log('open'); setInterval(() => {}, 1000);`;
    const other = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await once(other.stdout, 'data');
    expect(() => diskSpool({ dir })).toThrow(`used by process ${other.pid}`);
    other.kill('SIGKILL');
    await once(other, 'exit');
    await start().close();
  });

  it('is not locked by an earlier process that had the same number', async () => {
    writeFileSync(join(dir, 'lock'), `${process.pid} 1`);
    await start().close();
    expect(files()).toEqual([]);
  });
});
