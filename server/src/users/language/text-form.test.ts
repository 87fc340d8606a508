import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { audienceConditions, traitAggregates } from '../../../test/support/random-definitions.ts';
import type { Condition, EventAggregate } from '../../model/definition.ts';
import { MAX_PROBLEMS } from '../../model/input-limits.ts';
import { DAY } from '../../model/time.ts';
import { formatDefinition } from './format.ts';
import { readAudience, readTrait } from './json-form.ts';
import { type ParsedDefinition, parseAudience, parseTrait } from './text-form.ts';

function definitionOf<Of>(parsed: ParsedDefinition<Of>): Of {
  if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems));
  return parsed.definition;
}

/** Every mistake as `line:column message`. */
function problemsOf(parsed: ParsedDefinition<Condition | EventAggregate>): string[] {
  if (!('problems' in parsed)) throw new Error('the definition was accepted');
  return parsed.problems.map(({ line, column, message }) => `${line}:${column} ${message}`);
}

describe('a condition', () => {
  it('has the form of the contract', () => {
    const text =
      "event('Order Completed').where(property('total') >= 100).within(7 days).count() >= 2 and trait('plan') = 'pro'";
    expect(definitionOf(parseAudience(text))).toEqual({
      op: 'and',
      conditions: [
        {
          op: '>=',
          value: {
            op: 'event',
            type: 'track',
            name: 'Order Completed',
            where: { op: '>=', value: { op: 'property', name: 'total' }, to: 100 },
            within: 7 * DAY,
            reduce: { op: 'count' },
          },
          to: 2,
        },
        { op: '=', value: { op: 'trait', name: 'plan' }, to: 'pro' },
      ],
    });
  });

  it.each([
    ["trait('a') == 1", "trait('a') = 1"],
    ["event('A')", "event('A').count() >= 1"],
    ["  page('Home')\n  .within( 1 day )\t", "page('Home').within(1 day).count() >= 1"],
    ["page('').count() > 2", "page('').count() > 2"],
    ["screen('')", "screen('').count() >= 1"],
    ["screen('S').within(7200 seconds).count() = 0", "screen('S').within(2 hours).count() = 0"],
    ["trait('a') in (1,'x',true)", "trait('a') in (1, 'x', true)"],
    ["((trait('a') exists))", "trait('a') exists"],
    ["trait('a') = 'it''s'", "trait('a') = 'it''s'"],
    ["trait('a') > -1.50e2", "trait('a') > -150"],
    ["trait('a') = -0", "trait('a') = 0"],
    [
      "event('A').within(1 day).where(trait('p') = 1)",
      "event('A').where(trait('p') = 1).within(1 day).count() >= 1",
    ],
  ])('%s is written %s', (text, written) => {
    expect(formatDefinition(definitionOf(parseAudience(text)))).toBe(written);
  });

  it('binds not tighter than and, and and tighter than or', () => {
    const [a, b, c] = ['a', 'b', 'c'].map((id): Condition => ({ op: 'group', id })) as [
      Condition,
      Condition,
      Condition,
    ];
    const parsed = (text: string) => definitionOf(parseAudience(text));
    expect(parsed("group('a') or group('b') and group('c')")).toEqual({
      op: 'or',
      conditions: [a, { op: 'and', conditions: [b, c] }],
    });
    expect(parsed("not group('a') and group('b')")).toEqual({
      op: 'and',
      conditions: [{ op: 'not', condition: a }, b],
    });
    expect(parsed("not (group('a') and group('b'))")).toEqual({
      op: 'not',
      condition: { op: 'and', conditions: [a, b] },
    });
    expect(parsed("not trait('x') = 1")).toEqual({
      op: 'not',
      condition: { op: '=', value: { op: 'trait', name: 'x' }, to: 1 },
    });
  });
});

describe('a mistake in a condition is named with its place and a way out:', () => {
  test.each([
    [
      "trait('plan') = pro",
      "1:17 expected text in single quotes, a number, true or false behind =, found pro; write 'pro'",
    ],
    ["evnt('A').count() >= 2", '1:1 evnt is not known; did you mean event?'],
    [
      "event('A').cuont() >= 2",
      '1:12 expected a word such as where, within or count behind the dot, found cuont; did you mean count?',
    ],
    ["event('A').count( >= 2", '1:19 expected ) behind count(, found >='],
    ["trait('a') == 1 == 2", '1:17 expected and, or, or the end, found =='],
    ["event('A').within(7 dogs).count() > 1", '1:21 expected seconds, minutes, hours or days, found dogs'],
    ["event('A').within(0 days)", '1:19 expected a time such as 7 days, found 0'],
    ["event('A').within(9999 days)", '1:19 a time is at most 3650 days'],
    [
      "trait('a') = -9007199254740993",
      "1:14 a whole number of so many digits is kept as text: write it in quotes, '-9007199254740993'",
    ],
    ["trait('a) = 1", "1:7 this text has no closing quote; a quote inside a text is written twice: 'it''s'"],
    ["group('a') &&\n group('b')", '1:12 && is not part of the language: write and'],
    ["group('a')\nAND group('b')", '2:1 expected and, or, or the end, found AND; did you mean and?'],
    ["trait('a') = null", '1:14 every comparison with null is false; write not … exists'],
    [
      "trait('a') = trait('b')",
      '1:14 two values cannot be compared with each other: expected text in single quotes, a number, true or false behind =',
    ],
    [
      "3 < trait('a')",
      "1:1 a comparison begins with a value such as trait('plan'), found 3; turn the comparison round",
    ],
    ["trait('a')", "1:11 expected a comparison behind trait('a'), such as = 'pro' or exists, found the end"],
    ['exists', "1:1 exists stands behind a value: trait('plan') exists"],
    [
      "audience('a') = true",
      '1:15 an audience is true or false by itself: expected and, or, or the end, found =',
    ],
    [
      "event('a').sum(property('b'))",
      '1:30 expected a comparison such as >= 100 behind sum(…), found the end',
    ],
    ["event('a') >= 3", '1:12 expected .count() or another value of these events before the comparison'],
    ["event('a').sum('b') > 3", "1:16 expected a property: write sum(property('b'))"],
    [
      "event('a').where(group('x')).count() > 1",
      '1:18 group(…) cannot stand in where(…): write … and group(…) behind the events',
    ],
    [
      "event('a').where(event('b')).count() > 1",
      '1:18 events cannot stand in where(…): write … and event(…) behind these events',
    ],
    [
      "property('a') = 1",
      "1:1 a property belongs to an event: write event('Name').where(property(…) …), or trait(…) for a trait of the user",
    ],
    ["event('a').count() = 'x'", '1:20 a number is compared with a number, not with a text'],
    [
      "event('a').count() >= 0",
      '1:20 a number of events is always at least 0: for at least one event write >= 1',
    ],
    ["event('a').count() = 1.5", '1:20 a number of events is a whole number from 0, never 1.5'],
    ["event('a').unique(property('b')) = 'x'", '1:34 a list is asked for one of its entries: write contains'],
    ["trait('a') < true", '1:12 true has no order: write = or !='],
    [
      "event('a').within(90 minutes).sum(property('b')) > 3",
      '1:1 the window of sum moves in whole hours: write within(2 hours)',
    ],
    [
      "event('a').within(90 minutes).count() > 65",
      '1:1 the window of a count that is compared with more than 64 moves in whole hours: write within(2 hours)',
    ],
    ["event('')", '1:7 expected a name, found an empty text'],
    ['', "1:1 expected event('Name'), trait('name'), audience('name') or another condition, found the end"],
  ])('%s', (text, problem) => {
    expect(problemsOf(parseAudience(text))).toEqual([problem]);
  });

  it('several of them in one pass', () => {
    const text = "evnt('a') and (trait('x') wat 5 or group('g')) or 3 < trait('x') and group('h')";
    expect(problemsOf(parseAudience(text)).map((one) => one.split(' ')[0])).toEqual(['1:1', '1:27', '1:51']);
  });

  it('at most so many as an answer lists', () => {
    const text = Array.from({ length: 100 }, () => 'wat').join(' and ');
    expect(problemsOf(parseAudience(text))).toHaveLength(MAX_PROBLEMS);
  });
});

describe('a computed trait', () => {
  it('is a value of events', () => {
    const text = "event('A').where(property('total') >= 20).within(30 days).sum(property('total'))";
    expect(formatDefinition(definitionOf(parseTrait(text)))).toBe(text);
  });

  it.each([
    [
      "event('A')",
      "1:11 expected a value of these events, such as .count() or .sum(property('total')), found the end",
    ],
    [
      "event('A').count() > 3",
      '1:20 a computed trait is a value, not a condition: expected the end, found >',
    ],
    [
      "trait('x')",
      "1:1 a computed trait begins with event('Name'), page('Name') or screen('Name'), found trait",
    ],
    [
      "event('a').within(30 minutes).count()",
      '1:1 the window of a count that is a trait moves in whole hours: write within(1 hour)',
    ],
  ])('%s is refused', (text, problem) => {
    expect(problemsOf(parseTrait(text))).toEqual([problem]);
  });
});

describe('what is too much is refused at once:', () => {
  it.each([
    [
      'a megabyte of text',
      "group('a') and ".repeat(70_000),
      'has 1050000 characters, and at most 16384 are allowed',
    ],
    [
      'ten thousand parentheses',
      '('.repeat(10_000),
      'is nested more than 20 levels deep; make a part of it an audience of its own',
    ],
    [
      'two thousand times not',
      'not '.repeat(2000),
      'is nested more than 20 levels deep; make a part of it an audience of its own',
    ],
    [
      '51 conditions',
      Array.from({ length: 51 }, () => "group('a')").join(' or '),
      'is one value too many: a definition has at most 50; make a part of it an audience of its own',
    ],
  ])('%s', (_, text, message) => {
    const parsed = parseAudience(text);
    expect('problems' in parsed && parsed.problems[0]?.message).toBe(message);
  });

  it('fifty conditions are not too many', () => {
    const text = Array.from({ length: 50 }, () => "group('a')").join(' or ');
    expect(formatDefinition(definitionOf(parseAudience(text)))).toBe(text);
  });
});

describe('any definition', () => {
  /** Random ones may be too large, which both forms must say alike. */
  const check = <Of extends Condition | EventAggregate>(
    definition: Of,
    parse: (text: string) => ParsedDefinition<Of>,
    read: (json: unknown) => object,
  ) => {
    const fromJson = read(JSON.parse(JSON.stringify(definition)));
    if ('problems' in fromJson) {
      expect(JSON.stringify(fromJson.problems)).toMatch(/too many|so many|levels deep/);
      return;
    }
    expect(fromJson).toMatchObject({ definition });
    expect(definitionOf(parse(formatDefinition(definition)))).toEqual(definition);
  };

  it('of an audience is the same after it was written and read', () => {
    fc.assert(
      fc.property(audienceConditions, (one) => check(one, parseAudience, readAudience)),
      { numRuns: 500 },
    );
  });

  it('of a trait is the same after it was written and read', () => {
    fc.assert(
      fc.property(traitAggregates, (one) => check(one, parseTrait, readTrait)),
      { numRuns: 300 },
    );
  });

  it('that a typing mistake changes is read, or refused at a place in it', () => {
    const strokes = fc.array(
      fc.record({
        at: fc.nat(),
        remove: fc.integer({ min: 0, max: 5 }),
        add: fc.oneof(
          fc.constantFrom(
            '(',
            ')',
            "'",
            '.',
            ' and ',
            ' or ',
            ' not ',
            '>=',
            ',',
            '-',
            '7',
            'where(',
            '\ud800',
          ),
          fc.string({ maxLength: 3 }),
        ),
      }),
      { minLength: 1, maxLength: 4 },
    );
    const either = fc.oneof(audienceConditions, traitAggregates);
    fc.assert(
      fc.property(either, strokes, (definition, edits) => {
        let text = formatDefinition(definition);
        for (const { at, remove, add } of edits) {
          const place = at % (text.length + 1);
          text = text.slice(0, place) + add + text.slice(place + remove);
        }
        for (const parsed of [parseAudience(text), parseTrait(text)]) {
          if (!('problems' in parsed)) continue;
          expect(parsed.problems.length).toBeGreaterThan(0);
          const lines = text.split('\n');
          for (const { message, line, column } of parsed.problems) {
            expect(message).not.toBe('');
            expect(column).toBeGreaterThan(0);
            expect(column).toBeLessThanOrEqual((lines[line - 1] ?? '').length + 1);
          }
        }
      }),
      { numRuns: 1000 },
    );
  });
});
