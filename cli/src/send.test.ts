import { expect, it } from 'vitest';
import { whyNot } from './send.ts';

it('the reason why a call was not stored is what the server said, and not that nobody waits any longer', () => {
  const message = 'the client is closed (503: storage_unavailable: The events cannot be stored now.)';
  expect(whyNot({ code: 'closed', message, tries: 4 })).toBe(
    'in 10 s and 4 tries; the last answer: 503: storage_unavailable: The events cannot be stored now',
  );
  expect(whyNot({ code: 'refused', message: 'the server refused it (401: invalid_write_key)' })).toBe(
    '(refused): the server refused it (401: invalid_write_key)',
  );
});
