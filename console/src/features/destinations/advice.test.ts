import { describe, expect, it } from 'vitest';
import catalogue from '../../../../spec/errors.json' with { type: 'json' };
import { adviceFor } from './advice.ts';

describe('advice about a reason', () => {
  it('says what to do about each reason that the catalogue of errors has', () => {
    for (const list of [catalogue.outcome, catalogue.dead, catalogue.discard, catalogue.skip])
      for (const [reason, entry] of Object.entries(list))
        expect(adviceFor(reason)).toEqual({ cause: entry.message, action: entry.hint });
  });

  it.each([
    ['status_302', /redirects are not followed/, /into the URL/],
    ['status_410', /gone for good/, /redeliver/],
    ['status_418', /status 418/, /redeliver/],
    ['status_429', /fewer requests/, /rateLimit/],
    ['status_500', /on its side/, /tried again/],
    ['status_503', /sheds load/, /Nothing is lost/],
    ['status_504', /proxy/, /tried again/],
  ])('has words of its own for %s', (reason, cause, action) => {
    expect(adviceFor(reason).cause).toMatch(cause);
    expect(adviceFor(reason).action).toMatch(action);
  });

  it('answers for a reason that a newer server has', () => {
    expect(adviceFor('constructor').cause).toMatch(/no words/);
  });
});
