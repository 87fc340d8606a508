import { describe, expect, it } from 'vitest';
import { alertSchema } from './alert-schema.ts';

const problemsOf = (server: string) => {
  const settings = { server, from: 'a@b.example', to: ['c@d.example'] };
  const { error } = alertSchema.safeParse({ name: 'mail', type: 'email', settings });
  return error?.issues.map(({ path, message }) => `${path.join('.')}: ${message}`) ?? [];
};

describe('the mail server of an alert', () => {
  it.each(['smtps://smtp.example.com', 'smtp://10.0.0.5:25', 'smtp://[2001:db8::1]:587'])(
    'may be %s',
    (server) => expect(problemsOf(server)).toEqual([]),
  );

  it.each(['smtp://[8933bC4FeA]', 'smtp://[1::2::3]', 'smtp://mail.example.com:99999', 'smtp://10.0.0.500'])(
    'is not %s, to which no mail could be sent',
    (server) =>
      expect(problemsOf(server)).toEqual([expect.stringMatching(/^settings\.server: must be a mail server/)]),
  );
});
