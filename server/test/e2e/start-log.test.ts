import { writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  failuresOf,
  logOf,
  makePlace,
  oneDestination,
  type Place,
  runProgram,
  startProgram,
} from '../support/program.ts';

const version = expect.stringMatching(/^\d+\.\d+\.\d+/);

describe('the log of millrace start, where nobody watches', () => {
  let place: Place;
  const args = (...more: string[]) => {
    const { config, data } = place;
    return ['start', '--config', config, '--data', data, '--host', '127.0.0.1', '--port', '0', ...more];
  };

  beforeEach(() => {
    place = makePlace('sources: [{ name: website, writeKeys: [wk] }]');
  });
  afterEach(() => place.remove());

  it('is JSON in every line, and says which version has started where, with which store', async () => {
    writeFileSync(place.config, 'admin: { port: 0 }\nsources: [{ name: website, writeKeys: [wk] }]');
    const program = await startProgram({ args: args('--no-delivery', '--log', 'error') });
    await program.stop();
    const lines = logOf(program.out.stderr);
    for (const line of lines) {
      expect(line).toMatchObject({
        level: expect.any(String),
        time: expect.any(String),
        msg: expect.any(String),
      });
    }
    expect(lines.map(({ event }) => event)).toEqual([
      ...['server.token_file', 'server.console', 'server.not_sending', 'server.started'],
    ]);
    const { adminUrl } = lines.at(-1)!;
    expect(lines.at(-1)).toMatchObject({
      ...{ level: 'info', version, node: hostname(), storeFormat: expect.any(Number) },
      ...{ url: program.url, port: Number(new URL(program.url).port) },
      ...{ adminUrl, adminPort: Number(new URL(String(adminUrl)).port) },
    });
    expect(lines.at(-1)!.msg).toContain(
      `ready on ${program.url} and its control API on ${adminUrl} (version `,
    );
  });

  it('warns once where control API, console and metrics are on a port that other machines reach', async () => {
    const all = await startProgram({ args: args('--host', '0.0.0.0') });
    await all.stop();
    const warnings = (text: string) => logOf(text).filter(({ event }) => event === 'server.admin_exposed');
    expect(warnings(all.out.stderr)).toEqual([
      expect.objectContaining({ level: 'warn', host: '0.0.0.0', msg: expect.stringContaining('admin.port') }),
    ]);
    const env = { MILLRACE_ADMIN_PORT: '0', MILLRACE_ADMIN_HOST: '127.0.0.1' };
    const parted = await startProgram({ args: args('--host', '0.0.0.0'), env });
    await parted.stop();
    expect(warnings(parted.out.stderr)).toEqual([]);
    const { url, adminUrl } = logOf(parted.out.stderr).at(-1)!;
    expect([url, adminUrl]).toEqual([
      expect.stringMatching(/^http:\/\/0\.0\.0\.0:/),
      expect.stringMatching(/^http:\/\/127\.0\.0\.1:/),
    ]);
  });

  it('is one line of JSON where the command line is not understood', async () => {
    const { code, stderr } = await runProgram({ args: args('--bogus') });
    expect(code).toBe(2);
    expect(logOf(stderr)).toEqual([
      expect.objectContaining({
        event: 'server.not_started',
        msg: expect.stringMatching(/^unknown option '--bogus'/),
      }),
    ]);
  });

  it('is JSON as well when settings are doubtful, and in what the server says of its work', async () => {
    writeFileSync(place.config, oneDestination(['http://127.0.0.1:9/in'], 'weak'));
    const program = await startProgram({ args: args('--log', 'debug') });
    await fetch(`${program.url}/v1/track`, { method: 'POST', body: '{' });
    await program.saw(/call\.refused/);
    await program.stop();
    const lines = logOf(program.out.stderr);
    expect(lines).toContainEqual(
      expect.objectContaining({
        level: 'warn',
        event: 'settings.doubtful',
        msg: expect.stringContaining('sharedSecret'),
      }),
    );
    expect(lines).toContainEqual(expect.objectContaining({ event: 'call.refused', msg: 'call refused' }));
  });

  it.each([
    ['settings that cannot be used', 'sources: [{ nam: website }]', [], 2],
    ['an option that there is none of', 'sources: []', ['--prot', '80'], 2],
    ['a data folder that cannot be used', 'sources: []', ['--data', '/dev/null/data'], 1],
  ])('is JSON, with what to do, when a start fails for %s', async (_, config, more, code) => {
    writeFileSync(place.config, config);
    const ended = await runProgram({ args: args(...more) });
    expect(ended).toMatchObject({ code, stdout: '' });
    expect(failuresOf(ended.stderr)).not.toEqual([]);
  });
});
