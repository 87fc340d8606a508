import { describe, expect, it } from 'vitest';
import catalogue from '../../../../spec/errors.json' with { type: 'json' };
import { adviceFor, reasonSentence, resultWord } from './reasons.ts';

describe('a reason', () => {
  it.each(['outcome', 'dead', 'discard', 'skip'] as const)(
    'of the part %s says what the catalogue says',
    (part) => {
      for (const [reason, { message, hint }] of Object.entries(catalogue[part]))
        expect(adviceFor(reason)).toEqual({ cause: message, action: hint });
    },
  );

  it('is not explained by two parts of the catalogue', () => {
    const { outcome, dead, discard, skip } = catalogue;
    const reasons = [outcome, dead, discard, skip].flatMap((part) => Object.keys(part));
    expect(reasons).toEqual([...new Set(reasons)]);
  });

  it.each([
    ['status_302', /redirects, which is not followed.*Set the URL/],
    ['status_401', /key or signature.*redeliver/],
    ['status_408', /tried again/],
    ['status_418', /with this HTTP status/],
    ['status_500', /fails inside.*tried again/],
    ['status_504', /proxy.*tried again/],
    ['retry_window_over', /4 hours.*redeliver/],
  ])('%s is a sentence with something to do', (reason, sentence) => {
    expect(reasonSentence(reason)).toMatch(sentence);
  });

  it('of a newer server is named', () => {
    expect(adviceFor('constructor').cause).toMatch(/no words for the reason constructor/);
  });

  it('is a word beside its bar', () => {
    expect([resultWord('status_503', 503), resultWord('connection_refused')]).toEqual([
      '503',
      'connection refused',
    ]);
  });
});
