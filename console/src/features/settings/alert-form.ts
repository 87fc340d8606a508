import type { RecordPatch } from '../../api/records.ts';
import { plainAddress } from '../../editing/drafts.ts';
import { changedFields, isSame } from '../../editing/fields.ts';
import type { FieldLabels } from '../../editing/overtaken.tsx';
import type { RecordForm } from '../../editing/use-edited-record.ts';
import type { NewRecordForm } from '../../editing/use-kept-form.ts';
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

function draftOf({ name, type, enabled, on, after, remindEvery, settings }: Alert): AlertDraft {
  const shared = { ...NEW_ALERT, name, type, enabled, on, after, remindEvery };
  if ('url' in settings) return { ...shared, url: settings.url };
  const { server, user = '', from, to } = settings;
  return { ...shared, server, user, from, to: to.join(', ') };
}

/** The body that creates the alert. */
export function creationOf(draft: AlertDraft): RecordPatch {
  const { name, type, enabled, on } = draft;
  const settings = Object.entries(settingsOf(draft)).filter(([, value]) => value !== null);
  return { name: name.trim(), type, enabled, on, ...timesOf(draft), settings: Object.fromEntries(settings) };
}

/**
 * The merge patch with the changed fields. An empty secret leaves the stored one. A change of the type sends
 * all settings, so that none of the other type remain.
 */
function patchOf(base: AlertDraft, draft: AlertDraft): RecordPatch {
  const changed = changedFields(base, draft);
  const shared: RecordPatch = { type: draft.type, enabled: draft.enabled, on: draft.on, ...timesOf(draft) };
  const before = settingsOf(base);
  const isOther = base.type !== draft.type;
  const settings = Object.entries(settingsOf(draft)).filter(([key, value]) =>
    isOther ? value !== null : !isSame(value, before[key]),
  );
  return {
    ...Object.fromEntries(Object.entries(shared).filter(([name]) => (changed as string[]).includes(name))),
    ...(settings.length === 0 ? {} : { settings: Object.fromEntries(settings) }),
  };
}

function timesOf({ after, remindEvery }: AlertDraft) {
  return { after: after.trim(), remindEvery: remindEvery.trim() };
}

/** The settings of a patch; null removes a field. */
function settingsOf(draft: AlertDraft): RecordPatch {
  return draft.type === 'webhook' ? webhookSettings(draft) : mailSettings(draft);
}

function webhookSettings({ url, signingSecret }: AlertDraft): RecordPatch {
  const secret = signingSecret.trim();
  return { url: url.trim(), ...(secret === '' ? {} : { signingSecrets: [secret] }) };
}

/** Settings of a mail alert. Without a user there is no password. */
function mailSettings({ server, user, password, from, to }: AlertDraft): RecordPatch {
  const name = user.trim();
  const login = name === '' ? { user: null, password: null } : { user: name };
  return {
    server: server.trim(),
    ...login,
    ...(name === '' || password === '' ? {} : { password }),
    from: from.trim(),
    to: to.split(/[\s,;]+/).filter((address) => address !== ''),
  };
}

/** The draft without the secrets that were typed. */
function withoutSecrets(draft: AlertDraft, base: AlertDraft): AlertDraft {
  const { url, server } = draft;
  return {
    ...draft,
    url: url === base.url ? url : plainAddress(url),
    server: server === base.server ? server : plainAddress(server),
    signingSecret: '',
    password: '',
  };
}

export const ALERT_FORM: RecordForm<'alerts', AlertDraft> = {
  list: 'alerts',
  draftOf,
  patchOf,
  withoutSecrets,
};

export const NEW_ALERT_FORM: NewRecordForm<AlertDraft> = {
  key: 'alerts?new',
  blank: NEW_ALERT,
  withoutSecrets,
};

export const ALERT_LABELS: FieldLabels<AlertDraft> = {
  name: 'Name',
  type: 'Sent by',
  enabled: 'Enabled',
  on: 'Tells when',
  after: 'After',
  remindEvery: 'Remind every',
  url: 'URL',
  signingSecret: 'Signing secret',
  server: 'Mail server',
  user: 'User',
  password: 'Password',
  from: 'From',
  to: 'To',
};
