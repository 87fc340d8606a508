import { expect, test } from 'vitest';
import { ReusePolicy } from './reuse-policy.ts';

function answered(policy: ReusePolicy, times: number): ReusePolicy {
  for (let nth = 0; nth < times; nth++) policy.answered();
  return policy;
}

test('one connection is used again at first, then twice as many with each answer, then all', () => {
  const policy = new ReusePolicy();
  const most = Array.from({ length: 12 }, () => {
    const now = policy.most(0);
    policy.answered();
    return now;
  });
  expect(most).toEqual([...[1, 2, 4, 8, 16, 32, 64, 128, 256, 512], Infinity, Infinity]);
  expect(policy.isTrusted).toBe(true);
});

test('a loss ends all use at once, for longer after each relapse, and 30 s at most', () => {
  const policy = new ReusePolicy();
  const waits: number[] = [];
  let now = 1000;
  for (let nth = 0; nth < 10; nth++) {
    answered(policy, 1);
    policy.closed(now, 0, true);
    expect([policy.most(now), policy.isUnproven(now)]).toEqual([0, false]);
    const from = now;
    while (policy.most(now) === 0) now += 50;
    waits.push(now - from);
    expect([policy.most(now), policy.isUnproven(now)]).toEqual([1, true]);
  }
  expect(waits).toEqual([250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
});

test('a connection that is closed at once behind its answer tells as much as a loss', () => {
  const policy = new ReusePolicy();
  policy.closed(1000, 3, false);
  expect(policy.most(1000)).toBe(0);
});

test('one loss in twenty is borne, one in ten is not', () => {
  for (const [between, isBorne] of [
    [25, true],
    [9, false],
  ] as const) {
    const policy = new ReusePolicy();
    let refused = 0;
    for (let nth = 0; nth < 50; nth++) {
      answered(policy, between);
      policy.closed(1000, 0, true);
      if (policy.most(1000) === 0) refused++;
    }
    expect(refused === 0).toBe(isBorne);
  }
});

test('a restart of the receiver that closes every connection once costs a moment and not more each time', () => {
  const policy = answered(new ReusePolicy(), 100);
  for (const now of [1000, 100_000, 200_000]) {
    for (let nth = 0; nth < 64; nth++) policy.closed(now, 0, true);
    expect([policy.most(now), policy.most(now + 250)]).toEqual([0, 1]);
    answered(policy, 100);
  }
});

test('the receiver closing idle connections shortens how long they lie, and outliving that lengthens it', () => {
  const policy = new ReusePolicy();
  expect(policy.longestIdle).toBe(Infinity);
  policy.closed(10_000, 5003, false);
  expect([policy.longestIdle, policy.most(10_000)]).toEqual([4500, 1]);
  policy.closed(20_000, 600, false);
  expect(policy.longestIdle).toBe(250);
  const limits: number[] = [];
  for (let nth = 0; nth < 20; nth++) {
    policy.outlived(policy.longestIdle);
    limits.push(policy.longestIdle);
  }
  expect(limits.slice(0, 3)).toEqual([500, 750, 1000]);
  expect(limits.at(-1)).toBeGreaterThan(30_000);
});
