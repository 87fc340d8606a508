import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { send } from '../support/calls.ts';
import { ControlApi } from '../support/control-api.ts';
import {
  adminTokenOf,
  makePlace,
  oneDestination,
  type Place,
  type Program,
  runProgram,
  startServer,
} from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';
import { amountOf } from '../support/runs.ts';

/** Asks so many things at the same time. */
const AT_ONCE = 16;

let receiver: TestReceiver;
let place: Place;
let program: Program;
let runs = 0;
const control = new ControlApi(() => ({ url: program.url, token: adminTokenOf(place) }));

beforeAll(async () => {
  receiver = await startReceiver();
  place = makePlace(`profiles: on\n${oneDestination([`${receiver.url}/in`])}`);
  program = await startServer(place);
});

afterAll(async () => {
  await program.kill();
  await receiver.stop();
  place.remove();
});

async function each<Of, Result>(
  all: readonly Of[],
  work: (one: Of, nth: number) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  for (let at = 0; at < all.length; at += AT_ONCE)
    results.push(...(await Promise.all(all.slice(at, at + AT_ONCE).map((one, nth) => work(one, at + nth)))));
  return results;
}

describe('an id of any characters', () => {
  const character = fc.oneof(
    { weight: 3, arbitrary: fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }) },
    {
      weight: 2,
      arbitrary: fc.constantFrom(' ', '\t', '\n', '\0', '\u007f', '\u0085', '\u00a0', '\u200b', '\ufeff'),
    },
    { weight: 2, arbitrary: fc.integer({ min: 0, max: 0x1f }).map((code) => String.fromCharCode(code)) },
    {
      weight: 2,
      arbitrary: fc.constantFrom('/', '..', '%41', '+', '&', '?', '#', '"', '\\', "'", ',', '*', '\\u0041'),
    },
    {
      weight: 2,
      arbitrary: fc.constantFrom(
        'é',
        'e\u0301',
        'ß',
        'İ',
        'ﬀ',
        'Ω',
        '\u2126',
        '한',
        '🦊',
        '\u{10ffff}',
        '\ufffd',
        '\uffff',
      ),
    },
  );
  const half = fc.integer({ min: 0xd800, max: 0xdfff }).map((code) => String.fromCharCode(code));
  const text = fc.oneof(
    { weight: 8, arbitrary: fc.string({ unit: character, maxLength: 12 }) },
    {
      weight: 1,
      arbitrary: fc.string({ unit: character, maxLength: 12 }).map((part) => `${part}${part}`.repeat(50)),
    },
    {
      weight: 1,
      arbitrary: fc
        .tuple(fc.integer({ min: 1000, max: 2000 }), character)
        .map(([size, one]) => one.repeat(size).slice(0, size)),
    },
    {
      weight: 1,
      arbitrary: fc
        .tuple(fc.string({ unit: character, maxLength: 6 }), half)
        .map(([part, one]) => `${part}${one}`),
    },
  );

  /** Ids that somebody might take for this one. */
  function neighbours(id: string): string[] {
    const others = [
      ` ${id}`,
      `${id} `,
      `${id}\0`,
      `\0${id}`,
      `"${id}"`,
      id.trim(),
      id.toUpperCase(),
      id.toLowerCase(),
    ];
    const forms = ['NFC', 'NFD', 'NFKC'].map((form) => id.normalize(form));
    return [...others, ...forms, encodeURIComponent(id.toWellFormed()), id.slice(0, -1)];
  }

  const isTaken = (id: string) => id.length <= 1024 && id.isWellFormed();
  /** Both ways to write it, in turns. */
  const inQuery = (name: string, id: string, nth: number) =>
    nth % 2 === 0
      ? `${name}=${encodeURIComponent(id)}`
      : `${name}Json=${encodeURIComponent(JSON.stringify(id))}`;
  /** Both kinds of ids, in turns. */
  const kindOf = (nth: number) => (nth % 4 < 2 ? 'userId' : 'anonymousId');

  const call = (id: string, messageId: string) =>
    send(program.url, '/v1/track', { userId: id, anonymousId: id, event: 'E', messageId });
  const found = async (id: string, nth: number) => {
    const { data } = await control.read<{ data: { event: { userId: string; messageId: string } }[] }>(
      `events?${inQuery(kindOf(nth), id, nth)}`,
    );
    expect(data.map(({ event }) => event.userId)).toEqual(data.map(() => id));
    return data.map(({ event }) => event.messageId).sort();
  };
  const profileOf = (id: string, nth: number) =>
    control.ask<{ userId?: string }>('GET', `profiles?${inQuery(kindOf(nth), id, nth)}`);

  async function regulated(type: string, subjectIds: readonly string[]): Promise<{ unknown: number }> {
    const { status, answer } = await control.ask<{ id: string }>('POST', 'regulations', { type, subjectIds });
    expect([status, answer]).toEqual([201, expect.anything()]);
    return await control.until<{ overallStatus: string; unknown: number }>(
      `regulations/${answer.id}`,
      ({ overallStatus }) => overallStatus === 'FINISHED',
    );
  }

  it('that is taken can be looked up, searched, suppressed and erased, and no other is; one that is not is refused everywhere', async () => {
    const property = fc.asyncProperty(
      fc.array(fc.tuple(text, text, fc.nat()), { minLength: 12, maxLength: 12 }),
      async (drawn) => {
        const run = ++runs;
        const wanted = drawn.map(([before, behind], nth) => `${before}k${run}x${nth}${behind}`);
        const beside = wanted.flatMap((id, nth) => {
          const all = neighbours(id);
          return [0, 4, 9].map((step) => all[(drawn[nth]![2] + step) % all.length]!);
        });
        const ids = [...new Set([...wanted, ...beside])].filter((id) => id !== '');
        const answers = await each(ids, (id, nth) => call(id, `m${run}-${nth}`));
        expect(ids.filter((_, nth) => answers[nth]!.status === 200)).toEqual(ids.filter(isTaken));
        const taken = ids.filter(isTaken);
        const messageOf = (id: string) => `m${run}-${ids.indexOf(id)}`;

        expect(await each(taken, found)).toEqual(taken.map((id) => [messageOf(id)]));
        const profiles = await each(taken, profileOf);
        expect(profiles.map(({ answer }) => answer.userId)).toEqual(taken);

        await refusedEverywhere(
          ids.filter((id) => !isTaken(id)),
          answers.filter(({ status }) => status !== 200),
        );

        const erased = wanted.filter(isTaken);
        if (erased.length === 0) return;
        expect(await regulated('SUPPRESS_WITH_DELETE', erased)).toMatchObject({ unknown: 0 });
        const kept = taken.filter((id) => !erased.includes(id));
        await each(taken, (id, nth) => call(id, `again${run}-${nth}`));
        const after = await each(taken, found);
        expect(after).toEqual(
          taken.map((id, nth) => (kept.includes(id) ? [`again${run}-${nth}`, messageOf(id)] : [])),
        );
        const left = await each(taken, profileOf);
        expect(left.map(({ status }) => status)).toEqual(taken.map((id) => (kept.includes(id) ? 200 : 404)));
        const suppressed = await each(taken, (id, nth) =>
          control.read<{ data: unknown[] }>(`suppressions?${inQuery('userId', id, nth)}`),
        );
        expect(suppressed.map(({ data }) => data.length)).toEqual(
          taken.map((id) => (kept.includes(id) ? 0 : 1)),
        );
      },
    );
    // A run takes seconds, and its ids tell apart which of them is at fault: hundreds of smaller ones would
    // take an hour.
    await fc.assert(property, { numRuns: amountOf({ gate: 1, long: 12 }), endOnFailure: true });
  });

  /** `answers`: those of receiving. */
  async function refusedEverywhere(
    ids: readonly string[],
    answers: readonly { readonly status: number; readonly answer: unknown }[],
  ): Promise<void> {
    const reasons = ids.map((id) => (id.length > 1024 ? /1,?024 .*UTF-16/ : /half of a surrogate pair/));
    for (const [nth, { status, answer }] of answers.entries())
      expect([status, (answer as { message: string }).message]).toEqual([
        400,
        expect.stringMatching(reasons[nth]!),
      ]);
    await each(ids, async (id, nth) => {
      const json = inQuery(kindOf(nth), id, 1);
      const subjects = { type: 'SUPPRESS_ONLY', subjectIds: [id] };
      const asked = await Promise.all([
        control.ask<object>('POST', 'regulations', subjects),
        control.ask<object>('POST', 'regulations', { ...subjects, dryRun: true }),
        // The head of a request has room for every id that is taken, and not for every other one.
        ...(json.length > 15_000 ? [] : ['events', 'profiles']).map((path) =>
          control.ask<object>('GET', `${path}?${json}`),
        ),
      ]);
      expect(asked.map(({ status }) => status)).toEqual([422, 422, 422, 404].slice(0, asked.length));
      for (const { answer } of asked) expect(JSON.stringify(answer)).toMatch(reasons[nth]!);
    });
  }
});

describe('a number in place of the id of a user', () => {
  it('is its digits in a regulation as in a call, and refused where it may have been rounded', async () => {
    const regulate = (subject: string) =>
      fetch(`${program.url}/api/v1/regulations`, {
        method: 'POST',
        headers: { authorization: `Bearer ${adminTokenOf(place)}`, 'content-type': 'application/json' },
        body: `{"type":"SUPPRESS_ONLY","subjectIds":[${subject}]}`,
      });
    const suppressed = async (userId: string) =>
      (await control.read<{ data: unknown[] }>(`suppressions?userId=${userId}`)).data.length;
    const largest = '9007199254740991';
    for (const digits of ['12', '-7', largest]) {
      expect((await send(program.url, '/v1/track', `{"userId":${digits},"event":"E"}`)).status).toBe(200);
      const answer = await regulate(digits);
      expect([answer.status, await answer.json()]).toEqual([201, expect.objectContaining({ unknown: 0 })]);
      expect(await suppressed(digits)).toBe(1);
    }
    // The first two are read as 2^53, which is the id of somebody else.
    for (const rounded of ['9007199254740993', '-9007199254740993', '1e21']) {
      const answer = await regulate(rounded);
      expect([answer.status, await answer.json()], rounded).toEqual([
        422,
        expect.objectContaining({ errors: [expect.objectContaining({ path: 'body.subjectIds[0]' })] }),
      ]);
    }
    expect(await suppressed('9007199254740992')).toBe(0);
  });
});

describe('an id of dots', () => {
  it.each(['.', '..'])('%s is found at the command line, although no path can carry it', async (id) => {
    const call = { userId: id, messageId: id, event: 'Dots', traits: { dots: id.length } };
    expect((await send(program.url, '/v1/identify', call)).status).toBe(200);
    await receiver.until(() => receiver.arrivals.some(({ headers }) => headers['webhook-id'] === id));
    const flags = ['--json', '--url', program.url, '--token', adminTokenOf(place)];
    const traced = await runProgram({ args: ['trace', id, ...flags] });
    expect(traced).toMatchObject({ code: 0 });
    const { data } = JSON.parse(traced.stdout);
    expect(data).toMatchObject([{ event: { messageId: id }, deliveries: [{ state: 'delivered' }] }]);
    const shown = await runProgram({ args: ['profile', id, ...flags] });
    expect(shown).toMatchObject({ code: 0 });
    expect(JSON.parse(shown.stdout)).toMatchObject({ userId: id, traits: { dots: id.length } });
  });
});

describe('half of a surrogate pair', () => {
  it('stays what it is in the text of a trait, as it is delivered and in the profile', async () => {
    const traits = { name: 'Mia \ud83d', tags: ['\udc00'], whole: '🦊', 'odd \ud83d': 1 };
    const call = { userId: 'halves', messageId: 'halves', traits };
    expect((await send(program.url, '/v1/identify', call)).status).toBe(200);
    const { 'odd \ud83d': _, ...named } = traits;
    expect(await control.read('profiles/halves')).toMatchObject({ traits: named });
    const ofCall = () => receiver.arrivals.find(({ headers }) => headers['webhook-id'] === 'halves');
    await receiver.until(() => ofCall() !== undefined);
    expect(JSON.parse(ofCall()!.body.toString())).toMatchObject({ traits });
  });

  it('in the name of a trait keeps the trait out of the profile, and makes no other of it', async () => {
    const call = { userId: 'names', traits: { 'a\ufffd': 3, 'a\ud83d': 1, 'a\udc00': 2 } };
    expect((await send(program.url, '/v1/identify', call)).status).toBe(200);
    expect((await control.read<{ traits: object }>('profiles/names')).traits).toEqual({ 'a\ufffd': 3 });
  });
});

describe('a number of JSON', () => {
  const integer = fc.oneof(
    fc.nat({ max: 999_999_999 }).map(String),
    fc.bigInt({ min: 10n ** 14n, max: 10n ** 25n }).map(String),
    fc.bigInt({ min: 2n ** 53n - 3n, max: 2n ** 53n + 3n }).map(String),
  );
  const fraction = fc.stringMatching(/^\.\d{1,20}$/);
  const exponent = fc
    .tuple(fc.constantFrom('e', 'E'), fc.constantFrom('', '+', '-'), fc.integer({ min: 0, max: 400 }))
    .map((parts) => parts.join(''));
  const literal = fc
    .tuple(
      fc.constantFrom('', '-'),
      fc.oneof(
        { weight: 3, arbitrary: integer },
        fc.double({ noNaN: true, noDefaultInfinity: true, min: 0 }).map(String),
        fc.tuple(integer, fraction).map((parts) => parts.join('')),
        fc.tuple(integer, exponent).map((parts) => parts.join('')),
        fc.tuple(integer, fraction, exponent).map((parts) => parts.join('')),
        fc.integer({ min: 305, max: 312 }).map((size) => '9'.repeat(size)),
        fc.integer({ min: 305, max: 312 }).map((size) => `${'9'.repeat(size)}.0`),
      ),
    )
    .map((parts) => parts.join(''));

  /** The value that arrives, by the written rule instead of the code that implements it. */
  function arriving(text: string): string | number {
    if (/^-?\d+$/.test(text)) {
      const value = BigInt(text);
      const most = 2n ** 53n - 1n;
      return value >= -most && value <= most ? Number(value) : text;
    }
    const value = Number(text);
    return Number.isFinite(value) ? value : text;
  }

  it('arrives with the same digits if it is an integer, else as the same double, or as its text if none holds it', async () => {
    const calls = fc.array(fc.array(literal, { minLength: 1, maxLength: 6 }), {
      minLength: 60,
      maxLength: 60,
    });
    const property = fc.asyncProperty(calls, fc.boolean(), async (drawn, isBatch) => {
      const run = ++runs;
      const bodies = drawn.map(
        (literals, nth) =>
          `{"type":"track","userId":"numbers","event":"N","messageId":"n${run}-${nth}","properties":{"all":[${literals.join(',')}]}}`,
      );
      const before = await changed();
      const answers = isBatch
        ? [await send(program.url, '/v1/batch', `{"batch":[${bodies.join(',')}]}`)]
        : await each(bodies, (body) => send(program.url, '/v1/track', body));
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
      const ofRun = () => receiver.arrivals.filter(({ body }) => body.includes(`"messageId":"n${run}-`));
      await receiver.until(() => ofRun().length >= drawn.length);
      const delivered = ofRun().map(({ body }) => JSON.parse(body.toString()) as Delivered);
      const arrived = new Map(delivered.map(({ messageId, properties }) => [messageId, properties.all]));
      const expected = drawn.map((literals) => literals.map(arriving).map(withoutSign));
      expect(drawn.map((_, nth) => arrived.get(`n${run}-${nth}`))).toEqual(expected);
      const texts = expected.flat().filter((value) => typeof value === 'string').length;
      expect((await changed()) - before).toBe(texts);
    });
    await fc.assert(property, { numRuns: amountOf({ gate: 2, long: 40 }) });
  });

  interface Delivered {
    readonly messageId: string;
    readonly properties: { readonly all: readonly unknown[] };
  }

  /** JSON of JavaScript has no zero with a sign. */
  const withoutSign = (value: string | number) => (value === 0 ? 0 : value);

  async function changed(): Promise<number> {
    const { changedValues } = await control.read<{
      changedValues: Record<string, { counts: { numbers_as_text?: number } }>;
    }>('status');
    return changedValues['website']?.counts.numbers_as_text ?? 0;
  }
});
