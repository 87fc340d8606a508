import { queryOptions, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { type ApiFault, answer, api, type Tagged } from '../../api/client.ts';
import { faultOf } from '../../editing/faults.ts';
import { isSame } from '../../editing/fields.ts';
import { FileNotice, useUntilNextStart } from '../../editing/file-records.tsx';
import { Objections } from '../../editing/objections.tsx';
import { Overtaken } from '../../editing/overtaken.tsx';
import { RestoredNotice } from '../../editing/restored-notice.tsx';
import { useEditedRecord } from '../../editing/use-edited-record.ts';
import { useSubmission } from '../../editing/use-submission.ts';
import { Button } from '../../ui/controls.tsx';
import { Check, Choice, TextField } from '../../ui/form-fields.tsx';
import { toast } from '../../ui/toast.tsx';
import { SourceChoice } from './destination-fields.tsx';
import type { Destination } from './form.ts';
import {
  isStoredSecret,
  PLAIN_FORM,
  PLAIN_LABELS,
  type PlainDraft,
  type PlainField,
  plainFieldsOf,
  textOf,
  typedValue,
} from './plain-form.ts';
import { useCreateDestination } from './queries.ts';

/** The server's description of its API. */
export const descriptionQuery = queryOptions({
  queryKey: ['description'],
  queryFn: async ({ signal }) => await answer(api.GET('/api/openapi.json', { signal })),
  staleTime: Number.POSITIVE_INFINITY,
});

/** The settings of a type that has no form of its own: a field for each, as the server describes them. */
export function PlainSettings({ stored }: { readonly stored: Tagged<Destination> }) {
  const { base, draft, overtaken, restored, put, restart, save } = useEditedRecord(PLAIN_FORM, stored);
  const record = { list: 'destinations', name: stored.record.name } as const;
  const until = useUntilNextStart(record);
  const { data: description } = useQuery(descriptionQuery);
  const fields = plainFieldsOf(description, stored.record.type);
  const { form, isSaving, failure, faults, submit } = useSubmission(async () => {
    await save();
    toast(`Saved${until}.`);
  });
  const isChanged = !isSame(base, draft);
  return (
    <div className="stack">
      <FileNotice {...record} />
      <RestoredNotice restored={restored} onDrop={() => restart()} />
      {overtaken !== undefined && (
        <Overtaken noun="destination" versions={overtaken} labels={PLAIN_LABELS} onGoOn={restart} />
      )}
      <form ref={form} className="form stack" onSubmit={(event) => void submit(event)} noValidate>
        <SourceChoice
          chosen={draft.sources}
          error={faultOf(faults, 'sources')}
          onChange={(sources) => put({ ...draft, sources })}
        />
        <PlainControls fields={fields} draft={draft} faults={faults} onChange={put} />
        <Objections failure={failure} faults={faults} shown={['sources', ...fields.map(pathOf)]} />
        <div className="rowx">
          <Button type="submit" kind="primary" disabled={isSaving || !isChanged}>
            Save changes{until}
          </Button>
          {isChanged && <Button onClick={() => put(base)}>Discard changes</Button>}
        </div>
      </form>
    </div>
  );
}

/** The ways out of the form of a new destination. */
export interface Steps {
  readonly onMade: (name: string, sources: readonly string[]) => Promise<void>;
  readonly onCancel: () => void;
}

/** A new destination of such a type. */
export function NewPlainDestination({ type, onMade, onCancel }: Steps & { readonly type: string }) {
  const create = useCreateDestination();
  const { data: description } = useQuery(descriptionQuery);
  const fields = plainFieldsOf(description, type);
  const [draft, setDraft] = useState<PlainDraft & { readonly name: string }>(NOTHING);
  const { form, isSaving, failure, faults, submit } = useSubmission(async () => {
    await create.mutateAsync({ ...draft, type });
    await onMade(draft.name, draft.sources);
  });
  return (
    <form ref={form} className="form stack" onSubmit={(event) => void submit(event)} noValidate>
      <TextField
        label="Name"
        hint="Calls name it in integrations; it cannot be changed later."
        error={faultOf(faults, 'name')}
        value={draft.name}
        onChange={(name) => setDraft({ ...draft, name })}
      />
      <SourceChoice
        chosen={draft.sources}
        error={faultOf(faults, 'sources')}
        onChange={(sources) => setDraft({ ...draft, sources })}
      />
      <PlainControls fields={fields} draft={draft} faults={faults} onChange={setDraft} />
      <Objections failure={failure} faults={faults} shown={['name', 'sources', ...fields.map(pathOf)]} />
      <div className="rowx">
        <Button type="submit" kind="primary" disabled={isSaving}>
          Create destination
        </Button>
        <Button onClick={onCancel}>Cancel</Button>
      </div>
    </form>
  );
}

const NOTHING = { name: '', sources: [], settings: {} };

function pathOf({ key }: PlainField): string {
  return `settings.${key}`;
}

interface PlainControlsProps<Draft extends PlainDraft> {
  readonly fields: readonly PlainField[];
  readonly draft: Draft;
  readonly faults: readonly ApiFault[];
  readonly onChange: (draft: Draft) => void;
}

function PlainControls<Draft extends PlainDraft>(props: PlainControlsProps<Draft>) {
  const { fields, draft, faults, onChange } = props;
  return fields.map((field) => (
    <PlainControl
      key={field.key}
      field={field}
      value={draft.settings[field.key]}
      error={faultOf(faults, pathOf(field))}
      onChange={(value) => onChange({ ...draft, settings: { ...draft.settings, [field.key]: value } })}
    />
  ));
}

interface PlainControlProps {
  readonly field: PlainField;
  readonly value: unknown;
  readonly error: string | undefined;
  readonly onChange: (value: unknown) => void;
}

function PlainControl({ field, value, error, onChange }: PlainControlProps) {
  const { label, hint, kind, choices } = field;
  if (kind === 'flag')
    return (
      <Check isChecked={value === true} onChange={onChange}>
        {label}
      </Check>
    );
  if (kind === 'choice')
    return (
      <Choice
        label={label}
        value={textOf(value)}
        options={choices.map((choice) => ({ value: choice, label: choice }))}
        onChange={onChange}
      />
    );
  return (
    <TextField
      label={label}
      hint={isStoredSecret(value) ? `${hint} One is stored; it stays until another is typed.` : hint}
      error={error}
      value={textOf(value)}
      onChange={(text) => onChange(typedValue(text, kind))}
    />
  );
}
