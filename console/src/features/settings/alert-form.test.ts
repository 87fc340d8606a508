import { expect, test } from 'vitest';
import { ALERT_FORM, creationOf, NEW_ALERT } from './alert-form.ts';
import type { Alert } from './queries.ts';

const { draftOf, patchOf } = ALERT_FORM;
const MAIL: Alert = {
  ...{ name: 'ops', type: 'email', enabled: true, on: ['disk_filling'], after: '1m', remindEvery: '4h' },
  settings: {
    ...{ server: 'smtps://mail.example', user: 'millrace', password: { set: true, hint: 'abcd' } },
    ...{ from: 'a@b.example', to: ['c@d.example', 'e@f.example'] },
  },
  ...{ open: [], isWaiting: false },
};
const base = draftOf(MAIL);

test('an alert that was only looked at sends nothing back', () => {
  expect(patchOf(base, draftOf(MAIL))).toEqual({});
});

test('an alert sends what was changed, and leaves its secret untouched', () => {
  expect(patchOf(base, { ...base, after: '5m ', to: 'c@d.example' })).toEqual({
    after: '5m',
    settings: { to: ['c@d.example'] },
  });
});

test('a user that is taken away takes the password along', () => {
  expect(patchOf(base, { ...base, user: '' })).toEqual({ settings: { user: null, password: null } });
});

test('a mail that becomes a webhook sends all of its settings, and nothing of the mail', () => {
  const draft = { ...base, type: 'webhook' as const, url: 'https://alerts.example/' };
  expect(patchOf(base, draft)).toEqual({ type: 'webhook', settings: { url: 'https://alerts.example/' } });
});

test('a new webhook has its secret, and none where none was typed', () => {
  const draft = { ...NEW_ALERT, name: ' on call ', url: ' https://alerts.example/ ' };
  expect(creationOf(draft)).toMatchObject({ name: 'on call', settings: { url: 'https://alerts.example/' } });
  expect(creationOf(draft)['settings']).not.toHaveProperty('signingSecrets');
  expect(creationOf({ ...draft, signingSecret: 'whsec_x' })['settings']).toMatchObject({
    signingSecrets: ['whsec_x'],
  });
});

test('a new mail without a user has neither user nor password', () => {
  const draft = { ...NEW_ALERT, type: 'email' as const, server: 'smtp://mail.example', password: 'lost' };
  expect(creationOf(draft)['settings']).toEqual({ server: 'smtp://mail.example', from: '', to: [] });
});

test('addresses are told apart by commas, semicolons and lines', () => {
  const draft = { ...NEW_ALERT, type: 'email' as const, to: 'a@b.example; c@d.example,\n e@f.example ' };
  expect(creationOf(draft)['settings']).toMatchObject({ to: ['a@b.example', 'c@d.example', 'e@f.example'] });
});
