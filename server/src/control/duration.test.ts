import fc from 'fast-check';
import { expect, test } from 'vitest';
import { duration } from '../config-values.ts';
import { durationText } from './duration.ts';

const schema = duration();

test.each([
  [604_800_000, '7d'],
  [86_400_000, '1d'],
  [90_000_000, '25h'],
  [5_400_000, '90m'],
  [60_000, '1m'],
  [61_000, '61s'],
  [250, '250ms'],
  [1001, '1001ms'],
])('%i ms are %s', (length, text) => {
  expect(durationText(length)).toBe(text);
});

test('whatever the configuration file can say comes back as the same duration', () => {
  const written = fc
    .tuple(fc.integer({ min: 1, max: 9_999_999 }), fc.constantFrom('ms', 's', 'm', 'h', 'd'))
    .map(([count, unit]) => `${count}${unit}`);
  fc.assert(
    fc.property(written, (text) => {
      const length = schema.parse(text);
      expect(schema.parse(durationText(length))).toBe(length);
    }),
  );
});
