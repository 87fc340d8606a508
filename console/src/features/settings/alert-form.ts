import type { Alert } from './queries.ts';

export const CONDITIONS = {
  destination_failing: 'A destination fails, or recovers',
  deliveries_dying: 'Deliveries die',
  ledger_unbalanced: 'The ledger does not balance',
  disk_filling: 'The disk fills',
  profiles_stopped: 'Profiles stop',
} as const satisfies Readonly<Record<Alert['on'][number], string>>;

/** The fields of the form. Secrets are empty until somebody types new ones. */
export interface AlertDraft {
  readonly name: string;
  readonly type: Alert['type'];
  readonly enabled: boolean;
  readonly on: readonly Alert['on'][number][];
  readonly after: string;
  readonly remindEvery: string;
  readonly url: string;
  readonly signingSecret: string;
  readonly server: string;
  readonly user: string;
  readonly password: string;
  readonly from: string;
  /** Addresses with commas between them. */
  readonly to: string;
}

export const NEW_ALERT: AlertDraft = {
  ...{ name: '', type: 'webhook', enabled: true, after: '1m', remindEvery: '4h' },
  on: Object.keys(CONDITIONS) as Alert['on'],
  ...{ url: '', signingSecret: '', server: '', user: '', password: '', from: '', to: '' },
};

export function draftOf({ name, type, enabled, on, after, remindEvery, settings }: Alert): AlertDraft {
  const shared = { ...NEW_ALERT, name, type, enabled, on, after, remindEvery };
  if ('url' in settings) return { ...shared, url: settings.url };
  const { server, user = '', from, to } = settings;
  return { ...shared, server, user, from, to: to.join(', ') };
}

/** The body of a request. What is empty and was never set is left out, and an empty secret leaves the stored one as it is. */
export function bodyOf(draft: AlertDraft, before?: Alert): Readonly<Record<string, unknown>> {
  const { name, type, enabled, on, after, remindEvery } = draft;
  const shared = {
    name: name.trim(),
    type,
    enabled,
    on,
    after: after.trim(),
    remindEvery: remindEvery.trim(),
  };
  const settings = type === 'webhook' ? webhookSettings(draft) : mailSettings(draft, before);
  return { ...shared, settings };
}

function webhookSettings({ url, signingSecret }: AlertDraft) {
  const secret = signingSecret.trim();
  return { url: url.trim(), ...(secret === '' ? {} : { signingSecrets: [secret] }) };
}

function mailSettings({ server, user, password, from, to }: AlertDraft, before?: Alert) {
  const had = before !== undefined && 'server' in before.settings ? before.settings : undefined;
  const name = user.trim();
  const login =
    name !== ''
      ? { user: name, ...(password === '' ? {} : { password }) }
      : // A merge patch removes with null.
        {
          ...(had?.user === undefined ? {} : { user: null }),
          ...(had?.password === undefined ? {} : { password: null }),
        };
  return {
    server: server.trim(),
    ...login,
    from: from.trim(),
    to: to.split(/[\s,;]+/).filter((address) => address !== ''),
  };
}
