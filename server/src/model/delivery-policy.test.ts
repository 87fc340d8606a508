import { describe, expect, it } from 'vitest';
import { liftPolicy, policyOf, withPolicyInSettings } from './delivery-policy.ts';

const WRITTEN = {
  name: 'crm',
  settings: {
    endpoints: ['https://crm.example/'],
    format: 'canonical',
    success: 'each' as const,
    filter: { types: ['track' as const] },
    integrationNames: ['Former'],
    consent: ['Ads'],
    computations: { as: 'both' as const },
    rateLimit: 5,
    concurrency: 3,
  },
  version: 2,
};

describe('the policy of a destination', () => {
  it('stands beside the settings of its type, and among them where it is written', () => {
    const lifted = liftPolicy(WRITTEN);
    expect(lifted).toEqual({
      name: 'crm',
      success: 'each',
      filter: { types: ['track'] },
      integrationNames: ['Former'],
      consent: ['Ads'],
      computations: { as: 'both' },
      rateLimit: 5,
      concurrency: 3,
      settings: { endpoints: ['https://crm.example/'], format: 'canonical' },
      version: 2,
    });
    // The same bytes, so that what is stored does not change by being read and written.
    expect(JSON.stringify(withPolicyInSettings(lifted))).toBe(JSON.stringify(WRITTEN));
  });

  it('has no keys for what is not said', () => {
    const plain = { name: 'crm', settings: { format: 'canonical' } };
    expect(Object.keys(liftPolicy(plain))).toEqual(['name', 'settings']);
    expect(withPolicyInSettings(plain)).toEqual(plain);
    expect(policyOf({ ...plain, filter: undefined, success: 'any' })).toEqual({ success: 'any' });
  });
});
