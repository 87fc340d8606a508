import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import ts from 'typescript';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Program, ROOT, startProgram } from '../../../server/test/support/program.ts';

const run = promisify(execFile);
const README = readFileSync(new URL('../README.md', import.meta.url), 'utf8');

/** The examples of a language, in order. */
function examples(language: string): string[] {
  const blocks = README.matchAll(new RegExp(`^ *\`\`\`${language}\\n([\\s\\S]*?)^ *\`\`\``, 'gm'));
  return [...blocks].map(([, code]) => code!);
}

/** Every example is run against `millrace dev`, as a reader would. */
describe('the examples of the README', () => {
  let server: Program;
  let folder: string;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-readme-'));
    server = await startProgram({ args: ['dev', '--port', '0', '--data', join(folder, 'data')] });
  });
  afterAll(async () => {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const play = async (code: string) => {
    const pointed = code
      .replaceAll('http://localhost:8080', server.url)
      .replaceAll('./spool', join(folder, 'spool'));
    const options = { cwd: ROOT, env: { ...process.env, DEBUG: '' } };
    return run(process.execPath, ['--input-type=module', '--eval', pointed], options);
  };

  it('has a quick start that delivers', async () => {
    expect((await play(examples('js')[0]!)).stdout).toBe('2 delivered, 0 failed\n');
  });

  it('has an example of failures that prints what it says', async () => {
    const { stdout, stderr } = await play(examples('js')[1]!);
    expect(stdout).toBe('event_not_defined\nstored\n{ accepted: 1, delivered: 1, failed: 0, pending: 0 }\n');
    expect(stderr).toMatch(/^refused event_not_defined event is required/);
  });

  it('has an example of a spool that ends with an empty one', async () => {
    expect(await play(examples('js')[2]!)).toMatchObject({ stderr: '' });
  });

  it('has an example of a signal that ends the program after its calls', async () => {
    expect(await play(examples('js')[3]!)).toMatchObject({ stderr: '' });
    expect(examples('js')).toHaveLength(4);
  });

  it('has an example of types that compiles, and does not when it is wrong', () => {
    const [code = ''] = examples('ts');
    const wrong = [
      code.replace('{ total: 9 }', `{ total: '9' }`),
      code.replace(`, properties: { total: 9 }`, ''),
      code.replace("Order Placed',", "Order Plcaed',"),
      code.replace(`userId: 'u1', event: 'Signed Out'`, `event: 'Signed Out'`),
    ];
    const files = [code, ...wrong].map((text, n) => {
      const file = join(folder, `example-${n}.ts`);
      const entry = fileURLToPath(new URL('../src/index.ts', import.meta.url));
      writeFileSync(file, text.replace('@millrace/client', entry));
      return file;
    });
    const program = ts.createProgram(files, {
      strict: true,
      noEmit: true,
      skipLibCheck: true,
      types: ['node'],
      typeRoots: [join(ROOT, 'node_modules/@types')],
      target: ts.ScriptTarget.ES2022,
      module: ts.ModuleKind.NodeNext,
      allowImportingTsExtensions: true,
    });
    const problems = files.map((file) => program.getSemanticDiagnostics(program.getSourceFile(file)).length);
    expect(problems).toEqual([0, 1, 1, 1, 1]);
  });
});
