import { describe, expect, it } from 'vitest';
import {
  fitsLine,
  idOfJson,
  idOfPathStep,
  parametersOf,
  parametersOfTyped,
  pathStepOf,
  typedOf,
} from './ids.ts';

describe('an id in an address', () => {
  it('stands as it is, with blanks and controls, and as JSON only where no address can carry it', () => {
    expect(parametersOf('userId', ' ann\u0000 ')).toEqual({ userId: ' ann\u0000 ' });
    expect(parametersOf('userId', '"ann"')).toEqual({ userId: '"ann"' });
    expect(parametersOf('anonymousId', 'mia-\ud83d')).toEqual({ anonymousIdJson: '"mia-\\ud83d"' });
  });

  it('is read back into the field that it was typed into', () => {
    for (const typed of [
      { kind: 'userId', text: '"ann"', isJson: false },
      { kind: 'anonymousId', text: '"mia-\\ud83d"', isJson: true },
    ] as const)
      expect(typedOf(parametersOfTyped(typed))).toEqual(typed);
    expect(typedOf({})).toEqual({ kind: 'userId', text: '', isJson: false });
  });
});

it.each([
  ['"mia-\\ud83d"', 'mia-\ud83d'],
  ['" pad "', ' pad '],
  ['ann', undefined],
  ['42', undefined],
  ['""', undefined],
])('%s as JSON text is the id %j', (text, id) => {
  expect(idOfJson(text)).toBe(id);
});

it('an id in a path is itself, and JSON text where a path cannot carry it', () => {
  const ids = ['ann', 'a/b ~', '~', '"', '~"', '~"x"', '.', '..', '...', 'mia-\ud83d', ''];
  const steps = ids.map(pathStepOf);
  expect(steps).toEqual([
    'ann',
    'a/b ~',
    '~',
    '"',
    '~"~\\""',
    '~"~\\"x\\""',
    '~"."',
    '~".."',
    '...',
    '~"mia-\\ud83d"',
    '',
  ]);
  expect(steps.map(idOfPathStep)).toEqual(ids);
  // By hand, or of an earlier version.
  expect(idOfPathStep('~"x')).toBe('~"x');
});

it('an id with a line end, a control or a half does not fit into a line', () => {
  expect(['ann', ' pad ', 'Zoë 👋'].map(fitsLine)).toEqual([true, true, true]);
  expect(['a\nb', 'a\u0000', 'mia-\ud83d', 'a\u2028b'].map(fitsLine)).toEqual([false, false, false, false]);
});
