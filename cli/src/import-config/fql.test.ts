import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { filterOfTrigger, isReadable } from './fql.ts';

describe('a condition of a filter', () => {
  it.each([
    'all',
    'event = "A"',
    "contains(context.page.url, '/test')",
    'contains ( event , "…" )',
    '!(event = "A" or type != "page")',
    'traits.env != null and properties.total >= -50.5',
    'length(properties.items) > 3 or !match(event, "a*")',
    'properties.sku in ["A", 1, true]',
    'userId in properties.ids',
    'properties.with\\ space = 1 and a-b.c_d = false',
    'lowercase(snakecase(event)) = "x"',
  ])('%s can be read', (text) => expect(isReadable(text)).toBe(true));

  it.each([
    'event = "oops',
    '',
    'event =',
    'event = "a" and',
    '(event = "a"',
    'event = "a")',
    'event = "a" "b"',
    'contains(event',
    'a in [1, 2',
    'event & "a"',
    'event == "a"',
    `${'('.repeat(100)}a${')'.repeat(100)}`,
    `event = "${'x'.repeat(30_000)}"`,
    undefined,
    5,
  ])('%s cannot', (text) => expect(isReadable(text)).toBe(false));

  it('is never an error of this program, whatever it is', () => {
    const parts = ['event', '=', '"a"', "'", '(', ')', '!', 'and', 'or', 'in', '[', ']', ',', '\\', '1'];
    const text = fc.array(fc.constantFrom(...parts), { maxLength: 15 }).map((some) => some.join(' '));
    fc.assert(
      fc.property(fc.oneof(text, fc.string()), (some) => {
        expect(typeof isReadable(some)).toBe('boolean');
      }),
    );
  });
});

describe('a trigger', () => {
  it.each([
    ['type = "track"', { types: ['track'] }],
    ['type = "track" or type = "identify"', { types: ['track', 'identify'] }],
    ['event = "A"', { types: ['track'], events: ['A'] }],
    ["(event = 'A' or event = 'B')", { types: ['track'], events: ['A', 'B'] }],
    ['type = "track" and event = "A"', { types: ['track'], events: ['A'] }],
    ['type = "track" and (event = "A" or event = "B")', { types: ['track'], events: ['A', 'B'] }],
    ['type = "identify" or event = "A"', { types: ['identify', 'track'], events: ['A'] }],
    ['type = "track" or event = "A"', { types: ['track'] }],
  ])('%s is a filter here', (trigger, filter) => expect(filterOfTrigger(trigger)).toEqual(filter));

  it.each([
    ['looks at more', 'event = "A" and properties.total >= 50'],
    ['negates', 'type != "track"'],
    ['negates', '!(type = "track")'],
    ['negates', '!type = "track"'],
    [
      'mixes both words, which has no meaning that both sides agree on',
      'type = "track" and event = "A" or event = "B"',
    ],
    ['is never true', 'type = "identify" and event = "A"'],
    ['is never true', 'event = "A" and event = "B"'],
    ['is never true', 'event = ""'],
    ['has a name that means several here', 'event = "A*"'],
    ['has no such type', 'type = "delete"'],
    ['has too many names', Array.from({ length: 101 }, (_, nth) => `event = "E${nth}"`).join(' or ')],
    ['cannot be read', 'event = "oops'],
    ['compares the other way round', '"track" = type'],
    ['is no text', undefined],
  ])('that %s is none: %s', (_, trigger) => expect(filterOfTrigger(trigger)).toBeUndefined());
});
