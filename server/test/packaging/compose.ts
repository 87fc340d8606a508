import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import { ROOT } from '../support/program.ts';
import { freePort } from '../support/receiver.ts';

export interface ComposeService {
  readonly image?: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly volumes?: readonly string[];
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly healthcheck?: { readonly test: readonly string[] };
  readonly ports?: readonly string[];
  readonly read_only?: boolean;
  readonly tmpfs?: readonly string[];
  readonly cap_drop?: readonly string[];
  readonly security_opt?: readonly string[];
  readonly networks: { readonly default: { readonly ipv4_address: string } };
}

export interface ComposeFile {
  readonly services: Readonly<Record<string, ComposeService>>;
  readonly configs: { readonly proxy: { readonly content: string } };
  readonly volumes: Readonly<Record<string, unknown>>;
}

export function readCompose(file: string = join(ROOT, 'compose.yaml')): ComposeFile {
  return parse(readFileSync(file, 'utf8'), { merge: true }) as ComposeFile;
}

/** Whether nginx is installed: `.ci/run` installs it. */
export const hasNginx = () => spawnSync('nginx', ['-v']).status === 0;

export interface TestNginx {
  /** For calls. */
  readonly url: string;
  /** For operators. */
  readonly adminUrl: string;
  stop(): Promise<void>;
}

/**
 * Starts nginx with the configuration of compose.yaml; `ports` are those of the nodes, by their names there,
 * for calls and operators. With `goesOnAsking` a node that has failed is asked again at once. `compose`:
 * another file than compose.yaml.
 */
export async function startNginx(
  ports: Readonly<Record<string, number>>,
  { goesOnAsking = false, compose = readCompose() } = {},
): Promise<TestNginx> {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-nginx-'));
  const [port, adminPort] = [await freePort(), await freePort()];
  let server = compose.configs.proxy.content.replaceAll('$$', '$');
  server = server.replace('listen 8080;', `listen 127.0.0.1:${port};`);
  server = server.replace('listen 8081;', `listen 127.0.0.1:${adminPort};`);
  for (const [node, at] of Object.entries(ports))
    server = server.replaceAll(
      new RegExp(`server ${node}:808[01]`, 'g'),
      `server 127.0.0.1:${at}${goesOnAsking ? ' max_fails=0' : ''}`,
    );
  const kinds = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  const places = kinds.map((kind) => `${kind}_temp_path ${folder}/${kind};`).join('\n');
  const file = join(folder, 'nginx.conf');
  // Workers of a user other than root could not read a folder that root has made for itself.
  const user = process.getuid?.() === 0 ? 'user root;' : '';
  writeFileSync(
    file,
    `${user} daemon off; worker_processes 1; pid ${folder}/pid; error_log stderr notice; events {}
http { access_log off; ${places}\n${server} }`,
  );
  const nginx = spawn('nginx', ['-p', folder, '-c', file], { stdio: ['ignore', 'ignore', 'pipe'] });
  await isReady(nginx);
  return {
    url: `http://127.0.0.1:${port}`,
    adminUrl: `http://127.0.0.1:${adminPort}`,
    stop: async () => {
      const ended = once(nginx, 'exit');
      nginx.kill('SIGTERM');
      await ended;
      rmSync(folder, { recursive: true });
    },
  };
}

/** Its workers are started when it listens. */
async function isReady(nginx: ChildProcess): Promise<void> {
  await new Promise<void>((ready, fail) => {
    let said = '';
    nginx.stderr!.setEncoding('utf8').on('data', (text: string) => {
      said += text;
      if (said.includes('start worker process ')) ready();
    });
    nginx.once('exit', () => fail(new Error(`nginx did not start: ${said}`)));
  });
}
