import { expect, test } from 'vitest';
import { type DestinationHealth, stateOf } from './destination-state.tsx';

const failing = (reason: string, status?: number): DestinationHealth['endpoints'][number] => ({
  state: 'failing',
  lastError: { at: '2026-03-04T05:06:07.089Z', reason, ...(status === undefined ? {} : { status }) },
});

test.each([
  ['an endpoint that sheds load', [failing('status_503', 503)], 'failing'],
  ['one that asks for patience', [failing('status_429', 429)], 'failing'],
  ['one that does not answer', [failing('timeout')], 'failing'],
  ['one that does not accept the key', [failing('status_401', 401)], 'refusing'],
  ['one that redirects', [failing('status_302', 302)], 'refusing'],
  ['one that the egress rules forbid', [failing('egress_refused')], 'refusing'],
  ['two of which one may still take it', [failing('status_410', 410), failing('timeout')], 'failing'],
  ['one that fails for a reason not known yet', [{ state: 'failing' as const }], 'failing'],
  ['none', [], 'failing'],
])('a failing destination with %s', (_, endpoints, state) => {
  expect(stateOf({ state: 'failing', endpoints })).toBe(state);
});

test('a healthy destination stays healthy beside an endpoint that refuses', () => {
  expect(stateOf({ state: 'healthy', endpoints: [failing('status_410', 410)] })).toBe('healthy');
});
