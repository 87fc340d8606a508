import { expect, test } from 'vitest';
import { SOURCE_FORM } from './form.ts';

const { draftOf, patchOf } = SOURCE_FORM;
const STORED = {
  name: 'website',
  writeKeys: ['wk'],
  enabled: true,
  mode: 'standard',
  whenDisabled: 'refuse',
  dedupeWindow: '7d',
  rateLimit: 100,
  ip: 'keep',
  trust: 'client',
} as const;
const base = draftOf({ ...STORED, writeKeys: [...STORED.writeKeys] });

test('the form of a source sends what was changed, and not the whole record', () => {
  expect(patchOf(base, base)).toEqual({});
  expect(patchOf(base, { ...base, mode: 'strict' })).toEqual({ mode: 'strict' });
});

test('required consent is set and taken away', () => {
  expect(patchOf(base, { ...base, consent: 'required' })).toEqual({ consent: 'required' });
  const required = draftOf({ ...STORED, writeKeys: [], consent: 'required' });
  expect(patchOf(required, { ...required, consent: 'given' })).toEqual({ consent: null });
});

test('a path of the script is set and taken away', () => {
  expect(patchOf(base, { ...base, scriptPath: ' /a/b.js ' })).toEqual({ scriptPath: '/a/b.js' });
  const known = draftOf({ ...STORED, writeKeys: [], scriptPath: '/a/b.js' });
  expect(patchOf(known, { ...known, scriptPath: '' })).toEqual({ scriptPath: null });
});

test('what is emptied in the form of a source is taken away', () => {
  expect(patchOf(base, { ...base, dedupeWindow: ' ', rateLimit: '' })).toEqual({
    dedupeWindow: null,
    rateLimit: null,
  });
});

test('a rate that is no number is for the server to refuse, and never no limit', () => {
  expect(patchOf(base, { ...base, rateLimit: 'many' })).toEqual({ rateLimit: 'many' });
});
