import { expect, test } from 'vitest';
import { KnownEvents } from './known-events.ts';

const known = new KnownEvents([
  { type: 'track', event: 'Order Completed', properties: { total: 20, plan: 'pro', tags: ['a'] } },
  { type: 'track', event: 'Order Completed', properties: { total: 9, plan: '42' } },
  { type: 'track', event: 'Signed In' },
  { type: 'page', name: 'Home', properties: { url: 'https://a.example/' } },
  { type: 'identify', traits: { plan: 'free' } },
]);

test('what somebody did has the names of track calls, and what somebody saw those of pages', () => {
  expect(known.names('track')).toEqual(['Order Completed', 'Signed In']);
  expect(known.names('page')).toEqual(['Home']);
  expect(known.names('screen')).toEqual([]);
});

test('properties are those that events of the name have, and of any where none is chosen', () => {
  expect(known.properties('track', 'Order Completed')).toEqual(['plan', 'tags', 'total']);
  expect(known.properties('track', 'Signed In')).toEqual([]);
  expect(known.properties('track', '')).toEqual(['plan', 'tags', 'total']);
  expect(known.properties('page', 'Home')).toEqual(['url']);
});

test('values are written so that the field means them: a text of digits in quotes, and no list', () => {
  expect(known.values('track', 'Order Completed', 'plan')).toEqual(["'42'", 'pro']);
  expect(known.values('track', 'Order Completed', 'total')).toEqual(['20', '9']);
  expect(known.values('track', 'Order Completed', 'tags')).toEqual([]);
  expect([known.traits(), known.traitValues('plan')]).toEqual([['plan'], ['free']]);
});
