import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { spoken } from './spoken.ts';

const { control } = JSON.parse(readFileSync(new URL('../../spec/errors.json', import.meta.url), 'utf8')) as {
  readonly control: Readonly<Record<string, { readonly message: string; readonly hint: string }>>;
};

/** For programs only: no verb of the command line is answered so. */
const OF_PROGRAMS = ['token_missing', 'session_over', 'cross_site_request', 'idempotency_key_reused'];

it('says what the control API answers in words of the command line', () => {
  for (const [code, { message, hint }] of Object.entries(control)) {
    if (OF_PROGRAMS.includes(code)) continue;
    expect(spoken(`${message} ${hint}`), code).not.toMatch(
      /\b(GET|POST|PUT|PATCH|DELETE) |api\/v1|confirm|dryRun/,
    );
  }
});

it.each([
  [
    '"x" is no destination; GET /api/v1/destinations lists them.',
    '"x" is no destination; millrace status lists them.',
  ],
  [
    '"x" is no audience; GET /api/v1/audiences lists them.',
    '"x" is no audience; millrace audience list lists them.',
  ],
  [
    '"x" is no regulation; GET /api/v1/regulations lists them.',
    '"x" is no regulation; delete-user and suppress print it.',
  ],
])('speaks of verbs where the API speaks of requests: %s', (detail, text) => {
  expect(spoken(detail)).toBe(text);
});
