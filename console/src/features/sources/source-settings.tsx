import { useNavigate } from '@tanstack/react-router';
import { type FormEvent, useState } from 'react';
import { ApiError } from '../../api/client.ts';
import { useMay } from '../../api/roles.ts';
import { Button } from '../../ui/controls.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Failure } from '../../ui/empty-state.tsx';
import { Choice, TextField } from '../../ui/form-fields.tsx';
import { plural } from '../../ui/format.ts';
import { toast } from '../../ui/toast.tsx';
import { type SourceRecord, useChangeSource, useRemoveSource } from './queries.ts';

/** How calls of a source are taken. A viewer sees it without anything to press. */
export function SourceSettings({ source }: { readonly source: SourceRecord }) {
  const mayEdit = useMay('editor') && source.system !== true;
  return mayEdit ? (
    <SourceForm key={JSON.stringify(source)} source={source} />
  ) : (
    <StoredSource source={source} />
  );
}

function StoredSource({ source }: { readonly source: SourceRecord }) {
  const { enabled, mode, whenDisabled, dedupeWindow, rateLimit } = source;
  return (
    <dl className="kv">
      <dt>Enabled</dt>
      <dd>{enabled ? 'yes' : 'no'}</dd>
      <dt>Batches</dt>
      <dd>{mode}</dd>
      <dt>When disabled</dt>
      <dd>{whenDisabled}</dd>
      <dt>Duplicates within</dt>
      <dd>{dedupeWindow ?? '24h'}</dd>
      <dt>Calls a second</dt>
      <dd>{rateLimit ?? 'no limit'}</dd>
    </dl>
  );
}

function SourceForm({ source }: { readonly source: SourceRecord }) {
  const { name } = source;
  const [draft, setDraft] = useState(() => ({ ...source, rateLimit: String(source.rateLimit ?? '') }));
  const [isRemoving, setIsRemoving] = useState(false);
  const change = useChangeSource(name);
  const faults = change.error instanceof ApiError ? change.error.fields : [];
  const faultOf = (key: string) => faults.find(({ path }) => path === `body.${key}`)?.message;
  const save = async (event: FormEvent) => {
    event.preventDefault();
    const { mode, whenDisabled, dedupeWindow, rateLimit } = draft;
    await change.mutateAsync({
      mode,
      whenDisabled,
      dedupeWindow: dedupeWindow === undefined || dedupeWindow.trim() === '' ? null : dedupeWindow.trim(),
      rateLimit: rateLimit.trim() === '' ? null : Number(rateLimit),
    });
    toast('Saved. The next call is taken with it.');
  };
  const turn = async () => {
    await change.mutateAsync({ enabled: !source.enabled });
    toast(source.enabled ? `${name} is disabled: its calls are not taken.` : `${name} is enabled.`);
  };
  return (
    <form className="form stack" onSubmit={(event) => void save(event).catch(() => undefined)}>
      <Choice
        label="A batch with an invalid call"
        value={draft.mode}
        options={[
          { value: 'standard', label: 'keeps its valid ones' },
          { value: 'strict', label: 'is refused as a whole' },
        ]}
        onChange={(mode) => setDraft({ ...draft, mode })}
      />
      <Choice
        label="While disabled, calls are"
        value={draft.whenDisabled}
        options={[
          { value: 'refuse', label: 'refused (401)' },
          { value: 'discard', label: 'discarded (200)' },
        ]}
        onChange={(whenDisabled) => setDraft({ ...draft, whenDisabled })}
      />
      <div className="two">
        <TextField
          label="A repeated messageId is a duplicate within"
          hint="Such as 24h or 7d."
          error={faultOf('dedupeWindow')}
          placeholder="24h"
          value={draft.dedupeWindow ?? ''}
          onChange={(dedupeWindow) => setDraft({ ...draft, dedupeWindow })}
        />
        <TextField
          label="Calls a second"
          hint="Empty: no limit."
          error={faultOf('rateLimit')}
          inputMode="numeric"
          value={draft.rateLimit}
          onChange={(rateLimit) => setDraft({ ...draft, rateLimit })}
        />
      </div>
      {change.error !== null && <Failure error={change.error} />}
      <div className="rowx">
        <Button kind="primary" type="submit" disabled={change.isPending}>
          Save changes
        </Button>
        <Button disabled={change.isPending} onClick={() => void turn().catch(() => undefined)}>
          {source.enabled ? 'Disable' : 'Enable'}
        </Button>
        <Button kind="danger" className="push" onClick={() => setIsRemoving(true)}>
          Remove source…
        </Button>
      </div>
      {isRemoving && <RemoveSource source={source} onClose={() => setIsRemoving(false)} />}
    </form>
  );
}

function RemoveSource({ source, onClose }: { readonly source: SourceRecord; readonly onClose: () => void }) {
  const { name, writeKeys } = source;
  const remove = useRemoveSource();
  const navigate = useNavigate();
  return (
    <ConfirmDialog
      title={`Remove ${name}`}
      action="Remove source"
      typed={name}
      isDangerous
      onConfirm={async () => {
        await remove.mutateAsync(name);
        toast(`${name} is removed. What it sent stays.`);
        await navigate({ to: '/sources' });
      }}
      onClose={onClose}
    >
      <p>
        {plural(writeKeys.length, 'write key is', 'write keys are')} unknown from then on, and calls with{' '}
        {writeKeys.length === 1 ? 'it' : 'them'} are refused. What {name} sent stays stored, and is still
        delivered.
      </p>
    </ConfirmDialog>
  );
}
