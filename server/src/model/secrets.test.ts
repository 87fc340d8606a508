import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import {
  hasMaskedValue,
  isMaskedKey,
  mapUrlValues,
  maskKey,
  maskSecret,
  maskUrl,
  unmaskUrl,
} from './secrets.ts';

describe('what stands for a secret', () => {
  test.each([
    ['', { set: true }],
    ['elevenchars', { set: true }],
    ['twelve-chars', { set: true, hint: 'hars' }],
    ['x'.repeat(1000), { set: true, hint: 'xxxx' }],
  ])('of %j is %j', (secret, mask) => {
    expect(maskSecret(secret)).toEqual(mask);
  });
});

describe('a URL that is shown', () => {
  it.each([
    ['https://a.example/in', 'https://a.example/in'],
    ['https://a.example/in?token=S3CRET', 'https://a.example/in?token=…'],
    ['https://a.example?sig=a%3Db==&v=1&flag&empty=&=x', 'https://a.example?sig=…&v=…&…&empty=&=…'],
    ['https://u:p@a.example/?k=v', 'https://…@a.example/?k=…'],
    ['http://u@p@a.example', 'http://…@a.example'],
    ['https://a.example/@b?x@y', 'https://a.example/@b?…'],
    ['https://a.example/#token=S3CRET', 'https://a.example/#…'],
    ['https://a.example/?a=b?c=d;e=f#g?h=i', 'https://a.example/?a=…#…'],
    ['no URL?S3CRET', 'no URL?…'],
    ['https://a.example/?', 'https://a.example/?'],
    [
      'https://hooks.example/services/T01/B02/AbCdEfGhIjKlMnOpQrStUvWx',
      'https://hooks.example/services/T01/B02/…',
    ],
    ['https://a.example/0123456789abcdef/in?k=v#f', 'https://a.example/…/in?k=…#…'],
    [
      'https://a.example/webhook-receivers/incoming_events.v',
      'https://a.example/webhook-receivers/incoming_events.v',
    ],
    ['https://a.example/abcdefghijklmnop', 'https://a.example/…'],
    ['https://a.example/%E2%80%A6/?k=%e2%80%a6', 'https://a.example/…/?k=…'],
    ['https://a-long-name-of-a-host-01.example:8080', 'https://a-long-name-of-a-host-01.example:8080'],
  ])('has nothing of its credentials: %s', (url, shown) => {
    expect(maskUrl(url)).toBe(shown);
    expect(maskUrl(shown)).toBe(shown);
  });

  it('can be sent back: what is stored fills in what is not shown, whatever the query is', () => {
    const part = fc.stringMatching(/^[a-c=]{0,4}[ -"$-%'-~]{0,4}$/);
    fc.assert(
      fc.property(fc.array(part, { minLength: 1, maxLength: 5 }), (parts) => {
        const query = parts.join('&').replaceAll(' ', '');
        const url = `https://a.example/in/${'0'.repeat(query.length)}/x?${query}`;
        expect(unmaskUrl(maskUrl(url), url)).toBe(url);
        expect(hasMaskedValue(unmaskUrl(maskUrl(url), url))).toBe(false);
      }),
    );
  });

  it('keeps what was written over it, and what is not stored', () => {
    const stored = 'https://a.example/?token=one&token=two&v=1';
    expect(unmaskUrl('https://a.example/other?token=…&token=new', stored)).toBe(
      'https://a.example/other?token=one&token=new',
    );
    const unknown = 'https://a.example/?key=…&…';
    expect(unmaskUrl(unknown, stored)).toBe(unknown);
    expect(hasMaskedValue(unknown)).toBe(true);
    expect(hasMaskedValue(stored)).toBe(false);
  });
});

it('other values can be put into a URL, each known by its name and number or its part of the path', () => {
  const url = mapUrlValues('https://a.example/in/0123456789abcdef/?a=1&a=2&3&b=', (value, place) =>
    'segment' in place ? `${place.segment}<${value}>` : `${place.name}${place.nth}<${value}>`,
  );
  expect(url).toBe('https://a.example/in/1<0123456789abcdef>/?a=a0<1>&a=a1<2>&0<3>&b=');
});

it('a write key is shown as how it ends, which is no key', () => {
  expect(['wk_0123456789', 'wk_short'].map(maskKey)).toEqual(['…6789', '…']);
  expect(['…6789', '…', 'wk_0123456789'].map(isMaskedKey)).toEqual([true, true, false]);
});
