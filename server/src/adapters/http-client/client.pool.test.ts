import { expect, test } from 'vitest';
import { type ClosedConnection, ReusePolicy } from './client.ts';

const lost = (carried: number, more: Partial<ClosedConnection> = {}) => ({
  ...{ carried, idle: 0, isLoss: true, isProbe: true },
  ...more,
});

/** Answers that must come before a further request is risked. */
function priceOf(policy: ReusePolicy): number {
  let answers = 0;
  for (; !policy.mayProbe; answers++) policy.answered(1);
  return answers;
}

test('a connection may carry what another one has carried, and all may when one has carried 64', () => {
  const policy = new ReusePolicy();
  expect([policy.mayReuse(1), policy.mayProbe, policy.isUnproven]).toEqual([false, true, true]);
  for (let carried = 1; carried < 64; carried++) {
    policy.answered(carried);
    expect([policy.mayReuse(carried - 1), policy.mayReuse(carried)]).toEqual([true, false]);
  }
  policy.answered(64);
  expect([policy.isTrusted, policy.mayReuse(1), policy.mayReuse(1_000_000)]).toEqual([true, true, true]);
});

test('a loss lowers what connections may carry, and puts off the next test for longer each time', () => {
  const policy = new ReusePolicy();
  const prices: number[] = [];
  for (let nth = 0; nth < 10; nth++) {
    policy.answered(3);
    policy.closed(lost(3));
    expect([policy.mayReuse(2), policy.mayReuse(3)]).toEqual([true, false]);
    prices.push(priceOf(policy));
  }
  expect(prices).toEqual([20, 40, 80, 160, 320, 640, 1280, 2560, 2560, 2560]);
});

test('a connection that is closed at once behind its answer tells as much as a loss', () => {
  const policy = new ReusePolicy();
  policy.answered(5);
  policy.closed(lost(2, { isLoss: false, idle: 3 }));
  expect([policy.mayReuse(1), policy.mayReuse(2), policy.mayProbe]).toEqual([true, false, false]);
});

test('what is lost after more than 64 requests is borne', () => {
  const policy = new ReusePolicy();
  policy.answered(64);
  for (let nth = 0; nth < 100; nth++) policy.closed(lost(64 + nth));
  expect(policy.isTrusted).toBe(true);
});

test('a restart of the receiver that closes many connections at once counts once', () => {
  const policy = new ReusePolicy();
  for (let nth = 0; nth < 3; nth++) {
    policy.answered(64);
    for (let carried = 63; carried > 10; carried--) policy.closed(lost(carried, { isProbe: false }));
    expect([policy.mayReuse(10), policy.mayReuse(11), priceOf(policy)]).toEqual([true, false, 20]);
  }
});

test('the receiver closing idle connections shortens how long they lie, and outliving that lengthens it', () => {
  const policy = new ReusePolicy();
  expect(policy.longestIdle).toBe(Infinity);
  policy.closed(lost(1, { idle: 5003, isLoss: false }));
  expect([policy.longestIdle, policy.mayProbe]).toEqual([4500, true]);
  policy.closed(lost(1, { idle: 600, isLoss: false }));
  expect(policy.longestIdle).toBe(250);
  const limits: number[] = [];
  for (let nth = 0; nth < 20; nth++) {
    policy.idleExpired(policy.longestIdle);
    limits.push(policy.longestIdle);
  }
  expect(limits.slice(0, 3)).toEqual([500, 750, 1000]);
  expect(limits.at(-1)).toBeGreaterThan(30_000);
});
