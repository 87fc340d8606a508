import { describe, expect, it } from 'vitest';
import { PLAIN_FORM, plainFieldsOf, textOf, typedValue, typesIn } from './plain-form.ts';

const settings = {
  type: 'object',
  properties: {
    path: { type: 'string', title: 'File', description: 'Where it goes.' },
    token: { type: 'string', writeOnly: true },
    rateLimit: { type: 'integer' },
    success: { type: 'string', enum: ['any', 'each'] },
    isQuiet: { type: 'boolean' },
    filter: { type: 'object', properties: {} },
  },
};
const document = (schema: object) => ({
  paths: {
    '/api/v1/destinations': { post: { requestBody: { content: { 'application/json': { schema } } } } },
  },
});
const lines = { properties: { type: { const: 'lines' }, settings } };

describe('a plain form of a destination', () => {
  it('has a field for each setting that the server describes for the type, alone or among others', () => {
    const fields = plainFieldsOf(
      document({ oneOf: [{ properties: { type: { const: 'other' } } }, lines] }),
      'lines',
    );
    expect(fields.map(({ key, label, kind }) => [key, label, kind])).toEqual([
      ['path', 'File', 'text'],
      ['token', 'token', 'secret'],
      ['rateLimit', 'rateLimit', 'number'],
      ['success', 'success', 'choice'],
      ['isQuiet', 'isQuiet', 'flag'],
      ['filter', 'filter', 'json'],
    ]);
    expect(plainFieldsOf(document(lines), 'lines')).toEqual(fields);
    for (const strange of [undefined, {}, document(lines)])
      expect(plainFieldsOf(strange, 'none')).toEqual([]);
  });

  it('is drawn for the types that the server names', () => {
    const webhooks = { properties: { type: { const: 'webhooks' } } };
    expect(typesIn(document({ oneOf: [webhooks, lines] }))).toEqual(['webhooks', 'lines']);
    expect(typesIn(document(webhooks))).toEqual(['webhooks']);
    expect(typesIn(undefined)).toEqual([]);
  });

  it('shows values as text and takes them back, and nothing of a stored secret', () => {
    expect([textOf(5), textOf('a'), textOf({ a: 1 }), textOf({ set: true, hint: 'abcd' })]).toEqual([
      ...['5', 'a', '{"a":1}', ''],
    ]);
    expect([
      typedValue('5', 'number'),
      typedValue('x', 'number'),
      typedValue('{"a":1}', 'json'),
      typedValue('5', 'text'),
    ]).toEqual([...[5, 'x', { a: 1 }, '5']]);
    expect(typedValue('', 'text')).toBeUndefined();
  });

  it('sends what was changed alone, and removes what was emptied', () => {
    const base = { sources: ['website'], settings: { path: '/a', rateLimit: 5, token: { set: true } } };
    const draft = { ...base, settings: { ...base.settings, path: '/b', rateLimit: undefined } };
    expect(PLAIN_FORM.patchOf(base, draft)).toEqual({ settings: { path: '/b', rateLimit: null } });
    expect(PLAIN_FORM.patchOf(base, { ...base, sources: [] })).toEqual({ sources: [] });
    expect(PLAIN_FORM.withoutSecrets?.(draft, base).settings).toEqual(base.settings);
  });
});
