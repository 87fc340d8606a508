import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { send, track } from '../support/calls.ts';
import { makePlace, oneDestination, ROOT, startServer } from '../support/program.ts';
import { startReceiver } from '../support/receiver.ts';

/**
 * The unit of docs/operations, as far as it can be judged without systemd as the first process of the
 * machine.
 */

const UNIT = readFileSync(join(ROOT, 'docs/operations/millrace.service'), 'utf8');

const has = (program: string) => spawnSync(program, ['--version']).status === 0;
const CAN_ANALYZE = has('systemd-analyze');
const CAN_TRACE = CAN_ANALYZE && has('strace');
if (!CAN_ANALYZE)
  console.log('left out: the systemd unit, because there is no systemd-analyze (package systemd)');
else if (!CAN_TRACE) console.log('left out: the system calls of the program, because there is no strace');

/** 10 is nothing, 0 is everything; below 2 it calls itself OK. */
const MOST_EXPOSED = 1.5;

let scratch: string;

beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), 'millrace-unit-'));
});

afterAll(() => rmSync(scratch, { recursive: true, force: true }));

describe.runIf(CAN_ANALYZE)('the systemd unit', () => {
  /** The program need not be installed on the machine of the test. */
  function unitFile(): string {
    const file = join(scratch, 'millrace.service');
    writeFileSync(file, UNIT.replace('ExecStart=/usr/local/bin/millrace', `ExecStart=${process.execPath}`));
    return file;
  }

  it('is understood by systemd to the last line', () => {
    const { status, stderr } = spawnSync('systemd-analyze', ['verify', unitFile()], { encoding: 'utf8' });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  });

  it('takes from the program what it does not need', () => {
    const args = ['security', '--offline=true', '--no-pager', unitFile()];
    const said = execFileSync('systemd-analyze', args, { encoding: 'utf8' });
    const [, exposure] = /Overall exposure level for \S+: ([\d.]+)/.exec(said) ?? [];
    expect(Number(exposure)).toBeLessThanOrEqual(MOST_EXPOSED);
  });

  it('starts the program with options that it has, and gives it a folder for data and one for backups', () => {
    const [, options = ''] = /^ExecStart=\S+ (.*)$/m.exec(UNIT) ?? [];
    expect(options).toBe('start --config /etc/millrace/millrace.yaml');
    expect(UNIT).toMatch(/^StateDirectory=.*\bmillrace\/data\b.*\bmillrace\/backups\b/m);
    expect(UNIT).toMatch(/^Environment=.*\bMILLRACE_DATA=\/var\/lib\/millrace\/data\b/m);
  });
});

describe.runIf(CAN_TRACE)('the program under the unit', () => {
  it('makes no system call that the unit forbids: starting, taking a call, delivering, a backup, stopping', async () => {
    const receiver = await startReceiver();
    const place = makePlace(oneDestination([`${receiver.url}/in`]));
    const calls = join(scratch, 'calls');
    const program = await startServer(place, {
      env: { MILLRACE_ADMIN_TOKEN: 'secret' },
      under: ['strace', '-f', '--summary-only', '--output', calls],
    });
    try {
      await send(program.url, '/v1/track', track('one'));
      await receiver.count(1);
      await fetch(`${program.url}/api/v1/backups`, {
        ...{ method: 'POST', headers: { authorization: 'Bearer secret' } },
        body: JSON.stringify({ folder: join(place.folder, 'backup') }),
      });
      await program.saw(/backup\.done/);
    } finally {
      // The tracer keeps the signal to itself; the program's own process is in its folder.
      process.kill(Number(readFileSync(join(place.data, 'owner'), 'utf8')), 'SIGTERM');
      await program.stop();
      await receiver.stop();
      place.remove();
    }
    const made = namesIn(readFileSync(calls, 'utf8'));
    expect(made).toEqual(expect.arrayContaining(['accept4', 'connect', 'pwrite64']));
    const allowed = callsOf('@system-service');
    const forbidden = callsOf('@privileged');
    // SQLite gives its files away when it runs as root, as a test may and the unit does not.
    if (process.getuid?.() === 0) forbidden.delete('fchown');
    expect(made.filter((name) => !allowed.has(name) || forbidden.has(name))).toEqual([]);
  });
});

/** The last column of the summary of strace. */
function namesIn(summary: string): string[] {
  return [...summary.matchAll(/^\s*[\d.]+\s.*?(\w+)$/gm)]
    .map(([, name]) => name!)
    .filter((name) => name !== 'total');
}

/** Every system call of a group, groups inside it included. */
function callsOf(group: string): Set<string> {
  const said = execFileSync('systemd-analyze', ['syscall-filter', '--no-pager', group], { encoding: 'utf8' });
  const names = new Set<string>();
  for (const [, name] of said.matchAll(/^ {4}(@?[\w-]+)$/gm)) {
    if (name!.startsWith('@')) for (const one of callsOf(name!)) names.add(one);
    else names.add(name!);
  }
  return names;
}
