import { describe, expect, it } from 'vitest';
import { documentOf, documentText } from './document.ts';

describe('a pasted configuration', () => {
  it('has its records and leaves out what belongs to the program', () => {
    expect(documentOf('port: 8080\nsources:\n  - { name: website, writeKeys: [a] }\n')).toEqual({
      sources: [{ name: 'website', writeKeys: ['a'] }],
      destinations: [],
      audiences: [],
      traits: [],
    });
  });

  it('comes back from its export as it was', () => {
    const document = {
      sources: [{ name: 'a: b #c', writeKeys: ['0123'] }],
      destinations: [],
      audiences: [{ name: 'x', definition: "event('A')\nand event('B')" }],
      traits: [],
    };
    expect(documentOf(documentText(document))).toEqual(document);
  });

  it.each([
    ['sources: [', /line 1/],
    ['just a text', /mapping/],
    ['- a', /mapping/],
    [`destinations: [{ name: crm, sharedSecret: ${'$'}{CRM_SECRET} }]`, /\$\{CRM_SECRET\}.*millrace plan/],
  ])('that is none is refused with a reason: %j', (text, reason) => {
    expect(documentOf(text)).toMatch(reason);
  });
});
