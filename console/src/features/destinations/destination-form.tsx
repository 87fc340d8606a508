import { useQuery } from '@tanstack/react-query';
import { type FormEvent, type ReactNode, useState } from 'react';
import { ApiError } from '../../api/client.ts';
import { sourcesQuery } from '../../api/queries.ts';
import { Button, Field, Segmented, TextInput } from '../../ui/controls.tsx';
import { Failure, Notice } from '../../ui/empty-state.tsx';
import { EndpointFields } from './endpoint-fields.tsx';
import { CALL_TYPES, type DestinationDraft, type FieldFault, faultOf, otherFaults } from './form.ts';
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
}

/** Every setting of a destination; the server's objections stand beside the fields they are about. */
export function DestinationForm({ initial, isNew, onSave, onCancel }: DestinationFormProps) {
  const [draft, setDraft] = useState(initial);
  const [failure, setFailure] = useState<unknown>();
  const [isSaving, setIsSaving] = useState(false);
  const change = (part: Partial<DestinationDraft>) => setDraft((before) => ({ ...before, ...part }));
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
        <Field
          label="Name"
          hint="Calls name it in integrations; it cannot be changed later."
          error={faultOf(faults, 'name')}
        >
          {(control) => (
            <TextInput
              {...control}
              value={draft.name}
              onChange={(event) => change({ name: event.target.value })}
            />
          )}
        </Field>
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
        {!isNew && isChanged && <Button onClick={() => setDraft(initial)}>Discard changes</Button>}
      </div>
    </form>
  );
}

/** What no field shows, and what is no mistake in a field at all. */
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

interface PartProps {
  readonly draft: DestinationDraft;
  readonly faults: readonly FieldFault[];
  readonly onChange: (change: Partial<DestinationDraft>) => void;
}

function WhatItGets({ draft, faults, onChange }: PartProps) {
  return (
    <fieldset className="stack-s plain">
      <legend className="lbl">Filter</legend>
      <div className="rowx checks">
        {CALL_TYPES.map((type) => (
          <Check
            key={type}
            isChecked={draft.types.includes(type)}
            onChange={(isChecked) =>
              onChange({
                types: CALL_TYPES.filter((one) => (one === type ? isChecked : draft.types.includes(one))),
              })
            }
          >
            {type}
          </Check>
        ))}
      </div>
      <p className="hint">None ticked: calls of every type.</p>
      <Field
        label="Events"
        hint="Names of track calls, one a line; a * at the end stands for any rest. Empty: all."
        error={faultOf(faults, 'settings.filter')}
      >
        {(control) => (
          <textarea
            {...control}
            className="area mono"
            rows={3}
            spellCheck={false}
            value={draft.events}
            onChange={(event) => onChange({ events: event.target.value })}
          />
        )}
      </Field>
    </fieldset>
  );
}

function HowItIsSent({ draft, faults, onChange }: PartProps) {
  return (
    <fieldset className="stack-s plain">
      <legend className="lbl">Sending</legend>
      <div className="rowx">
        <span className="soft">A delivery succeeds with</span>
        <Segmented
          label="A delivery succeeds with"
          value={draft.success}
          options={[
            { value: 'any', label: 'any one URL' },
            { value: 'each', label: 'each URL by itself' },
          ]}
          onChange={(success) => onChange({ success })}
        />
      </div>
      <div className="rowx">
        <span className="soft">The body has</span>
        <Segmented
          label="The body has"
          value={draft.format}
          options={[
            { value: 'documented', label: 'the fields of its type' },
            { value: 'canonical', label: 'the whole event' },
          ]}
          onChange={(format) => onChange({ format })}
        />
      </div>
      <div className="two">
        <Field
          label="Requests a second"
          hint="To each URL. Empty: no limit."
          error={faultOf(faults, 'settings.rateLimit')}
        >
          {(control) => (
            <TextInput
              {...control}
              inputMode="numeric"
              value={draft.rateLimit}
              onChange={(event) => onChange({ rateLimit: event.target.value })}
            />
          )}
        </Field>
        <Field
          label="Requests at once"
          hint="To each URL. Empty: adapts, up to 256."
          error={faultOf(faults, 'settings.concurrency')}
        >
          {(control) => (
            <TextInput
              {...control}
              inputMode="numeric"
              value={draft.concurrency}
              onChange={(event) => onChange({ concurrency: event.target.value })}
            />
          )}
        </Field>
      </div>
    </fieldset>
  );
}

interface SourceChoiceProps {
  readonly chosen: readonly string[];
  readonly error: string | undefined;
  readonly onChange: (sources: readonly string[]) => void;
}

function SourceChoice({ chosen, error, onChange }: SourceChoiceProps) {
  const { data: sources = [] } = useQuery(sourcesQuery);
  // A source that was removed stays chosen, and can be taken out.
  const names = [...new Set([...sources.filter(({ system }) => !system).map(({ name }) => name), ...chosen])];
  return (
    <fieldset className="stack-s plain">
      <legend className="lbl">Sources</legend>
      <div className="rowx checks">
        {names.map((name) => (
          <Check
            key={name}
            isChecked={chosen.includes(name)}
            onChange={(isChecked) =>
              onChange(isChecked ? [...chosen, name] : chosen.filter((one) => one !== name))
            }
          >
            {name}
          </Check>
        ))}
      </div>
      {error !== undefined && (
        <p className="bad field-error" role="alert">
          {error}
        </p>
      )}
    </fieldset>
  );
}

interface CheckProps {
  readonly isChecked: boolean;
  readonly onChange: (isChecked: boolean) => void;
  readonly children: ReactNode;
}

function Check({ isChecked, onChange, children }: CheckProps) {
  return (
    <label className="check">
      <input type="checkbox" checked={isChecked} onChange={(event) => onChange(event.target.checked)} />
      {children}
    </label>
  );
}
