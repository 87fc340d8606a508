import { describe, expect, it } from 'vitest';
import { handClock } from '../../test/support/clock.ts';
import { SECOND } from '../model/time.ts';
import type { SharedChanges } from '../ports/nodes.ts';
import { SharedState } from './shared-state.ts';

describe('what a node knows of the others', () => {
  it('is read again and again at a fifth of the time while suppressions change, and acknowledged as far as it was read', async () => {
    const clock = handClock(0);
    const none = { suppressions: 0, erasures: 0 };
    let made = 1;
    const read: number[] = [];
    const acknowledged: number[] = [];
    const shared = new SharedState({
      nodes: {
        changes: () => Promise.resolve({ ...none, settings: 1, suppressions: made, acknowledged: none }),
        erasedAfter: () => Promise.resolve([]),
        acknowledge: ({ suppressions }) => Promise.resolve(void acknowledged.push(suppressions!)),
        maySend: () => true,
      },
      reloadSettings: () => Promise.resolve(),
      // A million of them.
      reloadSuppressions: () => {
        read.push(made);
        return new Promise<void>((resolve) => clock.after(200, resolve));
      },
      callsStored: () => Promise.resolve(),
      dropErased: () => {},
      erasedForgotten: () => Promise.resolve(),
      adopt: () => Promise.resolve(0),
      lookAtDisk: () => Promise.resolve(),
      clock,
      logger: { info: () => {}, warn: () => {} },
    });
    shared.start();
    for (let nth = 0; nth < 100; nth++) {
      await clock.pass(100);
      made++;
    }
    // In ten seconds.
    expect(read.length).toBeGreaterThan(8);
    expect(read.length).toBeLessThan(12);
    await clock.pass(2 * SECOND);
    expect(read.at(-1)).toBe(made);
    expect(acknowledged.at(-1)).toBe(made);
    expect(acknowledged.every((number) => read.includes(number))).toBe(true);
    await shared.stop();
  });

  it('heeds suppressions and erasures while it cannot read the settings, and asks for these again', async () => {
    const clock = handClock(0);
    const none = { suppressions: 0, erasures: 0 };
    let changes: SharedChanges = { settings: 1, ...none, acknowledged: none };
    const events: string[] = [];
    let isReadable = true;
    const shared = new SharedState({
      nodes: {
        changes: () => Promise.resolve(changes),
        erasedAfter: (number) => Promise.resolve(number < changes.erasures ? [7] : []),
        acknowledge: () => Promise.resolve(),
        maySend: () => true,
      },
      reloadSettings: () => {
        events.push(isReadable ? 'settings' : 'unreadable');
        return isReadable ? Promise.resolve() : Promise.reject(new Error('no key'));
      },
      reloadSuppressions: () => Promise.resolve(events.push('suppressions')),
      callsStored: () => Promise.resolve(),
      dropErased: (positions) => events.push(`erased ${positions}`),
      erasedForgotten: () => Promise.resolve(),
      adopt: () => Promise.resolve(events.push('adopt')).then(() => 0),
      lookAtDisk: () => Promise.resolve(),
      clock,
      logger: { info: () => {}, warn: (_, event) => events.push(String(event)) },
    });
    shared.start();
    await clock.settle();
    events.length = 0;
    isReadable = false;
    changes = { settings: 2, suppressions: 1, erasures: 1, acknowledged: none };
    await clock.pass(4 * SECOND);
    expect(new Set(events)).toEqual(
      new Set(['unreadable', 'suppressions', 'erased 7', 'nodes.not_followed', 'adopt']),
    );
    expect(events.filter((one) => one === 'nodes.not_followed')).toHaveLength(1);
    events.length = 0;
    isReadable = true;
    await clock.pass(SECOND);
    expect(events).toContain('settings');
    await shared.stop();
  });
});
