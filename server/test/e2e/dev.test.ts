import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makePlace, type Place, type Program, startProgram } from '../support/program.ts';

const hasCurl = (() => {
  try {
    execFileSync('curl', ['--version']);
    return true;
  } catch {
    console.log('left out: "millrace dev" needs curl, which is not installed');
    return false;
  }
})();

describe.runIf(hasCurl)('millrace dev', () => {
  let place: Place;
  let program: Program;

  beforeAll(async () => {
    place = makePlace('');
    program = await startProgram({ args: ['dev', '--port', '0', '--data', place.data] });
  });

  afterAll(async () => {
    expect(await program.stop()).toBe(0);
    place.remove();
  });

  it('prints a curl line that delivers, verified, when it is pasted into a shell', async () => {
    const line = program.out.stdout.split('\n').find((text) => text.includes('curl -'))!;
    const started = performance.now();
    const curl = spawn('sh', ['-c', line.trim().replace(/^\$ /, '')], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    curl.stdout.setEncoding('utf8');
    const answer = once(curl.stdout, 'data') as Promise<[string]>;
    await program.saw(/local-receiver.*200.*verified/);
    const elapsed = performance.now() - started;
    expect((await answer)[0]).toContain('{"success":true}');
    console.log(
      `from pasting the line to the verified delivery: ${elapsed.toFixed(0)} ms, curl's own start included`,
    );
    expect(program.out.stdout).toMatch(/track.*Order Placed/);
  });
});
