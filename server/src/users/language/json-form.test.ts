import { expect, test } from 'vitest';
import type { Condition, EventAggregate } from '../../model/definition.ts';
import { MAX_PROBLEMS } from '../../model/input-limits.ts';
import { type ReadDefinition, readAudience, readTrait } from './json-form.ts';

/** Every mistake as `path message`. */
function problemsOf(read: ReadDefinition<Condition | EventAggregate>): string[] {
  if (!('problems' in read)) throw new Error('the definition was accepted');
  return read.problems.map(({ path, message }) => `${path.join('.')} ${message}`);
}

const trait = { op: 'trait', name: 'plan' };
const event = { op: 'event', type: 'track', name: 'Order Completed', reduce: { op: 'count' } };
const group = { op: 'group', id: 'g' };

test.each<[string, unknown, string]>([
  ['is no mapping', 5, ' must be a mapping with the op of a condition'],
  [
    'has no op',
    {},
    'op must be the op of a condition: one of and, or, not, =, !=, <, <=, >, >=, contains, starts_with, ends_with, in, exists, audience, group',
  ],
  [
    'has an op that is close to one',
    { op: 'contain', value: trait, to: 'x' },
    'op must be the op of a condition; did you mean contains?',
  ],
  [
    'has a value that is close to one',
    { op: '=', value: { op: 'triat', name: 'a' }, to: 1 },
    'value.op must be the op of a value; did you mean trait?',
  ],
  [
    'compares with null',
    { op: '=', value: trait, to: null },
    'to must be a text, a number, true or false; null equals nothing',
  ],
  [
    'joins one condition',
    { op: 'and', conditions: [group] },
    'conditions must be a list of at least two conditions',
  ],
  [
    'has a key too many',
    { op: 'not', condition: { ...group, name: 'x' } },
    'condition.name is not a known key',
  ],
  [
    'has an empty name',
    { op: 'audience', name: '' },
    'name must be a text that is not empty, of whole Unicode characters',
  ],
  [
    'counts track calls without a name',
    { op: '>=', value: { ...event, name: '' }, to: 1 },
    "value a track call always has a name; page('') and screen('') are those without one",
  ],
  [
    'has half a character',
    { op: 'audience', name: '\ud800' },
    'name must be a text that is not empty, of whole Unicode characters',
  ],
  [
    'has an empty list',
    { op: 'in', value: trait, to: [] },
    'to must be a list of texts, numbers, true or false',
  ],
  [
    'has a number that stands for its neighbours too',
    { op: '=', value: trait, to: 2 ** 53 },
    'to is a whole number of so many digits that it is kept as text: write it in quotes',
  ],
  [
    'has a window of half seconds',
    { op: '>=', value: { ...event, within: 1500 }, to: 1 },
    'value.within must be a time in milliseconds, a whole number of seconds',
  ],
  [
    'has a window that is too long',
    { op: '>=', value: { ...event, within: 1e12 }, to: 1 },
    'value has a time of 1000000000000 milliseconds: it must be whole seconds, at most 3650 days',
  ],
  [
    'compares a count with a text',
    { op: 'or', conditions: [group, { op: '=', value: event, to: 'x' }] },
    'conditions.1 a number is compared with a number, not with a text',
  ],
  [
    'has a list that is too long',
    { op: 'in', value: trait, to: Array.from({ length: 101 }, (_, n) => n) },
    ' has 101 choices, and at most 100 are allowed',
  ],
  [
    'is too long as text',
    { op: '=', value: trait, to: 'x'.repeat(20_000) },
    ' has 20018 characters as text, and at most 16384 are allowed',
  ],
])('a condition that %s is refused', (_, json, problem) => {
  expect(problemsOf(readAudience(json))).toEqual([problem]);
});

test('a list of too many entries is refused before its entries are read', () => {
  const json = { op: 'or', conditions: Array.from({ length: 100_000 }, () => group) };
  expect(problemsOf(readAudience(json))).toEqual([
    'conditions has 100000 entries, and at most 1000 are allowed',
  ]);
});

test('what is nested too deeply is refused', () => {
  let json: unknown = group;
  for (let level = 0; level < 30; level++) json = { op: 'not', condition: json };
  const [problem, ...others] = problemsOf(readAudience(json));
  expect(problem).toMatch(/is nested more than 20 levels deep; make a part of it an audience of its own$/);
  expect(others).toEqual([]);
  for (let level = 0; level < 10_000; level++) json = { op: 'not', condition: json };
  expect(problemsOf(readAudience(json))).toEqual([' is nested more than 100 levels deep']);
});

test('at most so many mistakes are told as an answer lists', () => {
  const json = { op: 'or', conditions: Array.from({ length: 500 }, () => ({ op: 'wat' })) };
  expect(problemsOf(readAudience(json))).toHaveLength(MAX_PROBLEMS);
});

test('a computed trait is a value of events', () => {
  expect(problemsOf(readTrait(trait))[0]).toBe('op must be event: a computed trait is a value of events');
  expect(readTrait(event)).toMatchObject({ definition: event });
});
