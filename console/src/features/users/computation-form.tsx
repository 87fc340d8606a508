import { useQuery } from '@tanstack/react-query';
import { useEffect, useMemo, useState } from 'react';
import { ApiError } from '../../api/client.ts';
import { faultOf } from '../../editing/faults.ts';
import { Objections } from '../../editing/objections.tsx';
import { useSubmission } from '../../editing/use-submission.ts';
import { Button } from '../../ui/controls.tsx';
import { Check, TextField } from '../../ui/form-fields.tsx';
import { type ComputationDraft, hasBuilder } from './computation-draft.ts';
import { type DefinitionDraft, definitionOf } from './definition-draft.ts';
import { DefinitionField } from './definition-field.tsx';
import { mistakeOf } from './mistakes.ts';
import { consequence, PreviewBox } from './preview.tsx';
import { type Kind, type PreviewRequest, previewQuery } from './queries.ts';
import { Told } from './told-destinations.tsx';

const EXAMPLES: Readonly<Record<Kind, readonly string[]>> = {
  audiences: [
    "event('Order Completed').within(30 days).count() >= 2",
    "trait('plan') = 'pro' and not event('Signed In').within(14 days)",
    "computed('total_spent') > 100",
  ],
  traits: [
    "event('Order Completed').sum(property('total'))",
    "event('Order Completed').count()",
    "page('Home').last(property('url'))",
  ],
};

/** Milliseconds without typing after which a preview is requested. */
const PAUSE = 400;

interface ComputationFormProps {
  readonly kind: Kind;
  /** Label of the button that saves. */
  readonly action: string;
  readonly draft: ComputationDraft;
  /** Absent: a new one. */
  readonly stored?: StoredFacts;
  readonly onChange: (draft: ComputationDraft) => void;
  /** Rejects with the server's faults. */
  readonly onSave: () => Promise<unknown>;
}

/** Facts about a stored computation for its form. */
interface StoredFacts {
  readonly name: string;
  readonly isChanged: boolean;
  readonly onDiscard: () => void;
}

/** Form with name, definition, live preview and destinations. */
export function ComputationForm(props: ComputationFormProps) {
  const { kind, action, draft, stored, onChange, onSave } = props;
  const { form, failure, faults, isSaving, submit, reset } = useSubmission(onSave);
  const definition = useMemo(() => definitionOf(draft.definition), [draft.definition]);
  const settled = useSettled(definition);
  const preview = useQuery(previewQuery(kind, previewOf(kind, { settled, draft, stored })));
  const refused = mistakeOf(failure);
  const mistake = refused ?? mistakeOf(preview.error);
  const change = (part: Partial<ComputationDraft>) => onChange({ ...draft, ...part });
  const changeDefinition = (next: DefinitionDraft) => {
    reset();
    change({ definition: next });
  };
  const isSettled = settled === definition && !preview.isPlaceholderData;
  const isFilled = definition !== undefined && (stored !== undefined || draft.name.trim() !== '');
  // What is stored already would change nothing.
  const isCompared = stored?.isChanged !== false;
  return (
    <form ref={form} className="side" onSubmit={(event) => void submit(event)}>
      <div className="stack">
        {stored === undefined && (
          <TextField
            label="Name"
            hint="Destinations get it as a trait named after it; it cannot be changed later."
            error={faultOf(faults, 'name')}
            value={draft.name}
            onChange={(name) => change({ name })}
          />
        )}
        <DefinitionField
          draft={draft.definition}
          hasBuilder={hasBuilder(kind)}
          label={hasBuilder(kind) ? 'Who belongs' : 'Value'}
          mistake={settled === definition ? mistake : undefined}
          understood={isSettled && preview.error === null ? preview.data : undefined}
          isAsking={definition !== undefined && (!isSettled || preview.isFetching)}
          onChange={changeDefinition}
        />
        {draft.definition.form === 'text' && (
          <Examples kind={kind} onChoose={(text) => changeDefinition({ form: 'text', text })} />
        )}
        {kind === 'audiences' && (
          <Check
            isChecked={draft.includeAnonymous}
            onChange={(includeAnonymous) => change({ includeAnonymous })}
          >
            Users without a userId may be members
          </Check>
        )}
        <Told chosen={draft.destinations} onChange={(destinations) => change({ destinations })} />
        {refused === undefined && <Objections failure={failure} faults={faults} shown={SHOWN} />}
        <div className="rowx">
          <Button kind="primary" type="submit" disabled={isSaving || !isFilled || !isCompared}>
            {action}
          </Button>
          {stored?.isChanged === true && <Button onClick={stored.onDiscard}>Discard changes</Button>}
          {preview.data !== undefined && isCompared && (
            <span className="soft">{consequence(preview.data, draft.destinations.length)}</span>
          )}
        </div>
      </div>
      <aside className="stack">
        <PreviewBox
          preview={preview.error === null ? preview.data : undefined}
          isStale={preview.isFetching || settled !== definition}
          isCompared={stored !== undefined && isCompared}
          waitsFor={
            preview.failureReason instanceof ApiError && preview.isFetching
              ? preview.failureReason.message
              : undefined
          }
        />
      </aside>
    </form>
  );
}

/** Parts of the record whose mistakes a field shows. */
const SHOWN = ['name', 'definition'];

interface PreviewOf {
  readonly settled: ReturnType<typeof definitionOf>;
  readonly draft: ComputationDraft;
  readonly stored: StoredFacts | undefined;
}

function previewOf(kind: Kind, { settled, draft, stored }: PreviewOf): PreviewRequest {
  return {
    definition: settled ?? '',
    ...(stored === undefined ? {} : { name: stored.name }),
    ...(kind === 'audiences' ? { includeAnonymous: draft.includeAnonymous } : {}),
  };
}

function Examples({ kind, onChoose }: { readonly kind: Kind; readonly onChoose: (text: string) => void }) {
  return (
    <div className="rowx">
      <span className="hint">Such as</span>
      {EXAMPLES[kind].map((text) => (
        <button key={text} type="button" className="tok" onClick={() => onChoose(text)}>
          {text}
        </button>
      ))}
    </div>
  );
}

/** A value once it has stayed the same for a while. */
function useSettled<Value>(value: Value): Value {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), PAUSE);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
