import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { batch, events } from '../../test/conformance/batches.ts';
import { START } from '../../test/conformance/harness.ts';
import { slice } from '../../test/conformance/profile-store.ts';
import { openMemoryLogReader } from '../../test/memory-store/log-reader.ts';
import { emptyProfiles, openMemoryProfiles } from '../../test/memory-store/profile-store.ts';
import { emptyContents, type MemoryContents, openMemoryStore } from '../../test/memory-store/store.ts';
import { handClock } from '../../test/support/clock.ts';
import { until } from '../../test/support/until.ts';
import { createSystemClock } from '../adapters/system/clock.ts';
import { StorageError } from '../ports/event-log.ts';
import type { ProfileStore } from '../ports/profile-store.ts';
import type { Store } from '../ports/store.ts';
import type { Preview } from '../ports/users.ts';
import {
  DEFAULT_IDENTITY_SETTINGS,
  KEEP_PROFILES,
  NO_COUNTS,
  type UsersProcessor,
  type UsersProgress,
  type UsersSettings,
} from './contract.ts';
import { UsersService, type UsersServiceDependencies } from './service.ts';

const SETTINGS: UsersSettings = {
  computations: [],
  identities: DEFAULT_IDENTITY_SETTINGS,
  serverSources: [],
  hearing: ['crm', 'warehouse'],
  retention: KEEP_PROFILES,
};
const SILENT = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

/** Faults that a test may cause. */
interface Faults {
  /** The error with which slices fail. */
  slice?: Error;
  /** Why the file cannot be opened. */
  open?: Error;
  /** Called while a slice is at work. */
  meanwhile?: () => Promise<void>;
}

describe('the service of the users thread', () => {
  let contents: MemoryContents;
  let log: Store;
  let faults: Faults;
  let service: UsersService;
  let running: Promise<void>;
  let reports: UsersProgress[];
  let calls: string[];
  let profiles = emptyProfiles();
  let previewing: PromiseWithResolvers<Preview>;

  beforeEach(() => {
    contents = emptyContents();
    log = openMemoryStore({ contents });
    profiles = emptyProfiles();
    previewing = Promise.withResolvers();
    faults = {};
    reports = [];
    calls = [];
  });
  afterEach(async () => {
    service.stop();
    await running;
  });

  function start(
    options: Partial<Pick<UsersServiceDependencies, 'isPaused' | 'clock' | 'processorTime'>> = {},
  ): void {
    const reader = openMemoryLogReader(contents);
    service = new UsersService({
      open: () => {
        if (faults.open !== undefined) throw faults.open;
        const store = openMemoryProfiles(profiles);
        return { store, processor: processorOn(store) };
      },
      replace: () => {
        calls.push('replace');
        delete faults.open;
      },
      ...{ settings: SETTINGS, reader, clock: createSystemClock(), logger: SILENT, processorTime: () => 0 },
      ...options,
      report: (progress) => reports.push(progress),
    });
    running = service.run();
  }

  /** Moves the cursor over at most ten events a slice. */
  function processorOn(store: ProfileStore): UsersProcessor {
    const reader = openMemoryLogReader(contents);
    const processor: Partial<UsersProcessor> = {
      async configure({ computations }) {
        calls.push(`configure ${computations.length}`);
      },
      async slice() {
        if (faults.slice !== undefined) throw faults.slice;
        const { position } = await store.cursor();
        const { next, sources } = await reader.page(position, 10);
        await faults.meanwhile?.();
        const { end } = await reader.bounds();
        if (sources.length > 0) await store.commit(slice(next));
        return { done: sources.length, hasMore: next < end, lastOutbox: 0, counts: NO_COUNTS, failed: [] };
      },
      async profile() {
        calls.push('profile');
        return undefined;
      },
      async preview() {
        calls.push('preview');
        return { result: previewing.promise };
      },
      settingsWait() {
        calls.push('settings wait');
      },
      cancelPreview() {
        calls.push('cancel');
        previewing.reject(new StorageError('nobody waits for it any more'));
      },
      async rebuild({ dryRun }) {
        calls.push(`rebuild ${dryRun}`);
        return { profiles: 0, events: 0, poorer: 0 };
      },
    };
    return processor as UsersProcessor;
  }

  const call = (name: 'preview' | 'profile' | 'rebuild' | 'configure' | 'progress', ...given: unknown[]) =>
    service.call({ kind: 'call', id: 1, name, arguments: given } as never);
  const applied = () =>
    until('everything is applied', () =>
      expect({ failure: 'none', ...reports.at(-1) }).toMatchObject({ failure: 'none', behind: 0, lag: 0 }),
    );

  it('applies the log slice by slice until nothing is left, and tells how far it is', async () => {
    await log.log.append(batch(events(95)));
    const begun = Date.now();
    start();
    await applied();
    expect(reports).toHaveLength(10);
    expect(reports.map(({ behind }) => behind)).toEqual([85, 75, 65, 55, 45, 35, 25, 15, 5, 0]);
    expect(reports[0]!.lag).toBeGreaterThan(begun - START - 60_000);
    expect(reports.at(-1)).toMatchObject({ slices: 10, applied: 95 });
  });

  it('tells how far it is after a start too, when nothing is new', async () => {
    start();
    await applied();
    expect(reports).toMatchObject([{ behind: 0, applied: 0, slices: 0 }]);
  });

  it('rests after a slice during which the log grew faster, until a call comes, and not when it grows no more', async () => {
    const clock = handClock(START);
    const stored = events(60);
    const append = (from: number) => log.log.append(batch(stored.slice(from, from + 20)));
    await append(0);
    const later = [20, 40];
    // A slice takes 100 milliseconds, and the first two see twice as many events arrive as they apply.
    faults.meanwhile = async () => {
      await new Promise<void>((resolve) => clock.after(100, resolve));
      const from = later.shift();
      if (from !== undefined) await append(from);
    };
    start({ clock });
    await clock.passUntil(() => reports.length === 1, 1000);
    service.wake();
    await clock.pass(199);
    expect(reports).toHaveLength(1);
    await clock.pass(1);
    await clock.passUntil(() => reports.length === 2, 1000);
    expect(reports.at(-1)!.behind).toBe(40);
    expect(await call('profile', { userId: 'u1' })).toBeUndefined();
    // It grows no more, so the next slices follow each other.
    for (let nth = 0; nth < 6; nth++) await clock.pass(100);
    expect(reports.at(-1)).toMatchObject({ behind: 0, applied: 60 });
  });

  it('does not rest while a processor is free, however fast the log grows', async () => {
    const clock = handClock(START);
    const stored = events(60);
    const append = (from: number) => log.log.append(batch(stored.slice(from, from + 20)));
    await append(0);
    const later = [20, 40];
    let processorTime = 0;
    faults.meanwhile = async () => {
      await new Promise<void>((resolve) => clock.after(100, resolve));
      processorTime += 100;
      const from = later.shift();
      if (from !== undefined) await append(from);
    };
    start({ clock, processorTime: () => processorTime });
    for (let nth = 1; nth <= 6; nth++) {
      await clock.passUntil(() => reports.length === nth, 100);
      expect(reports.at(-1)).toMatchObject({ applied: 10 * nth });
    }
    expect(reports.at(-1)).toMatchObject({ behind: 0 });
  });

  it('rests nineteen times as long after a slice that shared its processor with a busy main thread, until that is free', async () => {
    const clock = handClock(START);
    await log.log.append(batch(events(60)));
    let processorTime = 0;
    let had = 60;
    faults.meanwhile = async () => {
      await new Promise<void>((resolve) => clock.after(100, resolve));
      processorTime += had;
    };
    start({ clock, processorTime: () => processorTime });
    service.yieldTo(true);
    await clock.passUntil(() => reports.length === 1, 1000);
    // Neither more in the log nor an answer shortens the rest.
    service.wake();
    expect(await call('profile', { userId: 'u1' })).toBeUndefined();
    await clock.pass(1900 + 99);
    expect(reports).toHaveLength(1);
    await clock.pass(1);
    expect(reports).toHaveLength(2);
    await clock.pass(1000);
    service.yieldTo(false);
    await clock.pass(100);
    expect(reports).toHaveLength(3);
    // A processor was free all the time.
    had = 100;
    service.yieldTo(true);
    // A slice begins in the turn in which the one before has ended: each wait is one slice.
    for (let nth = 0; nth < 3; nth++) await clock.pass(100);
    expect(reports.at(-1)).toMatchObject({ behind: 0, applied: 60 });
  });

  it('applies new events when it is woken', async () => {
    start();
    await log.log.append(batch(events(3)));
    service.wake();
    await applied();
    expect(reports.at(-1)!.applied).toBe(3);
  });

  it('configures before the first slice, and answers calls between slices', async () => {
    await log.log.append(batch(events(30)));
    start();
    const answer = call('profile', { userId: 'u1' });
    await applied();
    expect(await answer).toBeUndefined();
    expect(calls).toEqual(['configure 0', 'profile']);
  });

  it('applies events and answers others while a preview is computed', async () => {
    start();
    const preview = call('preview', { definition: {}, includeAnonymous: false } as never);
    await until('it is begun', () => calls.includes('preview'));
    await log.log.append(batch(events(3)));
    service.wake();
    await applied();
    expect(await call('profile', { userId: 'u1' })).toBeUndefined();
    previewing.resolve({ members: 7 } as Preview);
    expect(await preview).toEqual({ members: 7 });
    expect(calls).not.toContain('cancel');
  });

  it('ends a preview before it closes the file', async () => {
    start();
    const preview = call('preview', { definition: {}, includeAnonymous: false } as never);
    await until('it is begun', () => calls.includes('preview'));
    const refused = expect(preview).rejects.toThrow('nobody waits');
    service.stop();
    await running;
    await refused;
    expect(calls).toEqual(['configure 0', 'preview', 'cancel']);
  });

  it('tries again after a failure, says why meanwhile, and still answers calls', async () => {
    faults.slice = new StorageError('the disk is full: free some space');
    await log.log.append(batch(events(5)));
    start();
    await until('the failure is told', () =>
      expect(reports.at(-1)?.failure).toBe('the disk is full: free some space'),
    );
    expect(reports.at(-1)!.behind).toBe(5);
    await call('profile', { userId: 'u1' });
    delete faults.slice;
    await applied();
    expect(reports.at(-1)).not.toHaveProperty('failure');
  });

  it('calls a fault of its own by that name', async () => {
    faults.slice = new TypeError('x is not a function');
    start();
    await until('the fault is told', () =>
      expect(reports.at(-1)?.failure).toMatch(/fault in Millrace.*x is not a function/),
    );
  });

  it('opens the file again and again until it can, with the settings of then', async () => {
    faults.open = new StorageError('users.db cannot be opened');
    await log.log.append(batch(events(5)));
    start();
    await until('the failure is told', () =>
      expect(reports.at(-1)?.failure).toBe('users.db cannot be opened'),
    );
    await expect(call('profile', { userId: 'u1' })).rejects.toThrow('users.db cannot be opened');
    await expect(call('configure', { ...SETTINGS, computations: [{}, {}] })).rejects.toThrow();
    delete faults.open;
    await applied();
    expect(calls[0]).toBe('configure 2');
  });

  it('replaces a file that cannot be opened when it is asked to rebuild, and not when it is only asked what that would do', async () => {
    faults.open = new StorageError('users.db is damaged');
    await log.log.append(batch(events(5)));
    start();
    expect(await call('rebuild', { dryRun: true })).toEqual({ profiles: 0, events: 5, poorer: 0 });
    expect(calls).toEqual([]);
    expect(await call('rebuild', { dryRun: false })).toMatchObject({ events: 5 });
    await applied();
    expect(calls).toEqual(['replace', 'configure 0']);
  });

  it('applies nothing to profiles that have seen more of the log than there is', async () => {
    await log.log.append(batch(events(5)));
    await openMemoryProfiles(profiles).commit(slice(100));
    start();
    await until('the failure is told', () =>
      expect(reports.at(-1)?.failure).toMatch(/has seen 94 events .* profiles rebuild/),
    );
  });

  it('only answers calls while it is paused', async () => {
    await log.log.append(batch(events(5)));
    start({ isPaused: true });
    service.wake();
    await call('profile', { userId: 'u1' });
    expect(await call('progress')).toMatchObject({ behind: 5, slices: 0 });
    expect(reports).toEqual([]);
  });

  it('answers the calls that have come before it stops', async () => {
    start();
    const answer = call('profile', { userId: 'u1' });
    service.stop();
    await running;
    await answer;
    expect(calls).toContain('profile');
  });
});
