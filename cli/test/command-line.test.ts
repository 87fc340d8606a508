import { spawnSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, existsSync, openSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { MILLRACE } from '../../server/test/support/program.ts';
import { millrace as launch, type Program, runVerb, startVerb } from './program.ts';

const running: Program[] = [];
afterEach(() => {
  for (const { child } of running.splice(0)) child.kill('SIGKILL');
});

function millrace(args: readonly string[], env: NodeJS.ProcessEnv = {}): Program {
  const program = launch(args, env);
  running.push(program);
  return program;
}

const lines = (text: string) => text.trimEnd().split('\n');

describe('millrace', () => {
  it('prints help on stdout and ends with 0', async () => {
    const { code, out, err } = await runVerb(['--help']);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    for (const verb of ['dev', 'start', 'listen', 'status'])
      expect(out).toMatch(new RegExp(`^ {2}${verb} `, 'm'));
  });

  it('prints its version on stdout and ends with 0', async () => {
    const { code, out, err } = await millrace(['--version']).ended;
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(out).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  it.skipIf(!existsSync('/dev/full')).each([['completion', 'bash'], ['--help'], ['--version']])(
    'ends with 1 and says so where its output cannot be written: %s',
    async (...args) => {
      const full = openSync('/dev/full', 'w');
      try {
        const { status, stderr } = spawnSync(process.execPath, [MILLRACE, ...args], {
          stdio: ['ignore', full, 'pipe'],
          encoding: 'utf8',
        });
        expect([status, stderr]).toEqual([
          1,
          expect.stringMatching(/^millrace: the output could not be written.*ENOSPC/),
        ]);
      } finally {
        closeSync(full);
      }
    },
  );

  it('ends with 0 where nobody reads on', () => {
    const { status, stdout } = spawnSync(
      'bash',
      [
        '-c',
        'set -o pipefail; "$0" "$1" completion bash | head -1 >/dev/null; echo $?',
        process.execPath,
        MILLRACE,
      ],
      { encoding: 'utf8' },
    );
    expect([status, stdout]).toEqual([0, '0\n']);
  });

  it('takes a command line it does not understand for wrong usage, says so on stderr, and ends with 2', async () => {
    const wrong: [string[], string][] = [
      [[], 'Usage: millrace'],
      [['serve'], "unknown command 'serve'"],
      [['listen', '--secrets', 's'], "unknown option '--secrets'"],
      [['listen', 'extra'], 'too many arguments'],
      [['listen', '--port', '99999'], 'A port is a whole number from 0 to 65535.'],
      [['listen', '--port'], 'argument missing'],
      [['listen', '--status', '99'], 'A status is a whole number from 200 to 599.'],
      [['listen', '--delay', '6'], 'A duration is a number with its unit'],
      [['listen', '--fail-rate', '20%'], 'A share is a number from 0 (none) to 1 (all)'],
      [['status', 'crm'], 'too many arguments'],
      [['status', '--url', 'localhost:8080'], '--url is no URL of a server'],
    ];
    const results = await Promise.all(wrong.map(([args]) => runVerb(args)));
    // The process as well as the function in it.
    expect(await millrace(['serve']).ended).toEqual(results[1]);
    results.forEach(({ code, out, err }, place) => {
      const [args, message] = wrong[place]!;
      expect({ args, code, out }).toEqual({ args, code: 2, out: '' });
      expect(err).toContain(message);
    });
  });
});

describe('millrace listen', () => {
  async function listening(...args: string[]): Promise<{ program: Program; url: string }> {
    return started(millrace(['listen', '--port', '0', ...args]));
  }

  async function started(program: Program): Promise<{ program: Program; url: string }> {
    const [, url] = await program.says('err', /listens on (http:\S+?),/);
    return { program, url: url! };
  }

  /**
   * On a clock a thousand times as slow: all signals fall into one key press, and a later one would rightly
   * end the program at once.
   */
  async function listeningSlowly(): Promise<{ program: Program }> {
    const slow = 'const now = performance.now.bind(performance); performance.now = () => now() / 1000;';
    const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(slow)}`;
    return started(millrace(['listen', '--port', '0'], { NODE_OPTIONS }));
  }

  it('answers a request and prints it as one line with its signature verified', async () => {
    const { program, url } = await listening('--secret', 's3');
    const body = '{"type":"track","event":"Order Placed","userId":"u1"}';
    const signature = createHmac('sha1', 's3').update(body).digest('hex');
    const headers = { 'X-Signature': signature, 'Webhook-Id': 'm-1' };
    const answer = await fetch(`${url}/hook`, { method: 'POST', body, headers });
    expect(answer.status).toBe(200);
    await fetch(`${url}/hook`, { method: 'POST', body, headers: { 'X-Signature': 'ff' } });
    await program.says('out', /wrong signature/);
    program.child.kill('SIGTERM');
    const { code, out } = await program.ended;
    expect(code).toBe(0);
    expect(lines(out)).toEqual([
      expect.stringMatching(
        /^\d\d:\d\d:\d\d\.\d{3} {2}POST \/hook +track +Order Placed +u1 +m-1 +verified ✓$/,
      ),
      expect.stringMatching(/ – +wrong signature ✗$/),
    ]);
  });

  it('fails, waits and prints bodies as asked', async () => {
    const verb = startVerb(['listen', '--port', '0', '--fail-rate', '1', '--delay', '120ms', '--body']);
    const [, url = ''] = await verb.says('err', /listens on (http:\S+?),/);
    const before = performance.now();
    const answer = await fetch(url, { method: 'POST', body: '{"type":"page"}' });
    expect(answer.status).toBe(500);
    expect(performance.now() - before).toBeGreaterThanOrEqual(119);
    await verb.says('out', /not signed – {2}answered 500\n {4}\{\n {6}"type": "page"\n {4}\}\n/);
    expect((await verb.stop()).code).toBe(0);
  });

  it('ends with 1 and one line on stderr when its port is taken', async () => {
    const { port, close } = await answeringPort();
    const { code, out, err } = await millrace(['listen', '--port', String(port)]).ended;
    await close();
    expect({ code, out, lines: lines(err).length }).toEqual({ code: 1, out: '', lines: 1 });
    expect(err).toContain(`cannot listen on 127.0.0.1 port ${port}: another program has that port`);
  });

  it('stops in order at SIGINT too, although the signal comes twice as under npm', async () => {
    const { program } = await listeningSlowly();
    program.child.kill('SIGINT');
    program.child.kill('SIGINT');
    expect((await program.ended).code).toBe(0);
  });

  it('keeps its exit code when the second SIGINT arrives during the very end', async () => {
    const { program } = await listeningSlowly();
    const { child } = program;
    while (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGINT');
      await setTimeout(1);
    }
    expect((await program.ended).code).toBe(0);
  });

  it('ends when nobody reads its results any more', async () => {
    const { program, url } = await listening();
    program.child.stdout?.destroy();
    await fetch(url, { method: 'POST', body: '{}' });
    expect((await program.ended).code).toBe(0);
  });
});

describe('an older Node', () => {
  it.each(['20.20.2', '22.14.0', '24.14.9'])('%s is told what to do, and ends with 1', async (version) => {
    const older = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${version}' } });
      Object.defineProperty(process, 'version', { value: 'v${version}' })`;
    const { code, out, err } = await millrace(['status'], {
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(older)}`,
    }).ended;
    expect({ code, out, lines: lines(err) }).toEqual({
      ...{ code: 1, out: '' },
      lines: [
        expect.stringMatching(/^millrace needs Node 24\.15 or newer, and this is v[\d.]+ \(.*node.*\)\.$/),
        expect.stringContaining('run `npm start` or `npx millrace …` there'),
        expect.stringContaining('Elsewhere install Node 24'),
      ],
    });
    expect(err).toContain(`this is v${version} `);
  });
});

describe('a command line that is wrong', () => {
  it.each([
    [['help', 'nonsense'], "unknown command 'nonsense'"],
    [['help', 'stats'], 'Did you mean'],
    [['help', 'token', 'nonsense'], "unknown command 'nonsense'"],
    [['help', 'replay', 'nonsense'], "'replay' has no verb 'nonsense'"],
    [['statuss'], 'Did you mean status?'],
    [['send', 'track', '--write-key', 'k'], 'cannot be sent (no_user_anon_id)'],
    [
      ['send', 'track', '--write-key', 'k', '--user-id', 'u', '--event', 'e', '--timestamp', 'yesterday'],
      '(invalid_timestamp)',
    ],
  ])('ends with 2 and what is wrong: %j', async (args, message) => {
    const { port, close } = await answeringPort();
    const { code, out, err } = await runVerb(args, { MILLRACE_URL: `http://127.0.0.1:${port}` });
    await close();
    expect({ args, code, out, err }).toEqual({
      args,
      code: 2,
      out: '',
      err: expect.stringContaining(message),
    });
  });

  it.each([[['help', 'token', 'create']], [['help', 'replay', 'status']]])('is not %j', async (args) => {
    const [help, same] = await Promise.all(
      [args, [...args.slice(1), '--help']].map((typed) => runVerb(typed)),
    );
    expect(help).toEqual(same);
    expect(help).toMatchObject({
      code: 0,
      err: '',
      out: expect.stringContaining(`millrace ${args.slice(1).join(' ')}`),
    });
  });
});

describe('a server that cannot be reached', () => {
  it('is called that by every verb that asks one, at once', async () => {
    const { port, close } = await answeringPort();
    await close();
    const url = `http://127.0.0.1:${port}`;
    const file = fileURLToPath(import.meta.url);
    const call = ['send', 'track', '--write-key', 'k', '--user-id', 'u', '--event', 'e'];
    const verbs = [
      ['status'],
      ['trace', 'm'],
      ['events'],
      ['deliveries'],
      ['tail'],
      ['pause', 'crm'],
      ['export'],
    ];
    const sending = [call, ['send', '--write-key', 'k', '--file', file]];
    for (const args of [
      ...verbs,
      ['token', 'list'],
      ['redeliver', 'crm'],
      ['backup', '/tmp/b'],
      ...sending,
    ]) {
      const { code, out, err } = await runVerb(args, { MILLRACE_URL: url });
      expect({ args, code, out, err }).toEqual({
        ...{ args, code: 1, out: '' },
        err: expect.stringContaining(
          `millrace: server unreachable at ${url} (ECONNREFUSED): start it, or say where`,
        ),
      });
    }
  });
});

async function answeringPort(): Promise<{ port: number; close: () => Promise<void> }> {
  const server = createServer((_, response) => void response.writeHead(404).end());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

describe('a mistake in the program', () => {
  it('ends it with 1, and with what is needed to find the mistake on stderr', async () => {
    const mistake = encodeURIComponent("process.once('SIGUSR2', () => { throw new Error('a bug'); });");
    const program = millrace(['listen', '--port', '0'], {
      NODE_OPTIONS: `--import=data:text/javascript,${mistake}`,
    });
    await program.says('err', /listens on/);
    program.child.kill('SIGUSR2');
    const { code, out, err } = await program.ended;
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expect(err).toMatch(/^millrace: unexpected error, please report it: a bug\nError: a bug\n {4}at /m);
  });
});
