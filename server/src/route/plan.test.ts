import { describe, expect, it } from 'vitest';
import type { Destination } from '../model/destination.ts';
import type { Event } from '../model/event.ts';
import type { JsonObject } from '../model/json.ts';
import type { Source } from '../model/source.ts';
import { isEnabledBy } from './integrations.ts';
import { Routes } from './plan.ts';

const website: Source = {
  id: 1,
  name: 'website',
  writeKeys: ['k'],
  enabled: true,
  mode: 'standard',
  whenDisabled: 'refuse',
};

function destination(name: string, over: Partial<Destination> = {}): Destination {
  return {
    id: name.length,
    name,
    type: 'webhooks',
    sources: ['website'],
    enabled: true,
    version: 1,
    settings: { endpoints: [], format: 'documented', success: 'any' },
    ...over,
  };
}

function event(integrations: JsonObject, context: JsonObject = {}): Event {
  return {
    messageId: 'm',
    type: 'track',
    channel: 'server',
    context,
    integrations,
    timestamp: '',
    receivedAt: '',
  };
}

describe('isEnabledBy', () => {
  it.each<[string, JsonObject, boolean]>([
    ['nothing is said', {}, true],
    ['All is true', { All: true }, true],
    ['All is false', { All: false }, false],
    ['all is false, as one client spells it', { all: false }, false],
    ['its type is on by name while All is off', { All: false, Webhooks: true }, true],
    ['its own name is on while its type is off', { Webhooks: false, crm: true }, true],
    ['its own name is off while its type is on', { Webhooks: true, crm: false }, false],
    ['its value is an object of options', { All: false, crm: { option: 1 } }, true],
    ['its value is a string', { All: false, Webhooks: 'yes' }, true],
    ['its value is null, which says nothing', { All: false, crm: null }, false],
    ['only another spelling of its name is on', { All: false, webhooks: true, CRM: true }, false],
    ['another destination is off', { Mixpanel: false }, true],
  ])('when %s', (_situation, integrations, enabled) => {
    expect(isEnabledBy(integrations, 'crm', 'Webhooks')).toBe(enabled);
  });

  it('takes no word from what every object inherits', () => {
    expect(isEnabledBy({ All: false }, 'constructor', 'toString')).toBe(false);
  });
});

describe('Routes', () => {
  const plan = (destinations: readonly Destination[], of: Event) =>
    new Routes(destinations, { webhooks: 'Webhooks' }).plan(of, website);

  it('sends an event to every enabled destination of its source', () => {
    const crm = destination('crm');
    const lake = destination('lake', { sources: ['app', 'website'] });
    expect(plan([crm, lake, destination('other', { sources: ['app'] })], event({}))).toEqual({
      owed: [crm, lake],
      skipped: [],
    });
  });

  it('says why a destination of the source is left out', () => {
    const off = destination('off', { enabled: false });
    const crm = destination('crm');
    expect(plan([off, crm], event({ crm: false }))).toEqual({
      owed: [],
      skipped: [
        { destination: off, reason: 'destination_disabled' },
        { destination: crm, reason: 'integrations' },
      ],
    });
  });

  it('reads the integrations object in the context too, and lets the one on the call win', () => {
    const crm = destination('crm');
    expect(plan([crm], event({}, { integrations: { All: false } })).owed).toEqual([]);
    expect(plan([crm], event({ All: true }, { integrations: { All: false } })).owed).toEqual([crm]);
  });

  it('plans nothing for a source without destinations', () => {
    expect(plan([], event({}))).toEqual({ owed: [], skipped: [] });
  });
});
