import { describe, expect, it } from 'vitest';
import { choices, markedLabel, type PaletteRecords } from './choices.ts';

const RECORDS: PaletteRecords = {
  destinations: [{ name: 'crm', state: 'refusing', dead: 312 }, { name: 'a/b' }],
  sources: [{ name: 'crm-app' }],
  audiences: [{ name: 'New customers' }],
  mayEdit: true,
};
const labels = (text: string, change: Partial<PaletteRecords> = {}) =>
  choices(text, { ...RECORDS, ...change }).map(({ group, label }) => `${group}: ${label}`);

describe('the palette', () => {
  it('offers the sections and what can be made before anything is typed', () => {
    expect(labels('').slice(0, 2)).toEqual(['Go to: Overview', 'Go to: Live']);
    expect(labels('')).toContain('Do: New destination');
    expect(labels('').some((label) => label.startsWith('Find'))).toBe(false);
  });

  it('finds records by a part of their name, offers what can be done with them, and the text as an id', () => {
    expect(labels('crm')).toEqual([
      'Go to: crm',
      'Go to: crm-app',
      'Do: Redeliver 312 dead letters of crm',
      'Do: Send a test event to crm',
      'Do: Replay stored events to crm',
      'Find: User with the id “crm”',
      'Find: Events named “crm…”',
      'Find: messageId “crm”',
    ]);
    expect(choices('crm', RECORDS)[0]).toMatchObject({ state: 'refusing', href: '/destinations/crm' });
  });

  it('puts what begins with the text before what only contains it', () => {
    expect(labels('ne', { destinations: [{ name: 'pipeline' }] }).slice(0, 2)).toEqual([
      'Go to: New customers',
      'Go to: pipeline',
    ]);
  });

  it('offers nothing to do to a viewer', () => {
    expect(labels('crm', { mayEdit: false }).filter((label) => label.startsWith('Do'))).toEqual([]);
  });

  it('writes names into addresses so that they lead back', () => {
    expect(choices('a/b', RECORDS)[0]?.href).toBe('/destinations/a%2Fb');
    expect(choices('x?y', RECORDS).at(-1)?.href).toBe('/events/x%3Fy');
  });

  it('takes an id as it is typed, whatever it is', () => {
    const leads = (id: string) =>
      choices(id, { ...RECORDS, destinations: [] })
        .slice(-3)
        .map(({ href }) => new URL(href, 'http://a/'))
        .map(({ pathname, searchParams }) => [pathname, ...searchParams.values()]);
    expect(leads(' ann ')).toEqual([['/users', ' ann '], ['/events', ' ann *'], ['/events/%20ann%20']]);
    expect(leads('..').at(-1)).toEqual(['/events/~%22..%22']);
    expect(leads('mia-\ud83d')[0]).toEqual(['/users', '"mia-\\ud83d"']);
    expect(choices('  ', RECORDS).some(({ group }) => group === 'Find')).toBe(false);
  });

  it('marks what was typed in what it found', () => {
    expect(markedLabel('New customers', 'CUST')).toEqual(['New ', 'cust', 'omers']);
    expect(markedLabel('crm', '')).toEqual(['crm', '', '']);
    expect(markedLabel('crm', 'x')).toEqual(['crm', '', '']);
  });
});
