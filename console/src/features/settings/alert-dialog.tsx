import { useState } from 'react';
import { ApiError, sentence } from '../../api/client.ts';
import { Segmented } from '../../ui/controls.tsx';
import { FormDialog } from '../../ui/dialog.tsx';
import { Check, TextField } from '../../ui/form-fields.tsx';
import { toast } from '../../ui/toast.tsx';
import { Conditions, MailFields, Timing, WebhookFields } from './alert-fields.tsx';
import { type AlertDraft, bodyOf, draftOf, NEW_ALERT } from './alert-form.ts';
import { type Alert, useSaveAlert } from './queries.ts';

/** Makes an alert, or changes `alert`. */
export function AlertDialog({ alert, onClose }: { readonly alert?: Alert; readonly onClose: () => void }) {
  const [draft, setDraft] = useState(() => (alert === undefined ? NEW_ALERT : draftOf(alert)));
  const save = useSaveAlert();
  const change = (part: Partial<AlertDraft>) => setDraft((before) => ({ ...before, ...part }));
  const submit = async (): Promise<void> => {
    await save.mutateAsync({
      ...(alert === undefined ? {} : { name: alert.name }),
      body: bodyOf(draft, alert),
    });
    toast(alert === undefined ? `The alert ${draft.name} is made.` : `The alert ${draft.name} is changed.`);
    onClose();
  };
  const fields = save.error instanceof ApiError ? save.error.fields : [];
  const errorAt = (path: string) => fields.find((fault) => fault.path.startsWith(`body.${path}`))?.message;
  return (
    <FormDialog
      title={alert === undefined ? 'New alert' : `Change the alert ${alert.name}`}
      action={alert === undefined ? 'Make alert' : 'Save'}
      isReady={draft.name.trim() !== ''}
      onSubmit={submit}
      onClose={onClose}
    >
      <TextField
        label="Name"
        value={draft.name}
        error={errorAt('name')}
        disabled={alert !== undefined}
        onChange={(name) => change({ name })}
      />
      <div className="field">
        <span className="lbl">Sent by</span>
        <Segmented
          label="Sent by"
          value={draft.type}
          options={[
            { value: 'webhook', label: 'webhook' },
            { value: 'email', label: 'e-mail' },
          ]}
          onChange={(type) => change({ type })}
        />
      </div>
      {draft.type === 'webhook' ? (
        <WebhookFields {...{ draft, change, errorAt, alert }} />
      ) : (
        <MailFields {...{ draft, change, errorAt, alert }} />
      )}
      <Conditions draft={draft} change={change} />
      <Timing {...{ draft, change, errorAt }} />
      <Check isChecked={draft.enabled} onChange={(enabled) => change({ enabled })}>
        Enabled: what happens is told
      </Check>
      {save.error !== null && fields.length === 0 && (
        <p className="bad" role="alert">
          {sentence(save.error)}
        </p>
      )}
    </FormDialog>
  );
}
