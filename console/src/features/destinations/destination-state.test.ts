import { expect, test } from 'vitest';
import { endpointStateOf, isTroubled, troubledSince } from './destination-state.tsx';

const failing = (reason: string, status?: number) => ({
  state: 'failing' as const,
  lastError: { at: '2026-03-04T05:06:07.089Z', reason, ...(status === undefined ? {} : { status }) },
});

test.each([
  ['that sheds load', failing('status_503', 503), 'failing'],
  ['that asks for patience', failing('status_429', 429), 'failing'],
  ['that does not answer', failing('timeout'), 'failing'],
  ['that does not accept the key', failing('status_401', 401), 'refusing'],
  ['that redirects', failing('status_302', 302), 'refusing'],
  ['that the egress rules forbid', failing('egress_refused'), 'refusing'],
  ['that fails for a reason not known yet', { state: 'failing' as const }, 'failing'],
  [
    'that is up, whatever it said before',
    { ...failing('status_410', 410), state: 'healthy' as const },
    'healthy',
  ],
])('an endpoint %s', (_, endpoint, state) => {
  expect(endpointStateOf(endpoint)).toBe(state);
});

test('a destination is in trouble since it fails or refuses, and otherwise not', () => {
  const times = { failingSince: 'f', refusingSince: 'r' };
  expect(troubledSince({ state: 'failing', ...times })).toBe('f');
  expect(troubledSince({ state: 'refusing', ...times })).toBe('r');
  expect(troubledSince({ state: 'paused', ...times })).toBeUndefined();
  for (const state of ['healthy', 'never_asked', 'no_source', 'paused', 'disabled'] as const)
    expect(isTroubled({ state })).toBe(false);
});
