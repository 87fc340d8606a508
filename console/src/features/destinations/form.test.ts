import { describe, expect, it } from 'vitest';
import {
  creationOf,
  type Destination,
  type DestinationDraft,
  draftOf,
  faultOf,
  mergeDrafts,
  NEW_DESTINATION,
  newSharedSecret,
  newSigningSecret,
  otherFaults,
  patchOf,
} from './form.ts';

const MASK = { set: true, hint: '6789' } as const;
const STORED: Destination = {
  name: 'crm',
  type: 'webhooks',
  sources: ['website'],
  enabled: true,
  settings: {
    endpoints: [{ url: 'https://a.example/in', headers: { 'X-Team': 'growth', Authorization: MASK } }],
    sharedSecret: MASK,
    signingSecrets: [MASK],
    format: 'documented',
    success: 'any',
    filter: { types: ['track'], events: ['Order Placed', 'Checkout *'] },
    rateLimit: 100,
  },
};

describe('the form of a destination', () => {
  const stored = draftOf(STORED);

  it('that nobody touches changes nothing', () => {
    expect(patchOf(stored, draftOf(STORED))).toEqual({});
  });

  it('sends what was changed, and not the whole record', () => {
    expect(patchOf(stored, { ...stored, rateLimit: '5' })).toEqual({ settings: { rateLimit: 5 } });
    expect(patchOf(stored, { ...stored, sources: ['app'] })).toEqual({ sources: ['app'] });
  });

  it('puts what was changed upon what others have changed meanwhile, and says what both have', () => {
    const theirs = { ...stored, rateLimit: '7', concurrency: '3', success: 'each' as const };
    const mine = { ...stored, rateLimit: '5', format: 'canonical' as const, success: 'each' as const };
    expect(mergeDrafts(stored, mine, theirs)).toEqual({
      draft: { ...theirs, rateLimit: '5', format: 'canonical' },
      disputed: ['rateLimit'],
    });
    expect(mergeDrafts(stored, stored, theirs)).toEqual({ draft: theirs, disputed: [] });
  });

  it('takes away what is emptied', () => {
    const emptied: DestinationDraft = {
      ...draftOf(STORED),
      sharedSecret: '',
      signingSecrets: [],
      types: [],
      events: ' \n',
      rateLimit: '',
    };
    expect(patchOf(stored, emptied)['settings']).toMatchObject({
      sharedSecret: null,
      signingSecrets: null,
      filter: null,
      rateLimit: null,
    });
  });

  it('keeps one half of a filter when the other is emptied', () => {
    expect(patchOf(stored, { ...stored, types: [] })['settings']).toMatchObject({
      filter: { types: null, events: ['Order Placed', 'Checkout *'] },
    });
  });

  it('creates with what was filled in, and says nothing of the rest', () => {
    const draft: DestinationDraft = {
      ...NEW_DESTINATION,
      name: 'crm',
      endpoints: [{ url: ' https://a.example/ ', headers: [{ name: '', value: 'lost' }] }],
      events: 'Order Placed',
      concurrency: 'many',
    };
    expect(creationOf(draft)).toEqual({
      name: 'crm',
      type: 'webhooks',
      sources: [],
      settings: {
        endpoints: [{ url: 'https://a.example/', headers: {} }],
        format: 'documented',
        success: 'any',
        filter: { events: ['Order Placed'] },
        concurrency: 'many',
      },
    });
  });
});

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

it('secrets are long enough, and never the same twice', () => {
  expect(newSigningSecret()).toMatch(/^whsec_[A-Za-z0-9+/]{32}$/);
  expect(newSharedSecret()).toMatch(/^[0-9a-f]{32}$/);
  expect(newSharedSecret()).not.toBe(newSharedSecret());
});
