import { expect, test } from 'vitest';
import { bodyOf, draftOf, NEW_ALERT } from './alert-form.ts';
import type { Alert } from './queries.ts';

const MAIL: Alert = {
  ...{ name: 'ops', type: 'email', enabled: true, on: ['disk_filling'], after: '1m', remindEvery: '4h' },
  settings: {
    ...{ server: 'smtps://mail.example', user: 'millrace', password: { set: true, hint: 'abcd' } },
    ...{ from: 'a@b.example', to: ['c@d.example', 'e@f.example'] },
  },
  ...{ open: [], isWaiting: false },
};

test('an alert that was only looked at is sent back as it is, its secret untouched', () => {
  expect(bodyOf(draftOf(MAIL), MAIL)).toEqual({
    ...{ name: 'ops', type: 'email', enabled: true, on: ['disk_filling'], after: '1m', remindEvery: '4h' },
    settings: {
      ...{ server: 'smtps://mail.example', user: 'millrace' },
      ...{ from: 'a@b.example', to: ['c@d.example', 'e@f.example'] },
    },
  });
});

test('a user that is taken away takes the password along', () => {
  const body = bodyOf({ ...draftOf(MAIL), user: '' }, MAIL);
  expect(body['settings']).toMatchObject({ user: null, password: null });
});

test('a new webhook has its secret, and none where none was typed', () => {
  const draft = { ...NEW_ALERT, name: ' on call ', url: ' https://alerts.example/ ' };
  expect(bodyOf(draft)).toMatchObject({ name: 'on call', settings: { url: 'https://alerts.example/' } });
  expect(bodyOf(draft)['settings']).not.toHaveProperty('signingSecrets');
  expect(bodyOf({ ...draft, signingSecret: 'whsec_x' })['settings']).toMatchObject({
    signingSecrets: ['whsec_x'],
  });
});

test('addresses are told apart by commas, semicolons and lines', () => {
  const draft = { ...NEW_ALERT, type: 'email' as const, to: 'a@b.example; c@d.example,\n e@f.example ' };
  expect(bodyOf(draft)['settings']).toMatchObject({ to: ['a@b.example', 'c@d.example', 'e@f.example'] });
});
