/**
 * A trial of the files of a release: all are installed in empty folders, where nothing of this repository
 * is found. Packages of others come from where npm is set to get them.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const GO_FOLDER = resolve(import.meta.dirname, '../clients/go');

/** The path by which programs import the Go module. */
export const GO_MODULE = /^module (\S+)$/m.exec(readFileSync(join(GO_FOLDER, 'go.mod'), 'utf8'))![1]!;
export const GO_VERSION = /Version = "(.+)"/.exec(readFileSync(join(GO_FOLDER, 'version.go'), 'utf8'))![1]!;

/** Paths of what is installed. */
export interface ReleaseFiles {
  readonly program: string;
  readonly client: string;
  readonly goModule: string;
}

/** Milliseconds after which a trial gives up: no file of a release may hang whoever tries it. */
const GIVE_UP_AFTER = 240_000;

/** The Node that runs this, before those that the machine has. */
const env: NodeJS.ProcessEnv = {
  ...process.env,
  PATH: `${dirname(process.execPath)}${delimiter}${process.env['PATH']}`,
  NO_COLOR: '1',
};

/**
 * Installs the program and the clients, starts `millrace dev`, and sends an event with each client until it
 * has come as a webhook whose signature is right. Yields a sentence for each. Leaves nothing running.
 */
export async function* tryRelease(
  files: ReleaseFiles,
  scratch: string,
  hasGo: boolean,
): AsyncGenerator<string, void, void> {
  const empty = join(scratch, 'programs');
  mkdirSync(empty, { recursive: true });
  writeFileSync(join(empty, 'package.json'), '{ "private": true }\n');
  run(empty, 'npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', files.program, files.client]);
  const go = hasGo ? buildGoProgram(files.goModule, join(scratch, 'go')) : undefined;
  const dev = new Dev(empty);
  try {
    const [, url] = await dev.until(/ready on (http:\S+)/);
    writeFileSync(join(empty, 'send.mjs'), TYPESCRIPT_PROGRAM);
    run(empty, process.execPath, ['send.mjs', url!]);
    await dev.until(/→ track .*Installed from npm.* 200 verified/);
    yield 'tried: the program and the TypeScript client, installed from their files; the webhook was verified';
    if (go !== undefined) {
      run(scratch, go, [url!]);
      await dev.until(/→ track .*Installed from Go.* 200 verified/);
    }
    yield go === undefined
      ? 'not tried: the Go module, as Go is not installed'
      : 'tried: the Go module, from its archive; the webhook was verified';
  } finally {
    await dev.stop();
  }
}

const TYPESCRIPT_PROGRAM = `import { Client } from '@millrace/client';
const client = new Client('dev', { endpoint: process.argv[2] });
client.track({ userId: 'u1', event: 'Installed from npm' });
const { failed } = await client.close();
process.exitCode = failed;
`;

const GO_PROGRAM = `package main

import (
	"log"
	"os"

	"${GO_MODULE}"
)

func main() {
	client := analytics.New("dev")
	client.Endpoint = os.Args[1]
	if err := client.Track(&analytics.Track{UserId: "u2", Event: "Installed from Go"}); err != nil {
		log.Fatal(err)
	}
	if err := client.Close(); err != nil {
		log.Fatal(err)
	}
}
`;

/**
 * Builds a program with the module as Go gets it from a proxy: a folder in the form of one has the archive
 * and nothing else, so that a build that needs more fails.
 */
function buildGoProgram(archive: string, folder: string): string {
  const proxy = join(folder, 'proxy', GO_MODULE, '@v');
  const program = join(folder, 'program');
  mkdirSync(proxy, { recursive: true });
  mkdirSync(program);
  writeFileSync(join(proxy, 'list'), `v${GO_VERSION}\n`);
  writeFileSync(join(proxy, `v${GO_VERSION}.info`), JSON.stringify({ Version: `v${GO_VERSION}` }));
  copyFileSync(join(GO_FOLDER, 'go.mod'), join(proxy, `v${GO_VERSION}.mod`));
  copyFileSync(archive, join(proxy, `v${GO_VERSION}.zip`));
  writeFileSync(
    join(program, 'go.mod'),
    `module program\n\ngo 1.19\n\nrequire ${GO_MODULE} v${GO_VERSION}\n`,
  );
  writeFileSync(join(program, 'main.go'), GO_PROGRAM);
  run(program, 'go', ['build', '-o', 'program', '.'], {
    // Downloads may be removed again.
    GOFLAGS: '-mod=mod -modcacherw',
    GOMODCACHE: join(folder, 'modules'),
    GOPROXY: pathToFileURL(join(folder, 'proxy')).href,
    // The sums of a version that is not published yet are known to nobody.
    GOSUMDB: 'off',
    GOTOOLCHAIN: 'local',
    GOWORK: 'off',
  });
  return join(program, 'program');
}

/** Runs a program to its end. Its output is part of the error when it fails. */
function run(cwd: string, command: string, args: readonly string[], more: NodeJS.ProcessEnv = {}): void {
  execFileSync(command, args, { cwd, env: { ...env, ...more }, stdio: 'pipe', timeout: GIVE_UP_AFTER });
}

/** `millrace dev` of the installed package, in the folder where that is installed. */
class Dev {
  readonly #process: ChildProcess;
  readonly #ended: Promise<unknown>;
  #said = '';
  #look: () => void = () => undefined;

  constructor(cwd: string) {
    const program = join(cwd, 'node_modules/.bin/millrace');
    this.#process = spawn(program, ['dev', '--port', '0'], { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    // A program that cannot be started is noticed by who waits for it.
    this.#ended = once(this.#process, 'close').catch((error: unknown) => {
      this.#said += String(error);
    });
    for (const stream of [this.#process.stdout!, this.#process.stderr!])
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.#said += text;
        this.#look();
      });
  }

  /** Resolves when it has said this. Rejects with all that it said when it ends before, or is silent. */
  async until(pattern: RegExp): Promise<RegExpExecArray> {
    const { promise, resolve: found, reject } = Promise.withResolvers<RegExpExecArray>();
    const giveUp = (why: string) =>
      reject(new Error(`millrace dev ${why} before ${pattern}:\n${this.#said}`));
    const timer = setTimeout(giveUp, GIVE_UP_AFTER, `took ${GIVE_UP_AFTER / 1000} s`);
    void this.#ended.then(() => giveUp('ended'));
    this.#look = () => {
      const match = pattern.exec(this.#said);
      if (match !== null) found(match);
    };
    this.#look();
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
    }
  }

  async stop(): Promise<void> {
    this.#process.kill('SIGTERM');
    const timer = setTimeout(() => this.#process.kill('SIGKILL'), GIVE_UP_AFTER);
    await this.#ended;
    clearTimeout(timer);
  }
}
