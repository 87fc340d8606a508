import { expect, test } from 'vitest';
import { closestWord } from './closest-word.ts';

test.each([
  ['webiste', ['website', 'web', 'app'], 'website'],
  ['Web-Site', ['website'], 'website'],
  ['ap', ['website', 'app', 'api'], 'app'],
  ['app', ['apps', 'app2', 'APP'], 'APP'],
  ['shop', ['website', 'crm'], undefined],
  ['', ['a', 'website'], 'a'],
  ['x'.repeat(33), ['x'.repeat(33)], undefined],
])('%s is close to one of %j: %s', (written, words, word) => {
  expect(closestWord(written, words)).toBe(word);
});

test('of many words only the first thousand are compared', () => {
  const words = function* () {
    for (let nth = 0; nth < 1000; nth++) yield `other-${nth}`;
    throw new Error('one more was asked for');
  };
  expect(closestWord('website', words())).toBe(undefined);
});
