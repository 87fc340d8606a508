import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { killServer, releaseMemory, unprivileged } from './postgres.ts';
import { freePort } from './receiver.ts';
import { until } from './until.ts';

/** Seconds until Patroni takes a primary for dead: the shortest time that it allows. */
const TTL = 20;

/** Whether its programs are installed: `.ci/run` installs them. */
export const hasPatroni = () =>
  ['patroni', 'etcd'].every((name) => spawnSync(name, ['--version']).status === 0);

/** A server that Patroni watches over. */
export interface PatroniMember {
  /** Of the server. */
  readonly port: number;
  /** Resolves when Patroni says that this is the primary. */
  isPrimary(): Promise<void>;
  /** Resolves when Patroni says that this is the standby without which the primary confirms nothing. */
  isSynchronous(): Promise<void>;
  /** Kills server and Patroni, as the death of their machine does. */
  kill(): void;
}

/**
 * Servers with a Patroni each, and the etcd by which they agree who is the primary. The first one is, and the
 * second confirms its commits.
 */
export class PatroniCluster {
  readonly members: PatroniMember[] = [];
  readonly #bin: string;
  readonly #home = mkdtempSync(join(tmpdir(), 'millrace-patroni-'));
  readonly #user = unprivileged(this.#home);
  readonly #started: ChildProcess[] = [];
  #etcd = 0;

  private constructor(bin: string) {
    this.#bin = bin;
  }

  /** `bin`: the folder of PostgreSQL's programs. */
  static async start(bin: string): Promise<PatroniCluster> {
    const cluster = new PatroniCluster(bin);
    try {
      await cluster.#startEtcd();
      const first = await cluster.#startMember('one');
      await first.isPrimary();
      const second = await cluster.#startMember('two');
      await second.isSynchronous();
      return cluster;
    } catch (error) {
      await cluster.stop();
      throw error;
    }
  }

  /**
   * Ends the lease of the primary at once, as etcd does by itself when a dead primary has not renewed it for
   * the time that Patroni allows.
   */
  async endLease(): Promise<void> {
    const answer = await fetch(`http://127.0.0.1:${this.#etcd}/v3/kv/deleterange`, {
      method: 'POST',
      body: JSON.stringify({ key: btoa('/service/millrace/leader') }),
    });
    const { deleted } = (await answer.json()) as { deleted?: string };
    if (deleted !== '1') throw new Error('etcd knows no primary');
  }

  async stop(): Promise<void> {
    // Patroni stops its server first.
    for (const child of this.#started.toReversed()) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await ended;
    }
    rmSync(this.#home, { recursive: true, force: true });
  }

  #start(name: string, args: readonly string[]): ChildProcess {
    const [command, ...rest] = [...this.#user, name, ...args];
    const child = spawn(command!, rest, { cwd: this.#home, stdio: ['ignore', 'ignore', 'pipe'] });
    // Nobody else reads it, and a full pipe would stop the program.
    child.stderr!.resume();
    this.#started.push(child);
    return child;
  }

  async #startEtcd(): Promise<void> {
    this.#etcd = await freePort();
    const own = `http://127.0.0.1:${this.#etcd}`;
    const peer = `http://127.0.0.1:${await freePort()}`;
    this.#start('etcd', [
      ...[
        '--data-dir',
        join(this.#home, 'etcd'),
        '--listen-client-urls',
        own,
        '--advertise-client-urls',
        own,
      ],
      ...['--listen-peer-urls', peer, '--initial-advertise-peer-urls', peer],
      ...['--initial-cluster', `default=${peer}`, '--unsafe-no-fsync'],
    ]);
    await until('etcd answers', () => answers(`${own}/health`), { pause: 50 });
  }

  async #startMember(name: string): Promise<PatroniMember> {
    const [port, api] = [await freePort(), await freePort()];
    const data = join(this.#home, name);
    const file = join(this.#home, `${name}.yml`);
    writeFileSync(file, JSON.stringify(this.#settingsOf(name, { port, api, data })));
    const patroni = this.#start('patroni', [file]);
    let log = '';
    patroni.stderr!.setEncoding('utf8').on('data', (text: string) => {
      log = (log + text).slice(-4000);
    });
    const ended = once(patroni, 'exit').then(() => {
      if (!isKilled) throw new Error(`patroni of ${name} ended: ${log}`);
    });
    ended.catch(() => undefined);
    let isKilled = false;
    const isSaid = async (role: string) => {
      const said = until(`Patroni says that ${name} is the ${role}`, () =>
        answers(`http://127.0.0.1:${api}/${role}`),
      );
      await Promise.race([said, ended]);
    };
    const member: PatroniMember = {
      port,
      isPrimary: () => isSaid('primary'),
      isSynchronous: () => isSaid('synchronous'),
      kill: () => {
        const server = Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0]);
        isKilled = true;
        process.kill(patroni.pid!, 'SIGKILL');
        killServer(server);
        releaseMemory(data);
      },
    };
    this.members.push(member);
    return member;
  }

  /** As a file of Patroni, which is YAML: JSON is YAML too. */
  #settingsOf(
    name: string,
    { port, api, data }: { readonly port: number; readonly api: number; readonly data: string },
  ): object {
    const at = (one: number) => ({ listen: `127.0.0.1:${one}`, connect_address: `127.0.0.1:${one}` });
    return {
      scope: 'millrace',
      name,
      restapi: at(api),
      etcd3: { host: `127.0.0.1:${this.#etcd}` },
      bootstrap: {
        dcs: { ttl: TTL, loop_wait: 2, retry_timeout: 3, synchronous_mode: true },
        initdb: [{ encoding: 'UTF8' }, { locale: 'C' }, 'no-sync'],
        pg_hba: ['host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust'],
      },
      postgresql: {
        ...at(port),
        bin_dir: this.#bin,
        data_dir: data,
        pgpass: join(this.#home, `${name}.pgpass`),
        authentication: {
          superuser: { username: 'millrace', password: 'secret' },
          replication: { username: 'replicator', password: 'secret' },
        },
        // What a kill leaves is in the memory of the system, whether it was synced or not.
        parameters: {
          unix_socket_directories: this.#home,
          fsync: 'off',
          dynamic_shared_memory_type: 'mmap',
        },
      },
    };
  }
}

/** Whether an address answers 200. */
async function answers(url: string): Promise<boolean> {
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(2000) });
    await answer.text();
    return answer.status === 200;
  } catch {
    return false;
  }
}
