/**
 * A real server with the console, and a receiver whose answers a test chooses. Everything is on loopback and
 * in a folder of its own.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Bodies of a receiver's answers, by status. */
const BODIES: Readonly<Record<number, string>> = {
  200: 'ok',
  401: 'Signature does not match',
  410: 'This endpoint was removed',
  500: 'Internal error',
};

const MILLRACE = fileURLToPath(new URL('../../../cli/bin/millrace.js', import.meta.url));

export interface RunningServer {
  /** Of the receiving API, the control API and the console. */
  readonly url: string;
  /** Of the receiver, without a slash at the end. */
  readonly receiver: string;
  /** The first token. */
  readonly token: string;
  /** Sets the receiver's answer below a path from now on; 200 by default. */
  answerAt(path: string, status: number): void;
  /** Sends a call with the write key of the source `website`. */
  call(type: string, body: object): Promise<void>;
  /** Asks the control API as the first token. Rejects with what it refuses. */
  api<Answer>(method: string, path: string, body?: object): Promise<Answer>;
  /** Ends the program and starts it again on the same port and the same data. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/**
 * `config` is the configuration, in which RECEIVER stands for the receiver's address. Default: a source and
 * no destination. `millrace` is the program; default: that of the sources.
 */
export async function startServer(
  config = 'sources: [{ name: website, writeKeys: [wk] }]',
  millrace = MILLRACE,
): Promise<RunningServer> {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-console-'));
  const answers = new Map<string, number>();
  const receiver = createServer((request, response) => {
    request.resume().once('end', () => {
      const status = answers.get(request.url ?? '') ?? 200;
      response.writeHead(status, { 'Content-Type': 'text/plain' }).end(BODIES[status] ?? 'Overloaded');
    });
  }).listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  const receiverUrl = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;
  const file = join(folder, 'millrace.yaml');
  writeFileSync(file, `${config.replaceAll('RECEIVER', receiverUrl)}\negress: { allow: [127.0.0.1/32] }\n`);
  const data = join(folder, 'data');
  let program = await startProgram(millrace, ['--config', file, '--data', data, '--port', '0']);
  const { url } = program;
  const token = readFileSync(join(data, 'admin-token'), 'utf8').trim();
  return {
    url,
    token,
    receiver: receiverUrl,
    answerAt: (path, status) => void answers.set(path, status),
    call: async (type, body) => {
      const headers = { Authorization: `Basic ${btoa('wk:')}`, 'Content-Type': 'application/json' };
      const response = await fetch(`${url}/v1/${type}`, {
        method: 'POST',
        headers,
        body: JSON.stringify(body),
      });
      if (!response.ok) throw new Error(`${type} was answered ${response.status}: ${await response.text()}`);
    },
    api: async <Answer>(method: string, path: string, body?: object) => {
      const response = await fetch(`${url}/api/v1/${path}`, {
        method,
        headers: { Authorization: `Bearer ${token}` },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
      return (response.status === 204 ? undefined : await response.json()) as Answer;
    },
    restart: async () => {
      await program.end();
      const port = ['--port', new URL(url).port];
      program = await startProgram(millrace, ['--config', file, '--data', data, ...port]);
    },
    stop: async () => {
      await program.end();
      receiver.closeAllConnections();
      receiver.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

interface RunningProgram {
  readonly url: string;
  end(): Promise<void>;
}

async function startProgram(millrace: string, options: readonly string[]): Promise<RunningProgram> {
  const args = [millrace, 'start', '--host', '127.0.0.1', ...options];
  const program = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = once(program, 'exit');
  return {
    url: await addressOf([program.stdout, program.stderr]),
    end: async () => {
      program.kill('SIGTERM');
      await ended;
    },
  };
}

/** Where the program says it listens. Rejects with what it said when it ends before. */
function addressOf(streams: readonly NodeJS.ReadableStream[]): Promise<string> {
  return new Promise((resolve, reject) => {
    let said = '';
    let open = streams.length;
    for (const stream of streams) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        said += text;
        const address = /ready on (http:\/\/127\.0\.0\.1:\d+)/.exec(said)?.[1];
        if (address !== undefined) resolve(address);
      });
      stream.once('end', () => {
        open -= 1;
        if (open === 0) reject(new Error(`the server ended: ${said}`));
      });
    }
  });
}
