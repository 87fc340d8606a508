import { describe, expect, it } from 'vitest';
import { handClock } from '../../test/support/clock.ts';
import { SECOND } from '../model/time.ts';
import type { Acknowledged, NodeToWaitFor } from '../ports/nodes.ts';
import { acknowledgedByAll } from './acknowledged.ts';

const LIMITS = { earlierVersion: 10 * SECOND, gone: 6 * SECOND };

/** A wait for erasures. The port tells what `left` has at each look. */
function waitFor(left: () => readonly NodeToWaitFor[], checkStop = () => {}) {
  const clock = handClock(100 * SECOND);
  const asked: Partial<Acknowledged>[] = [];
  const nodes = {
    changes: () =>
      Promise.resolve({
        settings: 1,
        suppressions: 3,
        erasures: 7,
        acknowledged: { suppressions: 3, erasures: 6 },
      }),
    toWaitFor: (now: Partial<Acknowledged>) => {
      asked.push(now);
      return Promise.resolve(left());
    },
  };
  let ended: string | undefined;
  acknowledgedByAll('erasures', LIMITS, { nodes, clock, checkStop }).then(
    () => (ended = 'all have'),
    (error: Error) => (ended = error.message),
  );
  return { clock, asked, ended: () => ended };
}

const BEHIND: NodeToWaitFor = { state: 'behind', name: 'b' };

describe('a wait for all nodes', () => {
  it('ends at once when nobody is left, and asked for the number of now', async () => {
    const { clock, asked, ended } = waitFor(() => []);
    await clock.settle();
    expect(ended()).toBe('all have');
    expect(asked).toEqual([{ erasures: 7 }]);
  });

  it('looks every 50 ms until the last node has acknowledged', async () => {
    let left = [BEHIND, { ...BEHIND, name: 'c' }];
    const { clock, asked, ended } = waitFor(() => left);
    await clock.pass(120);
    expect(asked).toHaveLength(3);
    left = [BEHIND];
    await clock.pass(50);
    expect(ended()).toBeUndefined();
    left = [];
    await clock.pass(50);
    expect(ended()).toBe('all have');
    expect(asked.every(({ erasures }) => erasures === 7)).toBe(true);
  });

  it('does not wait for a node that lost its lease longer ago than a request lasts', async () => {
    let goneFor = LIMITS.gone;
    const { clock, ended } = waitFor(() => [{ state: 'gone', goneFor }]);
    await clock.pass(20 * SECOND);
    expect(ended()).toBeUndefined();
    goneFor++;
    await clock.pass(50);
    expect(ended()).toBe('all have');
  });

  it('gives a node of an earlier version its time, and one of this version no such end', async () => {
    const earlier: NodeToWaitFor = { state: 'earlier_version', name: 'old' };
    let left: readonly NodeToWaitFor[] = [earlier];
    const { clock, ended } = waitFor(() => left);
    await clock.pass(LIMITS.earlierVersion);
    expect(ended()).toBeUndefined();
    left = [earlier, BEHIND];
    await clock.pass(5 * SECOND);
    expect(ended()).toBeUndefined();
    left = [earlier];
    await clock.pass(50);
    expect(ended()).toBe('all have');
  });

  it('fails after 30 s, and names the nodes that have their lease', async () => {
    const { clock, ended } = waitFor(() => [
      BEHIND,
      { state: 'gone', goneFor: 1 },
      { state: 'earlier_version', name: 'old' },
      { ...BEHIND, name: 'c' },
    ]);
    await clock.pass(30 * SECOND);
    expect(ended()).toBeUndefined();
    await clock.pass(50);
    expect(ended()).toBe(
      'a deletion waits for b, c, which has its lease and does not confirm that it knows of it: see its log, or restart it',
    );
  });

  it('ends when it is to stop', async () => {
    let isStopped = false;
    const { clock, ended } = waitFor(
      () => [BEHIND],
      () => {
        if (isStopped) throw new Error('stopped');
      },
    );
    await clock.pass(SECOND);
    expect(ended()).toBeUndefined();
    isStopped = true;
    await clock.pass(50);
    expect(ended()).toBe('stopped');
  });
});
