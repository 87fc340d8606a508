import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { send, track } from '../support/calls.ts';
import { makePlace, startServer } from '../support/program.ts';
import { until } from '../support/until.ts';

/** No destination, so that the only commits are those of the calls. */
const CONFIGURATION = 'sources: [{ name: website, writeKeys: [wk] }]';

const WRITTEN = /pwrite64\(\d+<[^>]*millrace\.db-wal>/;
const SYNCED = /(f(data)?sync\(\d+<[^>]*millrace\.db-wal>\)|<\.\.\. f(data)?sync resumed>\)) += 0/;
const ANSWERED = /HTTP\/1\.1 200 OK.*\{\\"success\\":true\}/;

const hasStrace = spawnSync('strace', ['-V']).status === 0;
if (!hasStrace) console.log('left out: "a 200 follows a sync" needs strace, which is not installed');

describe.runIf(hasStrace)('the answer', () => {
  it('200 is written to the socket only after the write-ahead log was synced', async () => {
    const place = makePlace(CONFIGURATION);
    const trace = join(place.folder, 'trace');
    const under = [
      'strace',
      // With -D the tracer is the child: ending the program ends both.
      '-D',
      '-f',
      '-tt',
      '-y',
      '-s',
      '200',
      '-e',
      'trace=fdatasync,fsync,write,writev,pwrite64',
      '-o',
      trace,
    ];
    const program = await startServer(place, { under });
    const calls = 5;
    for (let n = 0; n < calls; n++) {
      const { status } = await send(program.url, '/v1/track', track(`sync-${n}`));
      expect(status).toBe(200);
    }
    await program.kill();
    const ended = new RegExp(`^${program.pid} .*\\+\\+\\+ killed`, 'm');
    await until('the trace has the end of the program', () => ended.test(readFileSync(trace, 'utf8')));

    const lines = readFileSync(trace, 'utf8').split('\n');
    const answers = lines.flatMap((line, at) => (ANSWERED.test(line) ? [at] : []));
    expect(answers).toHaveLength(calls);
    let from = lines.findIndex((line) => line.includes('server.started'));
    for (const answer of answers) {
      const between = lines.slice(from, answer);
      // Another commit, such as that of the ledger's counts, may be written before a busy main thread
      // answers.
      const written = between.findIndex((line) => WRITTEN.test(line));
      const synced = between.findLastIndex((line) => SYNCED.test(line));
      expect(written, 'the write-ahead log was written').toBeGreaterThanOrEqual(0);
      expect(synced, 'and synced after that').toBeGreaterThan(written);
      from = answer + 1;
    }
    place.remove();
  });
});
