import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import described from '../../../spec/openapi.json' with { type: 'json' };
import { amountOf } from '../support/runs.ts';
import { type DescribedOperation, Document } from './document.ts';
import { requestOf } from './random-requests.ts';
import { askingFor, grantedBy, LEFT_OUT } from './recipes.ts';
import { ADMIN, basic, bearer, GUESSER, type RequestPlan, SLOW, World } from './world.ts';

/**
 * Every path, method and status of the OpenAPI document, and every error code of the control API, against the
 * real program: each has to be seen, and no answer may be outside the document.
 */
const document = new Document(described);
/** The fuzz (fuzz/control.ts) asks the same for 20 seconds. */
const DRAWN = amountOf({ gate: 100, long: 400 });

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'HEAD', 'TRACE'];

let world: World;

beforeAll(async () => {
  world = await World.start();
  const calls = Array.from({ length: 2500 }, () => ({ type: 'track', userId: 'u1', event: 'e' }));
  const batch = { headers: { authorization: basic(SLOW) }, body: { batch: calls } };
  await world.send({ method: 'POST', path: '/v1/batch' }, batch);
});

afterAll(() => world.stop());

/** Guesses tokens until no more are taken. A minute later they are taken again. */
async function guessTooOften(): Promise<void> {
  for (const path of ['/api/v1/sources', '/metrics']) {
    const guess = { headers: bearer('guess'), from: GUESSER };
    while ((await world.send({ method: 'GET', path }, guess)).status !== 429);
  }
}

/** Answers that each operation must show: its successes, and its errors by their codes if they have any. */
const WANTED = document.operations
  .flatMap((operation) =>
    Object.keys(operation.responses).flatMap((status) => {
      const codes = operation.isControl ? document.codesOf(operation, status) : [];
      return (codes.length === 0 ? [status] : codes).map((answer) => ({ operation, status, answer }));
    }),
  )
  .filter(({ operation: { id }, answer }) => !(answer in LEFT_OUT) && !(`${id} ${answer}` in LEFT_OUT));

/** These answers need a store that cannot be used, and come last. */
const BROKEN = ['store_unreadable', 'store_unwritable', 'storage_unavailable'];
const isBroken = ({ operation, status, answer }: (typeof WANTED)[number]) =>
  BROKEN.includes(answer) || (!operation.isControl && status === '503');
/** Profiles are in a file of their own: what was read of them before may still be answered. */
const asksProfiles = (operation: DescribedOperation) =>
  '503' in operation.responses && document.codesOf(operation, '503').includes('profiles_unavailable');
const isBreaking = (operation: DescribedOperation) =>
  '503' in operation.responses &&
  !asksProfiles(operation) &&
  document.codesOf(operation, '503').some((code) => BROKEN.includes(code));

/**
 * Methods that a path takes, also as the name in another path: a user may be called `rebuild`, an audience
 * `preview`.
 */
function methodsTakenBy(path: string): string[] {
  const matches = ({ path: other }: DescribedOperation) =>
    new RegExp(`^${other.replaceAll(/\{[^}]+\}/g, '[^/]+')}$`).test(path);
  const methods = document.operations
    .filter((one) => one.path === path || matches(one))
    .map((one) => one.method);
  return methods.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method]));
}

describe('the document', () => {
  test('is what the server shows', async () => {
    const { body, headers } = await world.send({ method: 'GET', path: '/api/openapi.json' }, {});
    expect(JSON.parse(body)).toEqual(described);
    expect(headers['content-type']).toBe('application/json');
    expect(headers['x-content-type-options']).toBe('nosniff');
  });

  test('gives every operation a name of its own', () => {
    const ids = document.operations.map(({ id }) => id);
    expect(ids).toEqual([...new Set(ids)]);
  });

  test.each(
    document.operations.map((operation) => [`${operation.method} ${operation.path}`, operation] as const),
  )('is true of %s', async (_, operation) => {
    const wanted = WANTED.filter((one) => one.operation === operation && !isBroken(one));
    const good = await grantedBy(operation, world);
    const unlike: string[] = [];
    for (const { status, answer } of wanted) {
      const plan = answer.startsWith('2')
        ? await grantedBy(operation, world, status)
        : await askingFor(answer, { operation, good }, world);
      if (plan === undefined) {
        unlike.push(`${answer}: recipes.ts does not say how to get it`);
        continue;
      }
      if (answer === 'too_many_failed_sign_ins') await guessTooOften();
      const got = await world.send(operation, plan);
      const code = codeIn(got.body);
      if (String(got.status) !== status || !(answer === status || code === answer))
        unlike.push(`${answer}: was answered ${got.status} ${got.body.slice(0, 500)}`);
      unlike.push(...document.faultsOf(operation, got).map((fault) => `${answer}: ${fault}`));
    }
    expect(unlike).toEqual([]);
  });

  test('names every method that a path takes', async () => {
    const all = Map.groupBy(document.operations, (one) => one.path);
    for (const [path, those] of all) {
      // `profiles/rebuild` and `audiences/preview` are also names of records for the other methods.
      const isNameToo = [...all.keys()].some(
        (other) =>
          other !== path &&
          !path.includes('{') &&
          other.replace(/\{\w+\}$/, path.slice(path.lastIndexOf('/') + 1)) === path,
      );
      if (isNameToo) continue;
      const taken = those.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]));
      const elsewhere = methodsTakenBy(path);
      const plan = await grantedBy(those[0]!, world);
      for (const method of METHODS.filter((one) => !taken.includes(one) && !elsewhere.includes(one))) {
        const { status, headers } = await world.send({ method, path }, { ...plan, body: undefined });
        const allowed = (headers.allow ?? '').split(', ').filter((one) => one !== 'OPTIONS');
        if (path.startsWith('/api/') || method !== 'OPTIONS')
          expect([path, method, status, allowed]).toEqual([path, method, 405, taken]);
      }
    }
  });

  test('is as true of HEAD as of GET', async () => {
    for (const operation of document.operations.filter(({ method }) => method === 'GET')) {
      const plan = await grantedBy(operation, world);
      const { status, headers, body } = await world.send({ ...operation, method: 'HEAD' }, plan);
      expect([operation.path, status, body]).toEqual([operation.path, 200, '']);
      // That of the body which GET would have, or none where it goes on.
      expect([operation.path, headers['content-length']]).not.toEqual([operation.path, '0']);
    }
  });

  test('is true of requests drawn by lot', async () => {
    const drawn = fc
      .constantFrom(...document.operations)
      .chain((operation) => fc.tuple(fc.constant(operation), requestOf(operation)));
    const run = fc.asyncProperty(drawn, async ([operation, plan]) => {
      const auth = operation.isControl ? bearer(ADMIN) : { authorization: basic('wk') };
      const got = await world.send(operation, { ...plan, headers: { ...plan.headers, ...auth } });
      const faults = document.faultsOf(operation, got);
      if (got.status >= 500) faults.push(`was answered ${got.status}`);
      if (faults.length > 0) throw new Error(`${operation.method} ${operation.path}: ${faults.join('; ')}`);
    });
    // A failure prints the seed and what it has come down to.
    await fc.assert(run, { numRuns: DRAWN });
  });

  // The limit is one of Linux.
  test.runIf(process.platform === 'linux')('is true of a store that cannot be used', async () => {
    // Whatever was drawn by lot may have changed them.
    await world.reset();
    const plans: [DescribedOperation, RequestPlan][] = [];
    for (const operation of document.operations) {
      if (!(`${operation.id} 503` in LEFT_OUT)) plans.push([operation, await grantedBy(operation, world)]);
    }
    // No file of the program may grow any more.
    execFileSync('prlimit', ['--pid', String(world.pid), '--fsize=0:unlimited']);
    try {
      await world.send(
        { method: 'POST', path: '/v1/track' },
        { ...plans[0]![1], body: { userId: 'u1', event: 'e' } },
      );
      const unlike: string[] = [];
      for (const [operation, plan] of plans) {
        const got = await world.send(operation, plan);
        const mayFail = asksProfiles(operation) && got.status === 503;
        const wanted = isBreaking(operation) || mayFail ? 503 : got.status < 500 ? got.status : 'no 5xx';
        if (got.status !== wanted) unlike.push(`${operation.id}: was answered ${got.status} ${got.body}`);
        unlike.push(...document.faultsOf(operation, got).map((fault) => `${operation.id}: ${fault}`));
      }
      expect(unlike).toEqual([]);
    } finally {
      execFileSync('prlimit', ['--pid', String(world.pid), '--fsize=unlimited:unlimited']);
    }
  });
});

function codeIn(body: string): string | undefined {
  if (!body.startsWith('{')) return undefined;
  return (JSON.parse(body) as { code?: string }).code;
}
