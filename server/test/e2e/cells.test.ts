import { execFile } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { blocksOf } from '../docs/pages.ts';
import { send, track } from '../support/calls.ts';
import {
  MILLRACE,
  makePlace,
  oneDestination,
  type Place,
  type Program,
  runProgram,
  startProgram,
} from '../support/program.ts';
import { freePort, startReceiver, type TestReceiver } from '../support/receiver.ts';

/** The loop of docs/operations/cells.md as it stands there, over two real servers. */

const PAGE = 'docs/operations/cells.md';
const NAMES = ['east', 'west'];

let receiver: TestReceiver;
let folder: string;
const places: Place[] = [];
const ports: number[] = [];
const servers: Program[] = [];

beforeAll(async () => {
  receiver = await startReceiver();
  folder = mkdtempSync(join(tmpdir(), 'millrace-cells-'));
  const [script] = blocksOf(PAGE).filter(({ text }) => text.startsWith('# cells.sh\n'));
  writeFileSync(join(folder, 'cells.sh'), script!.text);
  writeFileSync(join(folder, 'millrace'), `#!/bin/sh\nexec '${process.execPath}' '${MILLRACE}' "$@"\n`);
  chmodSync(join(folder, 'millrace'), 0o755);
  for (const nth of NAMES.keys()) {
    places[nth] = makePlace(oneDestination([`${receiver.url}/${NAMES[nth]}`]));
    ports[nth] = await freePort();
    await start(nth);
  }
  const lines = NAMES.map((name, nth) => `${name} ${servers[nth]!.url} ${places[nth]!.data}/admin-token\n`);
  writeFileSync(join(folder, 'cells.txt'), `# cells.txt\n\n${lines.join('')}`);
});

afterAll(async () => {
  for (const server of servers) await server.kill();
  for (const place of places) place.remove();
  rmSync(folder, { recursive: true, force: true });
  await receiver.stop();
});

async function start(nth: number): Promise<void> {
  const { config, data } = places[nth]!;
  const address = ['--host', '127.0.0.1', '--port', String(ports[nth])];
  servers[nth] = await startProgram({ args: ['start', '--config', config, '--data', data, ...address] });
}

function everywhere(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const path = [folder, dirname(process.execPath), process.env['PATH']].join(delimiter);
  return new Promise((resolve) => {
    const env = { ...process.env, PATH: path };
    execFile('sh', ['cells.sh', ...args], { cwd: folder, env }, (error, out, err) =>
      resolve({ code: Number(error?.code ?? 0), out, err }),
    );
  });
}

async function call(nth: number, messageId: string, userId: string): Promise<void> {
  const { status } = await send(servers[nth]!.url, '/v1/track', track(messageId, { userId }));
  expect(status).toBe(200);
}

it('asks every cell with one verb, and deletes a user in all of them, also when one of them was down', async () => {
  await call(0, 'e1', 'u1');
  await call(1, 'w1', 'u1');
  await receiver.count(2);

  const status = await everywhere('status');
  expect([status.code, status.err]).toEqual([0, '']);
  expect(status.out).toMatch(/^== east\n[\s\S]+\n== west\n/);
  const events = await everywhere('events', '--user-id', 'u1', '--json');
  expect(events.out).toMatch(/^== east\n.*"messageId":"e1".*\n== west\n.*"messageId":"w1".*\n$/);
  // The east does not know it.
  const traced = await everywhere('trace', 'w1');
  expect([traced.code, traced.out]).toEqual([1, expect.stringMatching(/^== east\n== west\nw1 {2}track /)]);
  expect((await everywhere('events', '--limit', 'x')).code).toBe(2);

  await servers[1]!.kill();
  const half = await everywhere('delete-user', 'u1', '--wait', '--yes');
  expect(half.code).toBe(1);
  expect(half.err).toMatch(/unreachable|is no server/);
  expect(half.out).toMatch(/^== east\n\S+ {2}DELETE_ONLY of 1 user: FINISHED\n[\s\S]+\n== west\n$/);
  await start(1);
  const whole = await everywhere('delete-user', 'u1', '--wait', '--yes');
  expect([whole.code, whole.err]).toEqual([0, '']);
  const receipts = whole.out.match(/^\S+ {2}DELETE_ONLY of 1 user: FINISHED$/gm)!;
  expect(new Set(receipts).size).toBe(2);
  expect((await everywhere('events', '--user-id', 'u1', '--json')).out).toBe('== east\n== west\n');
});

it('was a verb of its own once, which says what to do now', async () => {
  for (const args of [['cells'], ['cells', 'status', '--cells', 'cells.yaml'], ['cells', '--help']]) {
    const { code, stdout, stderr } = await runProgram({ args });
    expect([args, code, stdout]).toEqual([args, 2, '']);
    expect(stderr).toMatch(
      /^millrace: there is no verb cells any more: .*docs\/operations\/cells\.md.*\.\n$/,
    );
  }
});
