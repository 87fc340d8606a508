import { describe, expect, it } from 'vitest';
import {
  creationOf,
  type Destination,
  type DestinationDraft,
  draftOf,
  hasNewSecret,
  NEW_DESTINATION,
  newSharedSecret,
  newSigningSecret,
  patchOf,
  withoutSecrets,
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
    expect(patchOf(stored, { ...stored, userAgent: ' Mine/2 ' })).toEqual({
      settings: { userAgent: 'Mine/2' },
    });
    const withAgent = { ...stored, userAgent: 'Mine/2' };
    expect(patchOf(withAgent, { ...withAgent, userAgent: '' })).toEqual({ settings: { userAgent: null } });
    expect(patchOf(stored, { ...stored, sources: ['app'] })).toEqual({ sources: ['app'] });
  });

  it('is kept in the browser without the secrets that were typed', () => {
    const typed = {
      ...stored,
      events: 'Half *',
      sharedSecret: 'typed-secret',
      signingSecrets: ['whsec_typed', MASK],
      endpoints: [
        {
          url: 'https://b.example/in?token=typed',
          headers: [
            { name: 'X-Team', value: 'growth' },
            { name: 'Authorization', value: 'Bearer typed' },
          ],
        },
      ],
    };
    const kept = withoutSecrets(typed, stored);
    expect(JSON.stringify(kept)).not.toContain('typed');
    expect(kept).toMatchObject({
      ...{ events: 'Half *', sharedSecret: MASK, signingSecrets: [MASK] },
      endpoints: [{ url: 'https://b.example/in', headers: [{ name: 'X-Team', value: 'growth' }, {}] }],
    });
    expect(withoutSecrets({ ...stored, sharedSecret: '' }, stored).sharedSecret).toBe('');
    expect(withoutSecrets(stored, stored)).toEqual(stored);
  });

  it('sends what signs too while a secret is replaced, and without a secret', () => {
    const typed = { ...stored, nextSharedSecret: 'typed-secret', publicSignature: true };
    expect(patchOf(stored, typed)).toEqual({
      settings: { nextSharedSecret: 'typed-secret', publicSignature: true },
    });
    expect(hasNewSecret(typed)).toBe(true);
    expect(JSON.stringify(withoutSecrets(typed, stored))).not.toContain('typed');
    const signed = draftOf({
      ...STORED,
      settings: { ...STORED.settings, nextSharedSecret: MASK, publicSignature: true },
    });
    expect(signed).toMatchObject({ nextSharedSecret: MASK, publicSignature: true });
    expect(patchOf(signed, { ...signed, nextSharedSecret: '', publicSignature: false })).toEqual({
      settings: { nextSharedSecret: null, publicSignature: null },
    });
    expect(
      patchOf(stored, draftOf({ ...STORED, settings: { ...STORED.settings, publicSignature: false } })),
    ).toEqual({});
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

  it('tells names of its own, none of its own and those of its type apart', () => {
    expect(stored).toMatchObject({ answersTo: 'usual', integrationNames: '' });
    const own = { ...stored, answersTo: 'own', integrationNames: ' Webhooks (Actions)\n\nWebhook' } as const;
    expect(patchOf(stored, own)).toEqual({
      settings: { integrationNames: ['Webhooks (Actions)', 'Webhook'] },
    });
    expect(patchOf(stored, { ...stored, answersTo: 'own' })).toEqual({ settings: { integrationNames: [] } });
    const listed = draftOf({ ...STORED, settings: { ...STORED.settings, integrationNames: ['a'] } });
    expect(patchOf(listed, listed)).toEqual({});
    expect(patchOf(listed, { ...listed, answersTo: 'usual' })).toEqual({
      settings: { integrationNames: null },
    });
  });

  it('has a form of changes of audiences only where one was chosen', () => {
    expect(patchOf(stored, { ...stored, changesAs: 'track', enteredEvent: ' Joined ' })).toEqual({
      settings: {
        computations: {
          ...{ as: 'track', space: null, enteredEvent: 'Joined', exitedEvent: null, traitEvent: null },
          ...{ email: null, traits: null },
        },
      },
    });
    const computations = { as: 'both', enteredEvent: 'Joined', email: true, traits: ['plan'] };
    const formed = draftOf({ ...STORED, settings: { ...STORED.settings, computations } });
    expect(patchOf(formed, formed)).toEqual({});
    expect(creationOf(formed)).toMatchObject({ settings: { computations } });
    const usual = { ...formed, changesAs: 'identify' as const, withEmail: false, withTraits: '' };
    expect(patchOf(formed, usual)).toEqual({ settings: { computations: null } });
  });

  it('asks for consent by the categories that are written, and for none where nothing is', () => {
    expect(patchOf(stored, { ...stored, consent: 'Ads\n Stats ' })).toEqual({
      settings: { consent: ['Ads', 'Stats'] },
    });
    const asking = draftOf({ ...STORED, settings: { ...STORED.settings, consent: ['Ads'] } });
    expect(patchOf(asking, asking)).toEqual({});
    expect(patchOf(asking, { ...asking, consent: '' })).toEqual({ settings: { consent: null } });
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

it('secrets are long enough, and never the same twice', () => {
  expect(newSigningSecret()).toMatch(/^whsec_[A-Za-z0-9+/]{32}$/);
  expect(newSharedSecret()).toMatch(/^[0-9a-f]{32}$/);
  expect(newSharedSecret()).not.toBe(newSharedSecret());
});
