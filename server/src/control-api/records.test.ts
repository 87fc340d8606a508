import { describe, expect, test } from 'vitest';
import { checkRecords } from '../config/load.ts';
import type { JsonObject } from '../model/json.ts';
import type { AuditEntry, SettingsSnapshot } from '../ports/settings-store.ts';
import { Problem } from './problem.ts';
import {
  checkRecord,
  differingPaths,
  etagOf,
  matchesEtag,
  mergePatch,
  type RecordDependencies,
  refuseStale,
} from './records.ts';

/** The table of RFC 7396, appendix A, as far as both sides are objects, as they always are here. */
const TABLE: readonly [target: string, patch: string, merged: string][] = [
  ['{"a":"b"}', '{"a":"c"}', '{"a":"c"}'],
  ['{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'],
  ['{"a":"b"}', '{"a":null}', '{}'],
  ['{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'],
  ['{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'],
  ['{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'],
  ['{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'],
  ['{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'],
  ['{"e":null}', '{"a":1}', '{"e":null,"a":1}'],
  ['{}', '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'],
];

test.each(TABLE)('%s with %s is %s', (target, patch, merged) => {
  expect(mergePatch(JSON.parse(target), JSON.parse(patch))).toEqual(JSON.parse(merged));
});

test('the example of RFC 7396 section 3 comes out as it says', () => {
  const target = {
    title: 'Goodbye!',
    author: { givenName: 'John', familyName: 'Doe' },
    tags: ['example', 'sample'],
    content: 'This will be unchanged',
  };
  const patch = {
    title: 'Hello!',
    phoneNumber: '+01-123-456-7890',
    author: { familyName: null },
    tags: ['example'],
  };
  expect(mergePatch(target, patch)).toEqual({
    title: 'Hello!',
    author: { givenName: 'John' },
    tags: ['example'],
    content: 'This will be unchanged',
    phoneNumber: '+01-123-456-7890',
  });
});

test('what is merged is a copy, and keys that mean something to the language are only keys', () => {
  const target: JsonObject = { a: { b: 1 } };
  const merged = mergePatch(target, JSON.parse('{"__proto__":{"x":1},"a":{"c":2}}'));
  expect(target).toEqual({ a: { b: 1 } });
  expect(Object.keys(merged).sort()).toEqual(['__proto__', 'a']);
  expect(({} as { x?: number }).x).toBeUndefined();
});

function problemOf(run: () => unknown): Problem {
  try {
    run();
  } catch (error) {
    if (error instanceof Problem) return error;
    throw error;
  }
  throw new Error('nothing was wrong');
}

describe('If-Match', () => {
  test.each([
    ['"a"', true],
    ['*', true],
    [' * ', true],
    ['"b", "a"', true],
    ['"b" ,"a" ', true],
    ['W/"a"', false],
    ['"b", W/"a"', false],
    ['a', false],
    ['"A"', false],
    ['"a" "b"', false],
    ['', false],
  ])('%s against "a": %s', (header, matches) => {
    expect(matchesEtag(header, '"a"')).toBe(matches);
  });
});

describe('a tag', () => {
  test('is the same for the same record and version, and no other', () => {
    const tags = [
      etagOf({ a: 1 }),
      etagOf({ a: 2 }),
      etagOf({ a: 1 }, 1),
      etagOf({ a: 1 }, 2),
      etagOf({ a: '1' }),
    ];
    expect(new Set(tags).size).toBe(5);
    expect(etagOf({ a: 1 }, 2)).toBe(tags[3]);
    for (const tag of tags) expect(tag).toMatch(/^"[\w-]{22}"$/);
  });
});

describe('what differs between two records', () => {
  test.each([
    [{ a: 1 }, { a: 1 }, []],
    [{ a: 1, b: { c: 2, d: 3 } }, { a: 2, b: { c: 2, d: 4 } }, ['a', 'b.d']],
    [{ a: ['x', 'y'] }, { a: ['x', 'z', 'w'] }, ['a[1]', 'a[2]']],
    [{ a: [{ u: 1 }, { u: 2 }] }, { a: [{ u: 1 }] }, ['a[1]']],
    [{ a: [{ u: 1 }] }, { a: [{ u: 2 }] }, ['a[0].u']],
    [{ a: 1 }, { b: 1 }, ['a', 'b']],
    [{ a: { b: 1 } }, { a: null }, ['a']],
    [{ a: { set: true } }, { a: { set: true, hint: 'x' } }, ['a.hint']],
    [undefined, { a: 1 }, ['']],
  ])('%j and %j: %j', (before, after, paths) => {
    expect(differingPaths(before, after)).toEqual(paths);
  });
});

describe('a record that was changed since it was read', () => {
  const record = { kind: 'source', name: 'site' } as const;
  const trail = (...entries: AuditEntry[]): Pick<RecordDependencies, 'settings'> => ({
    settings: { audit: async () => ({ entries }) } as unknown as RecordDependencies['settings'],
  });
  const stale = { ifMatch: '"old"', tag: '"new"' };

  test('is not changed, and whoever tries is told what was changed, by whom and when', async () => {
    const changed: AuditEntry = {
      ...record,
      at: 0,
      by: 'ann',
      action: 'changed',
      before: { mode: 'standard' },
      after: { mode: 'strict' },
    };
    await expect(refuseStale(stale, record, trail(changed))).rejects.toMatchObject({
      code: 'changed_meanwhile',
      errors: [{ path: 'mode', message: 'was changed by ann at 1970-01-01T00:00:00.000Z' }],
    });
  });

  test('is told to be changed where only a secret was, which nobody sees', async () => {
    const shown = { sharedSecret: { set: true } };
    const changed: AuditEntry = {
      ...record,
      at: 0,
      by: 'ann',
      action: 'changed',
      before: shown,
      after: shown,
    };
    await expect(refuseStale(stale, record, trail(changed))).rejects.toMatchObject({
      errors: [
        { path: 'settings', message: 'has a secret that was changed by ann at 1970-01-01T00:00:00.000Z' },
      ],
    });
  });

  test('is not changed either where nothing is known of it', async () => {
    await expect(refuseStale(stale, record, trail())).rejects.toMatchObject({ errors: undefined });
  });

  test('may be changed by whoever did not read it, or read it as it is', async () => {
    for (const ifMatch of [undefined, '"new"']) {
      await expect(refuseStale({ ifMatch, tag: '"new"' }, record, trail())).resolves.toBeUndefined();
    }
  });
});

describe('one record among the others', () => {
  const source = (name: string, key = `wk_${name}`) => ({
    ...({ name, writeKeys: [key], enabled: true, mode: 'standard', whenDisabled: 'refuse' } as const),
  });
  const now: SettingsSnapshot = {
    sources: [
      { ...source('site'), id: 1 },
      { ...source('app'), id: 2 },
    ],
    destinations: [],
    alerts: [],
    tokens: [],
    replays: [],
    splits: [],
    audiences: [],
    traits: [],
    gone: { sources: [], destinations: [], audiences: [], traits: [] },
  };
  const check = (record: object, snapshot = now) =>
    checkRecord('sources', record as never, { now: snapshot, check: checkRecords });

  test('is checked as the file is, with its defaults', () => {
    expect(check({ name: 'new', writeKeys: ['wk_new'] })).toEqual(source('new'));
    expect(check({ name: 'app', writeKeys: ['wk_app'], mode: 'strict' })).toEqual({
      ...source('app'),
      mode: 'strict',
    });
  });

  test('is told what is wrong with it by its path in the body', () => {
    expect(problemOf(() => check({ name: 'new', writeKeys: [''], colour: 'red' })).errors).toEqual([
      { path: 'body.writeKeys[0]', message: expect.stringContaining('must be text') },
      { path: 'body.colour', message: expect.stringContaining('is not a known key') },
    ]);
    expect(problemOf(() => check({ name: 'new', writeKeys: ['wk_site'] })).errors).toEqual([
      { path: 'body.writeKeys[0]', message: 'is also a write key of the source "site"' },
    ]);
    expect(problemOf(() => check({ name: 7 })).errors?.[0]?.path).toBe('body.name');
  });

  test('may be changed although another one would be refused today', () => {
    const older = { ...now, sources: [...now.sources, { ...source('old', 'a key with blanks'), id: 3 }] };
    expect(check({ name: 'new', writeKeys: ['wk_new'] }, older)).toEqual(source('new'));
    expect(problemOf(() => check({ name: '', writeKeys: ['wk_new'] }, older)).errors?.[0]?.path).toBe(
      'body.name',
    );
  });
});
