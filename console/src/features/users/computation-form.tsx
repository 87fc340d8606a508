import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { type FormEvent, useEffect, useMemo, useState } from 'react';
import { ApiError } from '../../api/client.ts';
import { Button } from '../../ui/controls.tsx';
import { Failure } from '../../ui/empty-state.tsx';
import { Check, TextField } from '../../ui/form-fields.tsx';
import { Crumbs, Page } from '../../ui/page.tsx';
import { toast } from '../../ui/toast.tsx';
import { DefinitionField, type Draft, definitionOf, draftOf } from './definition-field.tsx';
import { mistakeOf } from './mistakes.ts';
import { consequence, PreviewBox } from './preview.tsx';
import { type Computation, type Kind, previewQuery, useSaveComputation } from './queries.ts';
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

/** A preview is asked for when nothing was typed for so long, in milliseconds. */
const PAUSE = 400;

interface ComputationFormProps {
  readonly kind: Kind;
  /** Absent: a new one. */
  readonly stored?: Computation;
  readonly onSaved: (name: string) => void;
}

/** Name, definition with a live preview, and who is told. */
export function ComputationForm({ kind, stored, onSaved }: ComputationFormProps) {
  const [name, setName] = useState(stored?.name ?? '');
  const hasBuilder = kind === 'audiences';
  const [draft, setDraft] = useState(() => draftOf(stored, hasBuilder));
  const definition = useMemo(() => definitionOf(draft), [draft]);
  const [destinations, setDestinations] = useState<readonly string[]>(stored?.destinations ?? []);
  const [includeAnonymous, setIncludeAnonymous] = useState(stored?.includeAnonymous ?? false);
  const save = useSaveComputation(kind);
  const settled = useSettled(definition);
  const preview = useQuery(
    previewQuery(kind, {
      definition: settled ?? '',
      ...(stored === undefined ? {} : { name: stored.name }),
      ...(kind === 'audiences' ? { includeAnonymous } : {}),
    }),
  );
  const mistake = mistakeOf(save.error) ?? mistakeOf(preview.error);
  const failure = mistakeOf(save.error) === undefined ? save.error : null;
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const body = { definition, destinations, ...(kind === 'audiences' ? { includeAnonymous } : {}) };
    const saved = await save.mutateAsync(
      stored === undefined ? { body: { name: name.trim(), ...body } } : { name: stored.name, body },
    );
    toast('Saved. It counts the stored events now.');
    onSaved(saved.name);
  };
  const change = (next: Draft) => {
    save.reset();
    setDraft(next);
  };
  const isSettled = settled === definition && !preview.isPlaceholderData;
  return (
    <form className="side" onSubmit={(event) => void submit(event).catch(() => undefined)}>
      <div className="stack">
        {stored === undefined && (
          <TextField
            label="Name"
            hint="Destinations get it as a trait named after it; it cannot be changed later."
            error={faultOf(save.error, 'body.name')}
            value={name}
            onChange={setName}
          />
        )}
        <DefinitionField
          draft={draft}
          hasBuilder={hasBuilder}
          label={hasBuilder ? 'Who belongs' : 'Value'}
          mistake={settled === definition ? mistake : undefined}
          understood={isSettled && preview.error === null ? preview.data : undefined}
          onChange={change}
        />
        {draft.form === 'text' && (
          <div className="rowx">
            <span className="hint">Such as</span>
            {EXAMPLES[kind].map((text) => (
              <button key={text} type="button" className="tok" onClick={() => change({ form: 'text', text })}>
                {text}
              </button>
            ))}
          </div>
        )}
        {kind === 'audiences' && (
          <Check isChecked={includeAnonymous} onChange={setIncludeAnonymous}>
            Users without a userId may be members
          </Check>
        )}
        <Told chosen={destinations} onChange={setDestinations} />
        {failure !== null && <Failure error={failure} />}
        <div className="rowx">
          <Button
            kind="primary"
            type="submit"
            disabled={
              save.isPending || definition === undefined || (stored === undefined && name.trim() === '')
            }
          >
            Save and sync
          </Button>
          {preview.data !== undefined && (
            <span className="soft">{consequence(preview.data, destinations.length)}</span>
          )}
        </div>
      </div>
      <aside className="stack">
        <PreviewBox
          preview={preview.error === null ? preview.data : undefined}
          isStale={preview.isFetching || settled !== definition}
          isCompared={stored !== undefined}
        />
      </aside>
    </form>
  );
}

function faultOf(error: unknown, path: string): string | undefined {
  return error instanceof ApiError ? error.fields.find((one) => one.path === path)?.message : undefined;
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

const LISTS = { audiences: '/users/audiences', traits: '/users/traits' } as const;

const RECORDS = { audiences: '/users/audiences/$name', traits: '/users/traits/$name' } as const;

export function NewComputation({ kind, title }: { readonly kind: Kind; readonly title: string }) {
  const navigate = useNavigate();
  return (
    <Page
      title={title}
      crumbs={
        <Crumbs>
          <Link to="/users">Users</Link>
          <Link to={LISTS[kind]} search={{}}>
            {kind === 'audiences' ? 'Audiences' : 'Computed traits'}
          </Link>
          <span>new</span>
        </Crumbs>
      }
    >
      <ComputationForm
        kind={kind}
        onSaved={(name) => void navigate({ to: RECORDS[kind], params: { name } })}
      />
    </Page>
  );
}
