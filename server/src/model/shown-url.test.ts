import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hasMaskedValue, restoredUrl, shownUrl, withQuery } from './shown-url.ts';

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
  ])('has nothing of its credentials: %s', (url, shown) => {
    expect(shownUrl(url)).toBe(shown);
    expect(shownUrl(shown)).toBe(shown);
  });

  it('can be sent back: what is stored fills in what is not shown, whatever the query is', () => {
    const part = fc.stringMatching(/^[a-c=]{0,4}[ -"$-%'-~]{0,4}$/);
    fc.assert(
      fc.property(fc.array(part, { minLength: 1, maxLength: 5 }), (parts) => {
        const url = `https://a.example/in?${parts.join('&').replaceAll(' ', '')}`;
        expect(restoredUrl(shownUrl(url), url)).toBe(url);
        expect(hasMaskedValue(restoredUrl(shownUrl(url), url))).toBe(false);
      }),
    );
  });

  it('keeps what was written over it, and what is not stored', () => {
    const stored = 'https://a.example/?token=one&token=two&v=1';
    expect(restoredUrl('https://a.example/other?token=…&token=new', stored)).toBe(
      'https://a.example/other?token=one&token=new',
    );
    const unknown = 'https://a.example/?key=…&…';
    expect(restoredUrl(unknown, stored)).toBe(unknown);
    expect(hasMaskedValue(unknown)).toBe(true);
    expect(hasMaskedValue(stored)).toBe(false);
  });
});

it('other values can be put into a query, each known by its name and number', () => {
  const url = withQuery(
    'https://a.example/?a=1&a=2&3&b=',
    (value, { name, nth }) => `${name}${nth}<${value}>`,
  );
  expect(url).toBe('https://a.example/?a=a0<1>&a=a1<2>&0<3>&b=');
});
