import { describe, expect, it } from 'vitest';
import { reasonSentence, resultWord } from './reasons.ts';

describe('a reason', () => {
  it('is a sentence with something to do, also for a status nobody thought of', () => {
    expect(reasonSentence('certificate_untrusted')).toContain('Renew it. Nothing was sent.');
    expect(reasonSentence('status_401')).toContain('credentials');
    expect(reasonSentence('status_502')).toContain('asked again');
    expect(reasonSentence('status_301')).toContain('not followed');
    expect(reasonSentence('status_418')).toContain('refuses');
    expect(reasonSentence('something_new')).toBe('The reason is something_new.');
  });

  it('is a word beside its bar', () => {
    expect([resultWord('status_503', 503), resultWord('connection_refused')]).toEqual([
      '503',
      'connection refused',
    ]);
  });
});
