import { EventEmitter } from 'node:events';
import { describe, expect, it } from 'vitest';
import { stopOnSignals } from './stopping.ts';

function stopping() {
  const signals = new EventEmitter();
  const seen = { now: 0, abandoned: 0 };
  const { requested, request } = stopOnSignals({
    signals,
    now: () => seen.now,
    abandon: () => {
      seen.abandoned += 1;
    },
  });
  return { signals, seen, requested, request };
}

describe('stopping', () => {
  it('is asked for by either signal', async () => {
    for (const signal of ['SIGINT', 'SIGTERM']) {
      const { signals, requested, seen } = stopping();
      signals.emit(signal);
      await requested;
      expect(seen.abandoned).toBe(0);
    }
  });

  it('is asked for by the program itself', async () => {
    const { requested, request } = stopping();
    request();
    await expect(requested).resolves.toBeUndefined();
  });

  it('is abandoned at a second signal', () => {
    const { signals, seen } = stopping();
    signals.emit('SIGINT');
    seen.now = 301;
    signals.emit('SIGTERM');
    expect(seen.abandoned).toBe(1);
  });

  it('takes one key press that arrives twice, as under npm, for one signal', () => {
    const { signals, seen } = stopping();
    signals.emit('SIGINT');
    seen.now = 300;
    signals.emit('SIGINT');
    expect(seen.abandoned).toBe(0);
  });
});
