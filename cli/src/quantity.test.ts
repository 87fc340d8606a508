import { InvalidArgumentError } from 'commander';
import { describe, expect, it } from 'vitest';
import { duration, port, share, status } from './quantity.ts';

describe('numbers of a command line', () => {
  it('reads ports', () => {
    expect(['0', '4000', '65535'].map(port)).toEqual([0, 4000, 65_535]);
    for (const text of ['', 'x', '-1', '65536', '1.5', '0x10', '1e3', ' 80', '9'.repeat(30)]) {
      expect(() => port(text), text).toThrow(InvalidArgumentError);
    }
  });

  it('reads the statuses of final answers', () => {
    expect(['200', '503', '599'].map(status)).toEqual([200, 503, 599]);
    for (const text of ['100', '199', '600', 'ok'])
      expect(() => status(text), text).toThrow('from 200 to 599');
  });

  it('reads durations with their units, up to an hour', () => {
    expect(['0', '0ms', '200ms', '6s', '1.5s', '2m', '1h'].map(duration)).toEqual([
      0, 0, 200, 6000, 1500, 120_000, 3_600_000,
    ]);
    for (const text of ['', '5', '-1s', 's', '6 s', '2h', '1d', '1e3ms', '.5s']) {
      expect(() => duration(text), text).toThrow('200ms, 6s or 1m');
    }
  });

  it('reads shares from none to all', () => {
    expect(['0', '0.25', '.5', '1', '1.0'].map(share)).toEqual([0, 0.25, 0.5, 1, 1]);
    for (const text of ['', '.', '-0.1', '1.01', '20%', 'half', 'NaN', '1e-1']) {
      expect(() => share(text), text).toThrow('from 0 (none) to 1 (all)');
    }
  });
});
