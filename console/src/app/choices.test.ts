import { describe, expect, it } from 'vitest';
import { choices } from './choices.ts';

const RECORDS = { destinations: [{ name: 'crm' }, { name: 'a/b' }], sources: [{ name: 'website' }] };

describe('the palette', () => {
  it('offers the sections before anything is typed', () => {
    expect(choices('', RECORDS)[0]).toEqual({ label: 'Overview', kind: 'go to', href: '/' });
  });

  it('finds records by a part of their name, and offers the text as an id', () => {
    expect(choices('crm', RECORDS)).toEqual([
      { label: 'crm', kind: 'destination', href: '/destinations/crm' },
      { label: 'crm', kind: 'event with this messageId', href: '/events/crm' },
      { label: 'crm', kind: 'events of this user', href: '/events?userId=crm' },
    ]);
  });

  it('writes names into addresses so that they lead back', () => {
    expect(choices('a/b', RECORDS)[0]?.href).toBe('/destinations/a%2Fb');
  });
});
