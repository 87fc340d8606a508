import { expect, it } from 'vitest';
import { SharedSync } from './shared-sync.ts';

/** Syncs that end when the test says so. */
function makeSyncs() {
  const under: PromiseWithResolvers<void>[] = [];
  const shared = new SharedSync(() => {
    under.push(Promise.withResolvers<void>());
    return under.at(-1)!.promise;
  });
  return { shared, under };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

it('lets commits wait for a sync that began after them, and share it', async () => {
  const { shared, under } = makeSyncs();
  const ended: string[] = [];
  const wait = (name: string) => shared.wait().then(() => ended.push(name));
  void wait('a');
  await turn();
  expect(under).toHaveLength(1);
  for (const name of ['b', 'c']) void wait(name);
  await turn();
  expect(under).toHaveLength(1);
  under[0]!.resolve();
  await turn();
  expect([ended, under.length]).toEqual([['a'], 2]);
  void wait('d');
  under[1]!.resolve();
  await turn();
  expect([ended, under.length]).toEqual([['a', 'b', 'c'], 3]);
});

it('tells all that waited for a sync that it failed, and syncs again for those behind them', async () => {
  const { shared, under } = makeSyncs();
  const first = shared.wait();
  await turn();
  const [second, third] = [shared.wait(), shared.wait()];
  under[0]!.reject(new Error('broken'));
  await expect(first).rejects.toThrow('broken');
  await turn();
  under[1]!.resolve();
  await Promise.all([second, third]);
});
