import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { startCollector } from './collector.ts';

const SOURCE = new URL('../src/', import.meta.url).href;

/** A program that makes one call and does nothing else; resolves to its exit code. */
async function program(options: string): Promise<number | null> {
  const code = `
    import { Client } from '${SOURCE}index.ts';
    import { diskSpool } from '${SOURCE}spool.ts';
    const client = new Client('wk', { flushAfter: 50, logger: () => {}, ...${options} });
    client.track({ userId: 'u1', event: 'E' });`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', code], { stdio: 'inherit' });
  const [exit] = (await once(child, 'exit')) as [number | null];
  return exit;
}

it('a program that ends without closing its client ends when its calls have been answered for', async () => {
  const collector = await startCollector((response, _, nth) => {
    response.statusCode = nth === 0 ? 503 : 200;
    response.end('{}');
  });
  expect(await program(`{ endpoint: '${collector.url}' }`)).toBe(0);
  expect(collector.requests).toHaveLength(2);
  await collector.stop();
});

it('a program whose calls are safe in a spool does not wait for a server that is down', async () => {
  const collector = await startCollector((response) => {
    response.writeHead(503, { 'retry-after': '300' });
    response.end('{}');
  });
  const dir = mkdtempSync(join(tmpdir(), 'millrace-process-'));
  const spool = `spool: diskSpool({ dir: ${JSON.stringify(dir)} })`;
  expect(await program(`{ endpoint: '${collector.url}', ${spool} }`)).toBe(0);
  expect(readdirSync(dir)).toContain('0000000001.calls');
  expect(collector.requests).toHaveLength(1);
  await collector.stop();
  const next = await startCollector();
  expect(await program(`{ endpoint: '${next.url}', ${spool} }`)).toBe(0);
  expect(next.items).toHaveLength(2);
  await next.stop();
  rmSync(dir, { recursive: true, force: true });
});
