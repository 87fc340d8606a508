import { expect, test } from 'vitest';
import type { Problem } from './problem.ts';
import { TestLimit } from './test-limit.ts';

test('ten tests go out in a minute, and the next one is told when', () => {
  let now = 0;
  const limit = new TestLimit({ monotonic: () => now });
  const refusal = () => {
    try {
      limit.take();
      return undefined;
    } catch (error) {
      return error as Problem;
    }
  };
  for (let nth = 0; nth < 10; nth++) {
    now = nth * 1000;
    expect(refusal()).toBeUndefined();
  }
  now = 10_500;
  expect(refusal()).toMatchObject({ code: 'too_many_tests', status: 429, retryAfter: 50 });
  now = 59_999;
  expect(refusal()).toMatchObject({ retryAfter: 1 });
  now = 60_000;
  expect(refusal()).toBeUndefined();
  // One place was free, and no more.
  expect(refusal()).toMatchObject({ retryAfter: 1 });
});
