import { expect, test } from 'vitest';
import { ApiError, problem, sentence } from './client.ts';

test.each([
  [
    'There is no record of this name. "x" is no source; GET /api/v1/sources lists them.',
    'There is no record of this name. "x" is no source.',
  ],
  [
    'Another backup is being made. Wait for its end; GET /api/v1/backups shows how far it is.',
    'Another backup is being made. Wait for its end.',
  ],
  ['Nothing is wrong. Go on.', 'Nothing is wrong. Go on.'],
])('what programs may ask for is no word of a page: %s', (detail, shown) => {
  expect(problem({ detail, code: 'unknown_name' }, 404).message).toBe(shown);
});

test('a refusal names its fields as the record does', () => {
  const fields = [{ path: 'body.settings.rateLimit', message: 'must be a number' }];
  expect(sentence(new ApiError('Refused.', { fields }))).toBe(
    'Refused. settings.rateLimit: must be a number',
  );
});
