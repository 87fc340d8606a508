import { describe, expect, it } from 'vitest';
import { confirmationOf, subjectsOf, textOf } from './subjects.ts';

describe('userIds of a field', () => {
  it('are its lines as they are, each once, blanks and quotes among them', () => {
    expect(subjectsOf({ text: ' u1 \r\nu1\n\n"u2"\nu1', isJson: false })).toEqual({
      ids: [' u1 ', 'u1', '"u2"'],
    });
  });

  it('as JSON text may be anything, and a line that is none is named', () => {
    expect(subjectsOf({ text: '"a\\nb"\n\n"mia-\\ud83d"', isJson: true }).ids).toEqual([
      'a\nb',
      'mia-\ud83d',
    ]);
    expect(subjectsOf({ text: '"a"\nb', isJson: true })).toMatchObject({
      ids: [],
      mistake: expect.stringMatching(/^Line 2 is no text of JSON/),
    });
  });

  it('come back from the field that was filled with them, also where one has a line end', () => {
    for (const ids of [['u1', ' u2 '], ['a\nb'], ['mia-\ud83d', 'ann']])
      expect(subjectsOf(textOf(ids)).ids).toEqual(ids);
    expect(textOf(['"ann"']).isJson).toBe(false);
  });
});

it('an id that nobody could type is confirmed as JSON text', () => {
  expect([confirmationOf('ann '), confirmationOf('a\nb')]).toEqual(['ann ', '"a\\nb"']);
});
