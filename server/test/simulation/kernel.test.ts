import { expect, it } from 'vitest';
import { checkThatPromisesSettle, Kernel, newLife } from './kernel.ts';
import { Chance } from './random.ts';

/** Runs something outside of promises, where worlds live. */
function outside<Result>(run: () => Result): Promise<Result> {
  return new Promise((resolve, reject) => {
    setImmediate(() => {
      try {
        resolve(run());
      } catch (error) {
        reject(error as Error);
      }
    });
  });
}

const never = () => false;

it('runs tasks at their times, and timers of one time in their order', async () => {
  const kernel = new Kernel(1);
  const ran: string[] = [];
  const note = (name: string) => () => ran.push(`${name} at ${kernel.now}`);
  kernel.later(5, 'b', note('b'));
  kernel.later(2, 'a', note('a'));
  kernel.later(5, 'c', note('c'));
  const cancel = kernel.later(5, 'd', note('d'));
  cancel();
  kernel.later(9, 'e', note('e'));
  await outside(() => kernel.run(8, never));
  expect(ran).toEqual(['a at 2', 'b at 5', 'c at 5']);
  expect(kernel.now).toBe(8);
});

it('settles every promise before the next task', async () => {
  const kernel = new Kernel(1);
  const ran: string[] = [];
  kernel.later(1, 'first', () => {
    void Promise.resolve()
      .then(() => Promise.resolve())
      .then(() => ran.push('settled'));
  });
  kernel.later(1, 'second', () => ran.push('second'));
  await outside(() => {
    checkThatPromisesSettle();
    kernel.run(1, never);
  });
  expect(ran).toEqual(['settled', 'second']);
});

it('refuses to run where promises do not settle', async () => {
  await Promise.resolve();
  expect(checkThatPromisesSettle).toThrow('outside of promises');
});

it('forgets what a process has asked for when that dies, and puts it off while it stands still', async () => {
  const kernel = new Kernel(1);
  const ran: string[] = [];
  const [dying, still] = [newLife('dying'), newLife('still')];
  kernel.as(dying, () => kernel.after(3, 'late', () => ran.push('of the dead')));
  kernel.as(still, () => kernel.after(3, 'late', () => ran.push(`still at ${kernel.now}`)));
  kernel.arrive(4, still, 'answer', () => ran.push(`answer at ${kernel.now}`));
  dying.isOver = true;
  Object.assign(still, { stillUntil: 10, areSocketsFirst: true });
  await outside(() => kernel.run(20, never));
  expect(ran).toEqual(['answer at 10', 'still at 10']);
});

it('gives the same digest for the same things in the same order, and another for others', async () => {
  const digestOf = (seed: number) =>
    outside(() => {
      const kernel = new Kernel(seed);
      for (const name of ['a', 'b', 'c', 'd'])
        kernel.arrive(1, undefined, 'task', () => kernel.note('ran', name));
      kernel.run(1, never);
      return kernel.digest;
    });
  expect(await digestOf(7)).toBe(await digestOf(7));
  expect(new Set(await Promise.all([1, 2, 3, 4, 5].map(digestOf))).size).toBeGreaterThan(1);
});

it('draws the same chance for a seed and a purpose, and another for another purpose', () => {
  const draw = (seed: number, purpose: string) => {
    const chance = new Chance(seed, purpose);
    return Array.from({ length: 5 }, () => chance.below(1000));
  };
  expect(draw(3, 'ties')).toEqual(draw(3, 'ties'));
  expect(draw(3, 'ties')).not.toEqual(draw(3, 'network'));
  expect(draw(2 ** 33 + 3, 'ties')).not.toEqual(draw(3, 'ties'));
});
