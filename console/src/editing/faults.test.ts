import { describe, expect, it } from 'vitest';
import { faultOf, otherFaults } from './faults.ts';

describe('what the server says of a field', () => {
  const faults = [
    { path: 'body.settings.endpoints[0].url', message: 'must be a URL' },
    { path: 'body.settings.endpoints[0].headers.Host', message: 'is reserved' },
    { path: 'body.settings.endpoints[1].url', message: 'is private' },
    { path: 'body.sources[0]', message: 'does not exist' },
    { path: 'body.paused', message: 'must be true' },
  ];

  it('stands beside it', () => {
    expect(faultOf(faults, 'settings.endpoints[0].url')).toBe('must be a URL');
    expect(faultOf(faults, 'settings.endpoints[0].headers')).toBe('is reserved');
    expect(faultOf(faults, 'sources')).toBe('does not exist');
    expect(faultOf(faults, 'settings.format')).toBeUndefined();
    expect(
      faultOf([{ path: 'body.settings.rateLimits', message: 'x' }], 'settings.rateLimit'),
    ).toBeUndefined();
  });

  it('stands above the form where no field has it', () => {
    expect(otherFaults(faults, ['settings.endpoints', 'sources'])).toEqual([faults[4]]);
  });
});
