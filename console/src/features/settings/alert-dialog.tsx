import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { ApiError, type ApiFault, type Tagged } from '../../api/client.ts';
import { recordQuery } from '../../api/records.ts';
import { faultOf } from '../../editing/faults.ts';
import { isSame } from '../../editing/fields.ts';
import { FileNotice, useUntilNextStart } from '../../editing/file-records.tsx';
import { Objections } from '../../editing/objections.tsx';
import { Overtaken } from '../../editing/overtaken.tsx';
import { RestoredNotice } from '../../editing/restored-notice.tsx';
import { useEditedRecord } from '../../editing/use-edited-record.ts';
import { useKeptForm } from '../../editing/use-kept-form.ts';
import { Segmented } from '../../ui/controls.tsx';
import { Dialog, FormDialog } from '../../ui/dialog.tsx';
import { Failure, SkeletonRows } from '../../ui/empty-state.tsx';
import { Check, TextField } from '../../ui/form-fields.tsx';
import { toast } from '../../ui/toast.tsx';
import { Conditions, MailFields, Timing, WebhookFields } from './alert-fields.tsx';
import {
  ALERT_FORM,
  ALERT_LABELS,
  type AlertDraft,
  creationOf,
  NEW_ALERT,
  NEW_ALERT_FORM,
} from './alert-form.ts';
import { type Alert, useCreateAlert } from './queries.ts';

export function NewAlertDialog({ onClose }: { readonly onClose: () => void }) {
  const { draft, restored, put, forget } = useKeptForm(NEW_ALERT_FORM);
  const create = useCreateAlert();
  return (
    <AlertFormDialog
      title="New alert"
      action="Make alert"
      draft={draft}
      isReady={draft.name.trim() !== ''}
      onChange={put}
      onSave={async () => {
        await create.mutateAsync(creationOf(draft));
        forget();
        toast(`The alert ${draft.name} is made.`);
      }}
      onClose={() => {
        forget();
        onClose();
      }}
    >
      <RestoredNotice restored={restored} onDrop={() => put(NEW_ALERT)} />
    </AlertFormDialog>
  );
}

interface EditAlertProps {
  readonly name: string;
  readonly onClose: () => void;
}

/** Loads the record itself, because the list has no tags. */
export function EditAlertDialog({ name, onClose }: EditAlertProps) {
  const { data: stored, error } = useQuery(recordQuery('alerts', name));
  if (stored !== undefined) return <EditedAlertDialog stored={stored} onClose={onClose} />;
  return (
    <Dialog title={`Change the alert ${name}`} onClose={onClose}>
      {error === null ? <SkeletonRows rows={3} /> : <Failure error={error} />}
    </Dialog>
  );
}

interface EditedAlertProps {
  readonly stored: Tagged<Alert>;
  readonly onClose: () => void;
}

function EditedAlertDialog({ stored, onClose }: EditedAlertProps) {
  const { base, draft, overtaken, restored, put, restart, save } = useEditedRecord(ALERT_FORM, stored);
  const { name } = stored.record;
  const record = { list: 'alerts', name } as const;
  const until = useUntilNextStart(record);
  return (
    <AlertFormDialog
      title={`Change the alert ${name}`}
      action={`Save${until}`}
      draft={draft}
      stored={stored.record}
      isReady={!isSame(base, draft)}
      onChange={put}
      onSave={async () => {
        await save();
        toast(`The alert ${name} is changed${until}.`);
      }}
      onClose={() => {
        put(base);
        onClose();
      }}
    >
      <FileNotice {...record} />
      <RestoredNotice restored={restored} onDrop={() => restart()} />
      {overtaken !== undefined && (
        <Overtaken noun="alert" versions={overtaken} labels={ALERT_LABELS} onGoOn={restart} />
      )}
    </AlertFormDialog>
  );
}

interface AlertFormDialogProps {
  readonly title: string;
  readonly action: string;
  readonly draft: AlertDraft;
  /** Absent: a new one. */
  readonly stored?: Alert;
  readonly isReady: boolean;
  readonly onChange: (draft: AlertDraft) => void;
  /** Rejects with the server's faults. */
  readonly onSave: () => Promise<unknown>;
  readonly onClose: () => void;
  /** Content above the fields. */
  readonly children?: ReactNode;
}

/** Parts of the record whose mistakes stand beside a field. */
const SHOWN = ['name', 'settings', 'after', 'remindEvery'];

function AlertFormDialog(props: AlertFormDialogProps) {
  const { title, action, draft, stored, isReady, onChange, onSave, onClose, children } = props;
  const [failure, setFailure] = useState<unknown>();
  const change = (part: Partial<AlertDraft>) => onChange({ ...draft, ...part });
  const submit = async (): Promise<void> => {
    setFailure(undefined);
    try {
      await onSave();
    } catch (error) {
      setFailure(error);
      throw error;
    }
    onClose();
  };
  const faults: readonly ApiFault[] = failure instanceof ApiError ? failure.fields : [];
  const errorAt = (path: string) => faultOf(faults, path);
  const fields = { draft, change, errorAt, alert: stored };
  return (
    <FormDialog title={title} action={action} isReady={isReady} onSubmit={submit} onClose={onClose}>
      {children}
      <TextField
        label="Name"
        value={draft.name}
        error={errorAt('name')}
        disabled={stored !== undefined}
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
      {draft.type === 'webhook' ? <WebhookFields {...fields} /> : <MailFields {...fields} />}
      <Conditions draft={draft} change={change} />
      <Timing {...fields} />
      <Check isChecked={draft.enabled} onChange={(enabled) => change({ enabled })}>
        Enabled: what happens is told
      </Check>
      <Objections failure={failure} faults={faults} shown={SHOWN} />
    </FormDialog>
  );
}
