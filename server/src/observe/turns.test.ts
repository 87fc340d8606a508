import { expect, it } from 'vitest';
import { Turns } from './turns.ts';

it('lets so many go on at once, the others in the order they came, whatever becomes of those before', async () => {
  const turns = new Turns(2);
  const begun: number[] = [];
  const ends: { resolve(value: string): void; reject(error: Error): void }[] = [];
  const take = (n: number) =>
    turns.take(() => {
      begun.push(n);
      return new Promise<string>((resolve, reject) => {
        ends[n] = { resolve, reject };
      });
    });
  const all = [take(0), take(1), take(2), take(3), take(4)];
  expect(begun).toEqual([0, 1]);
  ends[1]!.reject(new Error('the disk is gone'));
  await expect(all[1]).rejects.toThrow('the disk is gone');
  ends[0]!.resolve('first');
  expect(await all[0]).toBe('first');
  await Promise.resolve();
  expect(begun).toEqual([0, 1, 2, 3]);
  ends[2]!.resolve('third');
  ends[3]!.resolve('fourth');
  await Promise.all([all[2], all[3]]);
  ends[4]!.resolve('fifth');
  expect(await all[4]).toBe('fifth');
  expect(begun).toEqual([0, 1, 2, 3, 4]);
  const later = take(5);
  expect(begun).toContain(5);
  ends[5]!.resolve('sixth');
  expect(await later).toBe('sixth');
});
