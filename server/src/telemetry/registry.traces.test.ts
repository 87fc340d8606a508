import { expect, it } from 'vitest';
import { RecentTraceparents } from './registry.ts';

it('the traces of the last ten thousand events are remembered, and no more', () => {
  const traceparents = new RecentTraceparents();
  expect(traceparents.get(1)).toBeUndefined();
  for (let position = 1; position <= 10_001; position++) traceparents.set(position, `trace ${position}`);
  expect([1, 2, 10_001, 10_002].map((position) => traceparents.get(position))).toEqual([
    undefined,
    'trace 2',
    'trace 10001',
    undefined,
  ]);
});
