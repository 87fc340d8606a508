import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ROOT } from '../support/program.ts';

let scratch: string;

beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), 'millrace-package-'));
});

afterAll(() => rmSync(scratch, { recursive: true, force: true }));

/** The Node of this repository before whatever the machine has. */
const env = {
  ...process.env,
  PATH: `${dirname(process.execPath)}${delimiter}${process.env['PATH']}`,
  NO_COLOR: '1',
};

it('is packed, installed in an empty folder, and takes and delivers an event there', async () => {
  const npm = (folder: string, ...args: string[]) =>
    execFileSync('npm', [...args, '--no-audit', '--no-fund'], {
      cwd: folder,
      env,
      encoding: 'utf8',
      stdio: 'pipe',
    });
  const built = join(scratch, 'built');
  execFileSync(process.execPath, [join(ROOT, 'tools/build.ts'), built]);
  // Files that the documentation sends its readers to.
  for (const path of [
    'docs/guide/production.md',
    'docs/operations/millrace.service',
    'millrace.example.yaml',
  ])
    expect([path, existsSync(join(built, path))]).toEqual([path, true]);
  // What is installed with it, and what was built into it.
  const { dependencies } = JSON.parse(readFileSync(join(built, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>;
  };
  const notices = readFileSync(join(built, 'THIRD-PARTY-NOTICES'), 'utf8');
  for (const name of [
    ...Object.keys(dependencies),
    'react',
    'uplot',
    '@fontsource-variable/inter',
    'assemblyscript',
  ])
    expect(notices).toContain(`\n${name} `);
  expect(notices).toContain('SIL OPEN FONT LICENSE');
  const packed = npm(scratch, 'pack', built, '--silent').trim();
  const empty = join(scratch, 'empty');
  mkdirSync(empty);
  npm(empty, 'init', '--yes');
  npm(empty, 'install', '--prefer-offline', join(scratch, packed));

  const program = spawn('npx', ['millrace', 'dev', '--port', '0'], { cwd: empty, env, detached: true });
  let said = '';
  const until = async (pattern: RegExp) => {
    for (;;) {
      const match = pattern.exec(said);
      if (match !== null) return match;
      if (program.exitCode !== null) throw new Error(`it ended:\n${said}`);
      const [text] = (await once(program.stdout, 'data')) as [Buffer];
      said += text.toString();
    }
  };
  try {
    const [, url] = await until(/ready on (http:\S+)/);
    const response = await fetch(`${url}/v1/track`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa('dev:')}` },
      body: JSON.stringify({ event: 'Installed', userId: 'u1' }),
    });
    expect(response.status).toBe(200);
    await until(/→ track .*Installed.* 200 verified/);
  } finally {
    // npx is a process of its own in front of the program.
    process.kill(-program.pid!, 'SIGTERM');
  }
  await once(program, 'close');
});
