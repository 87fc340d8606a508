import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { IS_LONG } from '../support/runs.ts';
import type { Asked } from './control.ts';

/** The version that `.ci/run` installs. */
const VERSION = '4.32.5';

/** The phase of coverage alone takes minutes. */
const PHASES = IS_LONG ? 'coverage,fuzzing' : 'fuzzing';

/** The checks that find an answer outside the document. */
const CHECKS = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_headers_conformance',
  'response_schema_conformance',
];

/**
 * The control API under schemathesis, a program of others that knows the OpenAPI document alone.
 * MILLRACE_SCHEMATHESIS says where it is; else it is looked for on the path. Gives what it complains of, and
 * one line of what was done.
 */
export async function runSchemathesis(
  asked: Asked,
  seed: number,
  examples: number,
): Promise<{ readonly said: string; readonly complaints: readonly string[] }> {
  const { url, token } = asked;
  const program = process.env['MILLRACE_SCHEMATHESIS'] || 'schemathesis';
  const args = [
    ...['run', `${url}/api/openapi.json`, '--header', `Authorization: Bearer ${token}`],
    ...['--include-path-regex', '^/api/v1/', '--exclude-path-regex', '^/api/v1/(tail|backups)'],
    ...['--checks', CHECKS.join(','), '--phases', PHASES, '--mode', 'all', '--no-shrink'],
    ...['--max-examples', String(examples), '--seed', String(seed), '--warnings', 'off', '--no-color'],
  ];
  // It leaves a folder of its own where it runs.
  const cwd = mkdtempSync(join(tmpdir(), 'millrace-schemathesis-'));
  const running = spawn(program, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'] });
  const out: Buffer[] = [];
  running.stdout.on('data', (part: Buffer) => out.push(part));
  running.stderr.on('data', (part: Buffer) => out.push(part));
  try {
    await once(running, 'spawn');
  } catch {
    rmSync(cwd, { recursive: true });
    const said = `schemathesis is not installed, and was left out: pip install schemathesis==${VERSION}`;
    return { said, complaints: [] };
  }
  const [code] = (await once(running, 'close')) as [number | null];
  rmSync(cwd, { recursive: true });
  const text = Buffer.concat(out).toString();
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  const said = `schemathesis: ${lines
    .at(-1)
    ?.replace(/[= ]{2,}/g, ' ')
    .trim()}`;
  return { said, complaints: code === 0 ? [] : [`schemathesis ended with ${code}:\n${text.slice(-6000)}`] };
}
