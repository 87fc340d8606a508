import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { sourcesQuery } from '../../api/queries.ts';
import { Field, Segmented, TextInput } from '../../ui/controls.tsx';
import { CALL_TYPES, type DestinationDraft, type FieldFault, faultOf } from './form.ts';

interface PartProps {
  readonly draft: DestinationDraft;
  readonly faults: readonly FieldFault[];
  readonly onChange: (change: Partial<DestinationDraft>) => void;
}

export function WhatItGets({ draft, faults, onChange }: PartProps) {
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

export function HowItIsSent({ draft, faults, onChange }: PartProps) {
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

export function SourceChoice({ chosen, error, onChange }: SourceChoiceProps) {
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
