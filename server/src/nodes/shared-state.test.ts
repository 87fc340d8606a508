import { describe, expect, it } from 'vitest';
import { handClock } from '../../test/support/clock.ts';
import { SECOND } from '../model/time.ts';
import type { SharedChanges } from '../ports/nodes.ts';
import { SharedState } from './shared-state.ts';

describe('what a node knows of the others', () => {
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
