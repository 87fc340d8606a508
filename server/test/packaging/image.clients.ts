import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, delimiter, dirname, join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ROOT } from '../support/program.ts';
import { freePort } from '../support/receiver.ts';
import { contextFiles, execForm, readDockerfile, type Stage } from './dockerfile.ts';

/** Folders of the image before the first instruction; paths of an image begin with one of these. */
const TOP = ['build', 'app', 'data', 'usr/local/bin'];
const IS_ROOT = process.getuid?.() === 0;

let scratch: string;

beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), 'millrace-image-'));
  // The user of the image is to reach it.
  chmodSync(scratch, 0o755);
});

afterAll(() => rmSync(scratch, { recursive: true, force: true }));

/** A folder that stands for the file system of a stage. */
class Image {
  readonly root: string;
  readonly env: Record<string, string> = {};
  #folder = '/';

  constructor(root: string) {
    this.root = root;
    for (const folder of TOP)
      if (folder.startsWith('usr')) mkdirSync(join(root, folder), { recursive: true });
  }

  /** Paths of the image in a text, as paths of this machine. */
  outside(text: string): string {
    return text.replace(/(?<![\w./$}-])\/(build|app|data|usr\/local\/bin)\b/g, `${this.root}/$1`);
  }

  perform({ instructions }: Stage, stages: ReadonlyMap<string | undefined, Image>): void {
    for (const { name, flags, rest } of instructions) {
      if (name === 'WORKDIR') {
        this.#folder = resolve(this.#folder, rest);
        mkdirSync(join(this.root, this.#folder), { recursive: true });
      } else if (name === 'ENV') {
        for (const [, key, value] of rest.matchAll(/(\w+)=(\S+)/g)) this.env[key!] = this.outside(value!);
      } else if (name === 'RUN') this.#run(this.outside(rest));
      else if (name === 'COPY') this.#copy(rest.split(/\s+/), stages.get(flags['from']));
    }
  }

  #run(command: string): void {
    // Only root changes the owner of a file.
    const text = IS_ROOT ? command : command.replace(/chown \S+ \S+/, 'true');
    const env = {
      ...process.env,
      ...this.env,
      PATH: `${dirname(process.execPath)}${delimiter}/usr/bin:/bin`,
    };
    execFileSync('sh', ['-ec', text], { cwd: join(this.root, this.#folder), env, stdio: 'pipe' });
  }

  #copy(words: readonly string[], from: Image | undefined): void {
    const sources = words.slice(0, -1);
    const to = join(this.root, this.#folder, words.at(-1)!);
    for (const source of sources) {
      if (from !== undefined)
        cpSync(join(from.root, source), to, { recursive: true, verbatimSymlinks: true });
      else if (source === '.') {
        for (const file of contextFiles()) cpSync(join(ROOT, file), join(to, file));
      } else cpSync(join(ROOT, source), join(to, basename(source)));
    }
  }
}

it('builds an image by its commands whose program starts as its user, is healthy, and stops in order', async () => {
  const stages = readDockerfile();
  const images = new Map<string | undefined, Image>();
  for (const [nth, stage] of stages.entries()) {
    const image = new Image(join(scratch, String(nth)));
    image.perform(stage, images);
    images.set(stage.name, image);
  }
  const { instructions } = stages.at(-1)!;
  const image = images.get(undefined)!;
  const rest = (name: string) => instructions.findLast((one) => one.name === name)!.rest;
  const [uid = 0, gid = 0] = rest('USER').split(':').map(Number);
  // Other users cannot run a Node in somebody's home folder.
  const canBe = IS_ROOT && spawnSync(process.execPath, ['--version'], { uid, gid }).status === 0;
  if (!canBe) console.log('left out: the user of the image, because only this one can run Node here');
  const user = canBe ? { uid, gid } : {};
  const port = String(await freePort());
  const env = { PATH: dirname(process.execPath), ...image.env, MILLRACE_PORT: port };
  const started = (command: readonly string[]) => {
    const [, ...args] = command.map((word) => image.outside(word));
    const child = spawn(process.execPath, args, { ...user, cwd: join(image.root, 'app'), env });
    let said = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        said += text;
      });
    }
    const ended = once(child, 'close').then(([code]) => ({ code: code as number | null, said }));
    return { child, ended, said: () => said };
  };
  const isHealthy = async () =>
    (await started(execForm(rest('HEALTHCHECK').replace(/^CMD /, ''))).ended).code === 0;

  expect(await isHealthy()).toBe(false);
  const program = started([...execForm(rest('ENTRYPOINT')), ...execForm(rest('CMD'))]);
  try {
    while (!/ready on http/.test(program.said())) {
      await Promise.race([once(program.child.stderr, 'data'), program.ended]);
      if (program.child.exitCode !== null) throw new Error(`it ended:\n${program.said()}`);
    }
    expect(await isHealthy()).toBe(true);
    expect(existsSync(join(image.root, 'app/millrace/THIRD-PARTY-NOTICES'))).toBe(true);
    const data = join(image.root, 'data');
    expect(readdirSync(data)).toContain('millrace.db');
    if (canBe) expect(statSync(join(data, 'millrace.db')).uid).toBe(uid);
    program.child.kill(rest('STOPSIGNAL') as NodeJS.Signals);
    expect((await program.ended).code).toBe(0);
    const linked = join(image.root, 'usr/local/bin/millrace');
    expect(execFileSync(process.execPath, [linked, '--version'], { encoding: 'utf8' })).toMatch(/^\d+\./);
  } finally {
    program.child.kill('SIGKILL');
  }
});
