import { type FormEvent, useState } from 'react';
import { ApiError } from '../../api/client.ts';
import { Button } from '../../ui/controls.tsx';
import { Failure, Notice } from '../../ui/empty-state.tsx';
import { TextField } from '../../ui/form-fields.tsx';
import { HowItIsSent, SourceChoice, WhatItGets } from './destination-fields.tsx';
import { EndpointFields } from './endpoint-fields.tsx';
import { type DestinationDraft, type FieldFault, faultOf, otherFaults } from './form.ts';
import { SecretFields } from './secret-fields.tsx';

/** Parts of the record that a field below shows the mistakes of. */
const SHOWN = [
  'name',
  'sources',
  'settings.endpoints',
  'settings.sharedSecret',
  'settings.signingSecrets',
  'settings.filter',
  'settings.rateLimit',
  'settings.concurrency',
];

interface DestinationFormProps {
  readonly initial: DestinationDraft;
  readonly isNew: boolean;
  /** Rejects with what the server finds wrong. */
  readonly onSave: (draft: DestinationDraft) => Promise<unknown>;
  readonly onCancel?: () => void;
  /** Told what stands in it when that changes. */
  readonly onChange?: (draft: DestinationDraft) => void;
  /** The first values of the fields; `initial` when absent. */
  readonly begun?: DestinationDraft;
}

/** Every setting of a destination; the server's objections stand beside the fields they are about. */
export function DestinationForm(props: DestinationFormProps) {
  const { initial, isNew, onSave, onCancel, onChange, begun = initial } = props;
  const [draft, setDraft] = useState(begun);
  const [failure, setFailure] = useState<unknown>();
  const [isSaving, setIsSaving] = useState(false);
  const put = (next: DestinationDraft) => {
    setDraft(next);
    onChange?.(next);
  };
  const change = (part: Partial<DestinationDraft>) => put({ ...draft, ...part });
  const faults = failure instanceof ApiError ? failure.fields : [];
  const isChanged = JSON.stringify(draft) !== JSON.stringify(initial);
  const save = async (event: FormEvent) => {
    event.preventDefault();
    setIsSaving(true);
    setFailure(undefined);
    try {
      await onSave(draft);
    } catch (error) {
      setFailure(error);
    }
    setIsSaving(false);
  };
  return (
    <form className="form stack" onSubmit={(event) => void save(event)} noValidate>
      {isNew && (
        <TextField
          label="Name"
          hint="Calls name it in integrations; it cannot be changed later."
          error={faultOf(faults, 'name')}
          value={draft.name}
          onChange={(name) => change({ name })}
        />
      )}
      <SourceChoice
        chosen={draft.sources}
        error={faultOf(faults, 'sources')}
        onChange={(sources) => change({ sources })}
      />
      <EndpointFields
        endpoints={draft.endpoints}
        faults={faults}
        onChange={(endpoints) => change({ endpoints })}
      />
      <SecretFields draft={draft} faults={faults} onChange={change} />
      <WhatItGets draft={draft} faults={faults} onChange={change} />
      <HowItIsSent draft={draft} faults={faults} onChange={change} />
      <Objections failure={failure} faults={faults} />
      <div className="rowx">
        <Button type="submit" kind="primary" disabled={isSaving || !isChanged}>
          {isNew ? 'Create destination' : 'Save changes'}
        </Button>
        {onCancel !== undefined && <Button onClick={onCancel}>Cancel</Button>}
        {!isNew && isChanged && <Button onClick={() => put(initial)}>Discard changes</Button>}
      </div>
    </form>
  );
}

/** Faults that no field of the form shows. */
function Objections({
  failure,
  faults,
}: {
  readonly failure: unknown;
  readonly faults: readonly FieldFault[];
}) {
  if (failure === undefined) return null;
  if (faults.length === 0) return <Failure error={failure} />;
  const others = otherFaults(faults, SHOWN);
  return (
    <Notice tone="bad">
      <p role="alert">
        Nothing was saved: {faults.length === 1 ? 'one field is' : `${faults.length} fields are`} wrong.
      </p>
      {others.map(({ path, message }) => (
        <p key={path}>
          <span className="mono">{path.replace(/^body\./, '')}</span> {message}
        </p>
      ))}
    </Notice>
  );
}
