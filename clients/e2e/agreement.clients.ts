import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { amountOf, SEED } from '../../server/test/support/runs.ts';
import { libraries } from './library.ts';
import { Trial } from './trial.ts';
import { expectSum } from './world.ts';

const { found } = libraries();

const CALLS = amountOf({ gate: 1500, long: 30_000 });

const anything = fc.oneof(
  { weight: 4, arbitrary: fc.string({ minLength: 1, unit: 'grapheme' }) },
  fc.constantFrom(null, '', ' ', 0, 42, -7, 0.5, 2 ** 53, true, false),
  fc.constantFrom<unknown>([], [1], {}, { a: { b: 1 } }),
);
const fields = fc.oneof(
  { weight: 6, arbitrary: fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 }), { maxKeys: 5 }) },
  fc.constantFrom<unknown>(null, 'text', 7, true, ['a']),
  fc
    .constantFrom('__proto__', 'constructor', 'toJSON')
    .map((key) => JSON.parse(`{"${key}":{"a":1}}`) as unknown),
  fc
    .integer({ min: 480, max: 510 })
    .map((levels) => JSON.parse(`${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`) as unknown),
  fc.integer({ min: 32_400, max: 32_800 }).map((length) => ({ pad: 'x'.repeat(length) })),
);
const time = fc.oneof(
  fc
    .date({ noInvalidDate: true, min: new Date(0), max: new Date('2100-01-01') })
    .map((date) => date.toISOString()),
  fc.constantFrom<unknown>(null, '', 'now', '2026-02-30', '2026-11-21', '2026-11-21T01:02:03+02:00', 5, {}),
);
/** Mostly valid: many of them are accepted, and each field is wrong now and then. */
const message = fc.record(
  {
    userId: fc.oneof({ weight: 6, arbitrary: fc.constant('u1') }, anything),
    anonymousId: fc.oneof({ weight: 3, arbitrary: fc.constant('a1') }, anything),
    previousId: fc.oneof({ weight: 3, arbitrary: fc.constant('p1') }, anything),
    groupId: fc.oneof({ weight: 3, arbitrary: fc.constant('g1') }, anything),
    event: fc.oneof({ weight: 6, arbitrary: fc.constant('E') }, anything),
    name: anything,
    category: anything,
    properties: fields,
    traits: fields,
    context: fields,
    integrations: fc.oneof(
      { weight: 4, arbitrary: fc.constant({}) },
      fc.constantFrom<unknown>(null, 1, [], 'All'),
    ),
    timestamp: time,
    sentAt: time,
  },
  { requiredKeys: ['userId'] },
);

/** The fields a kind of call has; others would be refused, and little would be left to try. */
const OWN: Readonly<Record<string, readonly string[]>> = {
  identify: ['traits'],
  track: ['event', 'properties'],
  page: ['name', 'category', 'properties'],
  screen: ['name', 'category', 'properties'],
  group: ['groupId', 'traits'],
  alias: ['previousId'],
};
const SHARED = ['userId', 'context', 'integrations', 'timestamp', 'sentAt'];

/**
 * A server that discards a call inside a batch still answers 200, so what a client accepts must be what the
 * server accepts: calls of every shape, and each accepted one is at the webhook.
 */
describe.each(found)('the $name client agrees with the server', (library) => {
  const trial = new Trial(library);
  beforeAll(() => trial.begin());
  afterAll(() => trial.end());

  it(`on ${CALLS} calls of every shape (seed ${SEED})`, async () => {
    const client = await trial.start();
    const drawn = fc.sample(fc.record({ type: fc.constantFrom(...Object.keys(OWN)), message }), {
      numRuns: CALLS,
      seed: SEED,
    });
    const answers = await Promise.all(
      drawn.map(({ type, message: all }, n) => {
        const known = new Set([...SHARED, ...OWN[type]!, ...(type === 'alias' ? [] : ['anonymousId'])]);
        const own = Object.fromEntries(Object.entries(all).filter(([key]) => known.has(key)));
        return client.call(type, { ...own, messageId: `${trial.prefix}${n}` });
      }),
    );
    expect(await client.flush()).toMatchObject({ ok: true });
    const { succeeded, failed } = await expectSum(trial.world, client, trial.prefix);
    expect(failed.size).toBe(0);
    const codes = new Set(answers.map(({ error }) => error?.code));
    console.log(
      `${library.name}: ${succeeded.size} of ${CALLS} accepted and delivered; refused: ${[...codes].join(' ')}`,
    );
    expect(succeeded.size).toBeGreaterThan(CALLS / 15);
    await client.close();
    await trial.finish();
  });
});
