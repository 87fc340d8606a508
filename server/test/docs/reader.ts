import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { send, track } from '../support/calls.ts';
import { COMPILE_CACHE, MILLRACE, ROOT } from '../support/program.ts';
import { freePort, startReceiver, type TestReceiver } from '../support/receiver.ts';
import { GIVE_UP_AFTER } from '../support/until.ts';
import { type Block, blocksOf, fileNameOf } from './pages.ts';

/** Commands that go on until they are stopped, and what they say when they are ready. */
const SERVING = /^\s*(?:npx )?(?:millrace (start|dev|listen)|npm (start))\b/m;
const READY = /ready on http|listens on http/;
const WATCHING = /^\s*(?:npx )?millrace tail\b/m;

/** Configuration of the server for pages that start none themselves. */
const CONFIGURATION = (endpoint: string) => `
egress: { allow: [127.0.0.0/8] }
sources:
  - { name: website, writeKeys: [wk_web_1] }
  - { name: dev, writeKeys: [dev] }
destinations:
${['crm', 'warehouse']
  .map(
    (name) =>
      `  - { name: ${name}, type: webhooks, sources: [website], settings: { endpoints: [{ url: "${endpoint}/in" }], sharedSecret: s3cret } }`,
  )
  .join('\n')}
`;

interface Ended {
  readonly code: number | null;
  readonly said: string;
}

interface Started {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  said(): string;
}

/**
 * Somebody who reads one page and types what it says, in an empty folder, from the first block to the last.
 * What serves goes on beside what comes after it. Ports of the page are free ones of this machine instead.
 */
export class Reader {
  readonly #page: string;
  readonly #folder: string;
  readonly #ports = new Map<string, string>();
  #receiver: TestReceiver | undefined;
  readonly #running: Started[] = [];
  #server: Started | undefined;

  constructor(page: string) {
    this.#page = page;
    // Below the repository: examples find the packages that they import.
    const cache = join(ROOT, 'node_modules/.cache');
    mkdirSync(cache, { recursive: true });
    this.#folder = mkdtempSync(join(cache, 'reader-'));
  }

  async start(): Promise<void> {
    for (const port of ['8080', '8081', '4000']) this.#ports.set(port, String(await freePort()));
    writeShims(join(this.#folder, '.bin'));
    const blocks = blocksOf(this.#page);
    for (const block of blocks) {
      const name = fileNameOf(block);
      if (name !== undefined) writeFileSync(join(this.#folder, name), this.#here(block.text));
    }
    const first = blocks.find(
      ({ language, notRun, runBy, text }) =>
        language === 'sh' && !notRun && !runBy && !/millrace listen/.test(text),
    );
    const serves = first !== undefined && SERVING.test(first.text);
    if (!serves) await this.#serveForPage();
  }

  /** Makes the events that the commands look at: one delivered, one given up. */
  async #serveForPage(): Promise<void> {
    this.#receiver = await startReceiver({
      answer: (response, { headers }) =>
        void response.writeHead(headers['webhook-id'] === 'order-2' ? 410 : 200).end(),
    });
    writeFileSync(join(this.#folder, '.served.yaml'), CONFIGURATION(this.#receiver.url));
    await this.#serve('millrace start --config .served.yaml');
    await this.#receiver.count(4);
  }

  /**
   * Events that pages speak of; where a page's own server has no such source they are refused, and nobody
   * asks for them.
   */
  async #sendOrders(text: string): Promise<void> {
    const writeKey = /millrace dev|npm start/.test(text) ? 'dev' : 'wk_web_1';
    for (const id of ['order-1', 'order-2']) await send(this.#url, '/v1/track', track(id), { writeKey });
  }

  get #url(): string {
    return `http://127.0.0.1:${this.#ports.get('8080')}`;
  }

  /** Resolves to what was wrong, or to nothing. */
  async run({ language, text }: Block): Promise<string | undefined> {
    const here = this.#here(text);
    if (language !== 'sh') return await this.#runProgram(language, here);
    if (SERVING.test(here)) return await this.#serve(here);
    if (WATCHING.test(here)) return await this.#watch(here);
    return failureOf(await this.#spawn('sh', ['-ec', here]).ended);
  }

  async #runProgram(language: string, text: string): Promise<string | undefined> {
    const [program, extension] = {
      js: ['node', 'mjs'],
      ts: ['node', 'ts'],
      py: ['python3', 'py'],
      go: ['go', 'go'],
    }[language] as [string, string];
    const file = join(this.#folder, `example.${extension}`);
    writeFileSync(file, text);
    return failureOf(await this.#spawn(program, program === 'go' ? ['run', file] : [file]).ended);
  }

  async #serve(text: string): Promise<string | undefined> {
    const isServer = !/millrace listen/.test(text);
    if (isServer && this.#server !== undefined) await stopped(this.#server);
    const started = this.#spawn('sh', ['-ec', text]);
    if (isServer) this.#server = started;
    for (;;) {
      if (READY.test(started.said())) {
        if (isServer) await this.#sendOrders(text);
        return undefined;
      }
      const ended = await Promise.race([heard(started.child), started.ended]);
      if (ended !== undefined) return `ended with ${ended.code} before it was ready:\n${ended.said}`;
    }
  }

  /** Runs a command that shows what happens, and sends calls until it has shown one. */
  async #watch(text: string): Promise<string | undefined> {
    const started = this.#spawn('sh', ['-ec', text]);
    for (let nth = 0; started.said() === ''; nth++) {
      await send(this.#url, '/v1/track', track(`watched-${nth}`), { writeKey: 'wk_web_1' });
      const ended = await Promise.race([heard(started.child), started.ended, lasting(200)]);
      if (ended !== undefined) return failureOf(ended);
    }
    await stopped(started);
    return undefined;
  }

  #spawn(command: string, args: readonly string[]): Started {
    const child = spawn(command, args, {
      ...{ cwd: this.#folder, detached: true, stdio: ['ignore', 'pipe', 'pipe'], timeout: GIVE_UP_AFTER },
      env: {
        ...{
          PATH: [join(this.#folder, '.bin'), dirname(process.execPath), process.env['PATH']].join(delimiter),
        },
        ...{ HOME: process.env['HOME'], NO_COLOR: '1', CRM_SECRET: 's3cret', GOFLAGS: '-mod=mod' },
        MILLRACE_PORT: this.#ports.get('8080'),
        MILLRACE_URL: this.#url,
      },
    });
    let said = '';
    for (const stream of [child.stdout!, child.stderr!]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        said += text;
      });
    }
    const ended = once(child, 'close').then(([code]) => ({ code: code as number | null, said }));
    const started = { child, ended, said: () => said };
    this.#running.push(started);
    return started;
  }

  /** The text with the ports of this machine. */
  #here(text: string): string {
    let here = text;
    for (const [port, free] of this.#ports) {
      for (const before of ['127.0.0.1:', '--port ', 'port: '])
        here = here.replaceAll(before + port, before + free);
    }
    return here;
  }

  async stop(): Promise<void> {
    for (const one of this.#running) await stopped(one);
    await this.#receiver?.stop();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** The whole group: what a shell has started is not always ended with it. */
async function stopped({ child, ended }: Started): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    try {
      process.kill(-child.pid!, 'SIGTERM');
    } catch {
      // It has ended in this very moment.
    }
  }
  await ended;
}

function heard(child: ChildProcess): Promise<undefined> {
  return Promise.race([once(child.stdout!, 'data'), once(child.stderr!, 'data')]).then(() => undefined);
}

function lasting(ms: number): Promise<undefined> {
  return new Promise((resolve) => setTimeout(() => resolve(undefined), ms));
}

function failureOf({ code, said }: Ended): string | undefined {
  return code === 0 ? undefined : `ended with ${code}:\n${said}`;
}

/** `npx millrace` is the program of this repository. `npm ci` ran before any test, and is not repeated. */
function writeShims(folder: string): void {
  const cache = Object.entries(COMPILE_CACHE).map(([name, value]) => `${name}='${value}' `);
  const program = `${cache.join('')}exec node '${MILLRACE}'`;
  const shims = {
    millrace: `${program} "$@"`,
    npx: `[ "$1" = millrace ] || { echo "npx $1 is not run here" >&2; exit 1; }\nshift\n${program} "$@"`,
    npm: `case "$1" in ci) exit 0 ;; start) shift; ${program} dev "$@" ;; esac\necho "npm $1 is not run here" >&2; exit 1`,
  };
  mkdirSync(folder);
  for (const [name, text] of Object.entries(shims)) {
    writeFileSync(join(folder, name), `#!/bin/sh\n${text}\n`);
    chmodSync(join(folder, name), 0o755);
  }
}
