import { spawn, spawnSync } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ROOT } from '../support/program.ts';
import { freePort } from '../support/receiver.ts';
import { until } from '../support/until.ts';
import { blocksOf, fileNameOf } from './pages.ts';

/**
 * The receivers of docs/guide/verifying-signatures.md as they stand there, against the fixtures of the
 * signature.
 */

const PAGE = 'docs/guide/verifying-signatures.md';
const programs = new Map(blocksOf(PAGE).map((block) => [fileNameOf(block), block.text]));

interface Fixture {
  readonly secret: string;
  readonly body: string;
  readonly signature: string;
  readonly webhookId: string;
  readonly standard?: {
    readonly secrets: readonly string[];
    readonly webhookTimestamp: string;
    readonly webhookSignature: string;
  };
  readonly public?: {
    readonly publicKey: string;
    readonly webhookTimestamp: string;
    readonly webhookSignature: string;
  };
}

const fixtures = globSync('spec/fixtures/webhook/*.json', { cwd: ROOT }).map(
  (path) => JSON.parse(readFileSync(join(ROOT, path), 'utf8')) as Fixture,
);

const RECEIVERS: readonly [string, string, string[]][] = [
  ['receiver.mjs', 'node', []],
  ['receiver.py', 'python3', []],
  ['receiver.go', 'go', ['run']],
];

let scratch: string;

beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), 'millrace-signatures-'));
  for (const [name, text] of programs) if (name !== undefined) writeFileSync(join(scratch, name), text);
});

afterAll(() => rmSync(scratch, { recursive: true, force: true }));

describe.each(RECEIVERS.filter(isHere))('%s', (name, command, args) => {
  it('takes what is signed with its secret, and nothing else', async () => {
    for (const [secret, signed] of Map.groupBy(fixtures, ({ secret }) => secret)) {
      const receiver = await started(secret, command, [...args, name]);
      try {
        for (const { body, signature, webhookId } of signed) {
          const post = async (given: string | undefined, bytes = body) => {
            const headers = {
              'webhook-id': webhookId,
              ...(given === undefined ? {} : { 'x-signature': given }),
            };
            return (await fetch(receiver.url, { method: 'POST', headers, body: bytes })).status;
          };
          expect(await post(signature)).toBe(200);
          expect(await post(signature, `${body} `)).toBe(401);
          const other = signature.startsWith('0') ? '1' : '0';
          for (const wrong of [other + signature.slice(1), signature.slice(2), 'zz', '', undefined])
            expect([wrong, await post(wrong)]).toEqual([wrong, 401]);
        }
      } finally {
        await receiver.stop();
      }
    }
  });

  it('takes one id once from each of two sources, told apart by the path', async () => {
    const { secret, body, signature, webhookId } = fixtures[0]!;
    const receiver = await started(secret, command, [...args, name]);
    try {
      for (const path of ['website', 'website', 'app', 'app']) {
        const headers = { 'webhook-id': webhookId, 'x-signature': signature };
        const { status } = await fetch(`${receiver.url}${path}`, { method: 'POST', headers, body });
        expect(status).toBe(200);
      }
      const taken = () => receiver.said().match(new RegExp(`/(website|app) ${webhookId}`, 'g'));
      await until('both are taken', () => taken()?.length === 2);
      expect(taken()?.sort()).toEqual([`/app ${webhookId}`, `/website ${webhookId}`]);
    } finally {
      await receiver.stop();
    }
  });
});

describe('standard.mjs', () => {
  it('takes what is signed with one of the secrets and was sent just now', async () => {
    const { isFresh } = await import(pathToFileURL(join(scratch, 'standard.mjs')).href);
    const dated = fixtures.filter(({ standard }) => standard !== undefined);
    expect(dated.length).toBeGreaterThan(0);
    for (const { body, webhookId, standard } of dated) {
      const { secrets, webhookTimestamp, webhookSignature } = standard!;
      const headers = {
        'webhook-id': webhookId,
        'webhook-timestamp': webhookTimestamp,
        'webhook-signature': webhookSignature,
      };
      const now = Number(webhookTimestamp) + 10;
      for (const secret of secrets) expect(isFresh(body, headers, secret, now)).toBe(true);
      expect(isFresh(body, headers, secrets[0], now + 600)).toBe(false);
      expect(isFresh(`${body} `, headers, secrets[0], now)).toBe(false);
      expect(isFresh(body, headers, 'whsec_AAAA', now)).toBe(false);
      expect(isFresh(body, { ...headers, 'webhook-id': 'other' }, secrets[0], now)).toBe(false);
      expect(isFresh(body, {}, secrets[0], now)).toBe(false);
    }
  });
});

describe('public.mjs', () => {
  it('takes what the public key verifies and was sent just now', async () => {
    const { isGenuine } = await import(pathToFileURL(join(scratch, 'public.mjs')).href);
    const signed = fixtures.filter(({ public: given }) => given !== undefined);
    expect(signed.length).toBeGreaterThan(0);
    for (const { body, webhookId, public: given } of signed) {
      const { publicKey, webhookTimestamp, webhookSignature } = given!;
      const headers = {
        'webhook-id': webhookId,
        'webhook-timestamp': webhookTimestamp,
        'webhook-signature': `v1,AAAA ${webhookSignature}`,
      };
      const key = `whpk_${publicKey}`;
      const now = Number(webhookTimestamp) + 10;
      const bytes = Buffer.from(body);
      expect(isGenuine(bytes, headers, key, now)).toBe(true);
      expect(isGenuine(bytes, headers, key, now + 600)).toBe(false);
      expect(isGenuine(Buffer.from(`${body} `), headers, key, now)).toBe(false);
      expect(isGenuine(bytes, { ...headers, 'webhook-id': 'other' }, key, now)).toBe(false);
      const later = { ...headers, 'webhook-timestamp': String(now) };
      expect(isGenuine(bytes, later, key, now)).toBe(false);
      const other = generateKeyPairSync('ed25519').publicKey.export({ format: 'der', type: 'spki' });
      const otherKey = `whpk_${other.subarray(-32).toString('base64')}`;
      expect(isGenuine(bytes, headers, otherKey, now)).toBe(false);
      expect(isGenuine(bytes, { ...headers, 'webhook-signature': 'v1,AAAA' }, key, now)).toBe(false);
      expect(isGenuine(bytes, {}, key, now)).toBe(false);
    }
  });
});

function isHere([name, command]: readonly [string, string, string[]]): boolean {
  const here = spawnSync(command, ['--help']).error === undefined;
  if (!here) console.log(`left out: ${name}, because there is no ${command}`);
  return here;
}

async function started(secret: string, command: string, args: readonly string[]) {
  const port = await freePort();
  const path = `${dirname(process.execPath)}${delimiter}${process.env['PATH']}`;
  const child = spawn(command, args, {
    ...{ cwd: scratch, detached: true, stdio: ['ignore', 'pipe', 'pipe'] },
    env: { ...process.env, PATH: path, PORT: String(port), SECRET: secret, PYTHONUNBUFFERED: '1' },
  });
  let said = '';
  for (const stream of [child.stdout!, child.stderr!])
    stream.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
  const ended = once(child, 'close');
  await until(`${args.join(' ')} listens`, async () => {
    if (child.exitCode !== null) return true;
    return await listens(port);
  });
  if (child.exitCode !== null) throw new Error(`${args.join(' ')} ended:\n${said}`);
  return {
    url: `http://127.0.0.1:${port}/`,
    said: () => said,
    // The group: `go run` is not the receiver itself.
    stop: async () => {
      process.kill(-child.pid!, 'SIGKILL');
      await ended;
    },
  };
}

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
