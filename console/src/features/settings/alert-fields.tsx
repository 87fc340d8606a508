import { Checks, TextField } from '../../ui/form-fields.tsx';
import { type AlertDraft, CONDITIONS } from './alert-form.ts';
import type { Alert } from './queries.ts';

interface FieldsProps {
  readonly draft: AlertDraft;
  readonly change: (part: Partial<AlertDraft>) => void;
  readonly errorAt: (path: string) => string | undefined;
  readonly alert?: Alert | undefined;
}

export function WebhookFields({ draft, change, errorAt, alert }: FieldsProps) {
  const isSigned =
    alert !== undefined && 'url' in alert.settings && alert.settings.signingSecrets !== undefined;
  return (
    <>
      <TextField
        label="URL"
        value={draft.url}
        error={errorAt('settings.url')}
        placeholder="https://example.com/alerts"
        onChange={(url) => change({ url })}
      />
      <TextField
        label="Signing secret"
        value={draft.signingSecret}
        error={errorAt('settings.signingSecrets')}
        hint={
          isSigned
            ? 'One is set. Leave this empty to keep it.'
            : 'whsec_ and base64, as the Standard Webhooks scheme has it. Empty: not signed.'
        }
        onChange={(signingSecret) => change({ signingSecret })}
      />
    </>
  );
}

export function MailFields({ draft, change, errorAt, alert }: FieldsProps) {
  const hasPassword =
    alert !== undefined && 'server' in alert.settings && alert.settings.password !== undefined;
  return (
    <>
      <TextField
        label="Mail server"
        value={draft.server}
        error={errorAt('settings.server')}
        hint="smtps://smtp.example.com, or smtp:// with STARTTLS."
        onChange={(server) => change({ server })}
      />
      <div className="two">
        <TextField
          label="User"
          value={draft.user}
          error={errorAt('settings.user')}
          onChange={(user) => change({ user })}
        />
        <TextField
          label="Password"
          type="password"
          autoComplete="new-password"
          value={draft.password}
          error={errorAt('settings.password')}
          hint={hasPassword ? 'One is set. Leave this empty to keep it.' : 'Sent over TLS only.'}
          onChange={(password) => change({ password })}
        />
      </div>
      <TextField
        label="From"
        value={draft.from}
        error={errorAt('settings.from')}
        onChange={(from) => change({ from })}
      />
      <TextField
        label="To"
        value={draft.to}
        error={errorAt('settings.to')}
        hint="Addresses with commas between them."
        onChange={(to) => change({ to })}
      />
    </>
  );
}

export function Conditions({ draft, change }: Pick<FieldsProps, 'draft' | 'change'>) {
  const names = Object.keys(CONDITIONS) as (keyof typeof CONDITIONS)[];
  return (
    <fieldset className="plain">
      <legend className="lbl">Tells when</legend>
      <Checks
        names={names}
        chosen={draft.on}
        labelOf={(name) => CONDITIONS[name]}
        isColumn
        onChange={(on) => change({ on })}
      />
    </fieldset>
  );
}

export function Timing({ draft, change, errorAt }: FieldsProps) {
  return (
    <div className="two">
      <TextField
        label="After"
        value={draft.after}
        error={errorAt('after')}
        hint="A change that lasts less is not told."
        onChange={(after) => change({ after })}
      />
      <TextField
        label="Remind every"
        value={draft.remindEvery}
        error={errorAt('remindEvery')}
        hint="While it goes on."
        onChange={(remindEvery) => change({ remindEvery })}
      />
    </div>
  );
}
