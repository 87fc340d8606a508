import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
// The import rule stands as data in one file, for this test and for `npm run check` alike.
const RULES = join(ROOT, '.dependency-cruiser.mjs');
const CRUISER = join(ROOT, 'node_modules/.bin/depcruise');

interface Violation {
  readonly rule: { readonly name: string };
  readonly from: string;
  readonly to: string;
}

/** Every arrow the rules forbid in a tree that is laid out like this repository, as `rule: from → to`. */
async function wrongArrows(root: string, folders: readonly string[]): Promise<string[]> {
  const args = ['--config', RULES, '--output-type', 'json', ...folders];
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  execFile(CRUISER, args, { cwd: root, maxBuffer: 1 << 28 }, (error, stdout, stderr) => {
    // The exit code is the number of violations: only an empty answer says that it could not look.
    if (stdout === '') reject(new Error(`the cruiser said nothing: ${stderr}`, { cause: error }));
    else resolve(stdout);
  });
  const { summary } = JSON.parse(await promise) as {
    summary: { violations: Violation[]; totalCruised: number };
  };
  expect(summary.totalCruised).toBeGreaterThan(0);
  return summary.violations.map(({ rule, from, to }) => `${rule.name}: ${from} → ${to}`).sort();
}

// `npm run check` tries the rule on this repository.
describe('the import rule', () => {
  describe('in a tree with one wrong arrow of each kind', () => {
    let root = '';

    /** Some arrows are types only, to prove that those are followed as well. */
    const files: Readonly<Record<string, string>> = {
      'package.json': '{"type":"module"}',
      'tsconfig.json':
        '{"compilerOptions":{"module":"nodenext","allowImportingTsExtensions":true,"noEmit":true}}',
      'server/src/model/event.ts': `import { readFileSync } from 'node:fs'; export const event = readFileSync;`,
      'server/src/model/call.ts': `import type { Port } from '../ports/port.ts'; export type Call = Port;`,
      'server/src/ports/port.ts': `import type { Wheel } from '../routing/wheel.ts'; export type Port = Wheel;`,
      'server/src/ports/clock.ts': `import type { Socket } from 'node:net'; export type Clock = Socket;`,
      'server/src/routing/wheel.ts': `import type { Event } from '../delivery/worker.ts'; export type Wheel = Event;`,
      'server/src/delivery/worker.ts': `import { memory } from '../adapters/memory/log.ts'; export type Event = typeof memory;`,
      'server/src/delivery/worker.test.ts': `import { memory } from '../adapters/memory/log.ts'; export const m = memory;`,
      'server/src/destinations/webhooks/payload.ts': `import { slack } from '../slack/body.ts'; export const body = slack;`,
      'server/src/destinations/slack/body.ts': `import { inner } from './inner.ts'; export const slack = inner;`,
      'server/src/destinations/slack/inner.ts': `export const inner = 1;`,
      'server/src/adapters/memory/log.ts': `export const memory = 1;`,
      'server/src/adapters/sqlite/log.ts': `import { memory } from '../memory/log.ts'; export const log = memory;`,
      'server/src/adapters/sqlite/wheel.ts': `export type { Wheel } from '../../routing/wheel.ts';`,
      'server/src/app.ts': `import { log } from './adapters/sqlite/log.ts'; export const app = log;`,
      'server/src/main.ts': `import { memory } from './adapters/memory/log.ts'; export const main = memory;`,
      'server/src/http/server.ts': `import { app } from '../app.ts'; export const listener = app;`,
      'server/src/http/a.ts': `import { b } from './b.ts'; export const a = b;`,
      'server/src/http/b.ts': `import type { a } from './a.ts'; export type B = typeof a; export const b = 1;`,
      'server/src/http/program.ts': `export { verb } from '../../../cli/src/verb.ts';`,
      'server/src/http/lost.ts': `export { nothing } from './nowhere.ts';`,
      'server/src/http/tested.ts': `export { support } from '../../test/support.ts';`,
      'server/test/support.ts': `export const support = 1;`,
      'cli/src/verb.ts': `import { app } from '../../server/src/app.ts'; export const verb = app;`,
      'clients/typescript/src/client.ts': `import type { Port } from '../../../server/src/ports/port.ts'; export type Client = Port;`,
      'clients/typescript/src/options.ts': `import { readFileSync } from 'node:fs'; export const options = readFileSync;`,
      'clients/typescript/src/sender.ts': `import type { Segment } from './spool/segment.ts'; export type Sender = Segment;`,
      'clients/typescript/src/spool/segment.ts': `import { openSync } from 'node:fs'; export type Segment = typeof openSync;`,
      'cli/src/backdoor.ts': `export { listener } from '../../server/src/http/server.ts';`,
    };

    beforeAll(async () => {
      root = await mkdtemp(join(tmpdir(), 'millrace-arrows-'));
      for (const [path, text] of Object.entries(files)) {
        await mkdir(join(root, dirname(path)), { recursive: true });
        await writeFile(join(root, path), `${text}\n`);
      }
    });

    afterAll(async () => {
      await rm(root, { recursive: true, force: true });
    });

    it('finds each of them, and nothing where the arrow is right', async () => {
      const found = await wrongArrows(root, ['server', 'cli', 'clients']);
      expect(found).toEqual([
        'adapters-import-ports-and-model-only: server/src/adapters/sqlite/log.ts → server/src/adapters/memory/log.ts',
        'adapters-import-ports-and-model-only: server/src/adapters/sqlite/wheel.ts → server/src/routing/wheel.ts',
        'client-runs-in-browsers: clients/typescript/src/options.ts → fs',
        'client-runs-in-browsers: clients/typescript/src/sender.ts → clients/typescript/src/spool/segment.ts',
        'clients-import-nothing-of-ours: clients/typescript/src/client.ts → server/src/ports/port.ts',
        'model-imports-nothing: server/src/model/call.ts → server/src/ports/port.ts',
        'model-imports-nothing: server/src/model/event.ts → fs',
        'no-cycles: server/src/http/a.ts → server/src/http/b.ts', // a cycle is named once
        'nothing-unresolved: server/src/http/lost.ts → ./nowhere.ts',
        'only-app-knows-adapters: server/src/delivery/worker.ts → server/src/adapters/memory/log.ts',
        'only-app-knows-adapters: server/src/main.ts → server/src/adapters/memory/log.ts',
        'ports-import-model-only: server/src/ports/clock.ts → net',
        'ports-import-model-only: server/src/ports/port.ts → server/src/routing/wheel.ts',
        'product-imports-no-test: server/src/http/tested.ts → server/test/support.ts',
        'program-uses-the-front-door: cli/src/backdoor.ts → server/src/http/server.ts',
        'server-knows-no-program: server/src/http/program.ts → cli/src/verb.ts',
        'stages-do-not-import-each-other: server/src/destinations/webhooks/payload.ts → server/src/destinations/slack/body.ts',
        'stages-do-not-import-each-other: server/src/routing/wheel.ts → server/src/delivery/worker.ts',
        'stages-do-not-import-the-wiring: server/src/http/server.ts → server/src/app.ts',
      ]);
    });
  });
});
