import { useMutation } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { type ApiFault, sentence, type Tagged } from '../../api/client.ts';
import { useRecordChanges } from '../../api/records.ts';
import { useMay } from '../../api/roles.ts';
import { faultOf } from '../../editing/faults.ts';
import { FileNotice, useUntilNextStart } from '../../editing/file-records.tsx';
import { Objections } from '../../editing/objections.tsx';
import { Overtaken } from '../../editing/overtaken.tsx';
import { RestoredNotice } from '../../editing/restored-notice.tsx';
import { useEditedRecord } from '../../editing/use-edited-record.ts';
import { useSubmission } from '../../editing/use-submission.ts';
import { Button, Field, Select } from '../../ui/controls.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Choice, TextField } from '../../ui/form-fields.tsx';
import { plural } from '../../ui/format.ts';
import { toast } from '../../ui/toast.tsx';
import { SOURCE_FORM, SOURCE_LABELS, type SourceDraft } from './form.ts';
import type { SourceRecord } from './queries.ts';

/** Settings of a source. A viewer sees them without controls. */
export function SourceSettings({ stored }: { readonly stored: Tagged<SourceRecord> }) {
  const mayEdit = useMay('editor') && stored.record.system !== true;
  return mayEdit ? <SourceForm stored={stored} /> : <StoredSource source={stored.record} />;
}

function StoredSource({ source }: { readonly source: SourceRecord }) {
  const { name, enabled, mode, whenDisabled, dedupeWindow, rateLimit, ip, trust } = source;
  const { projectId = name, scriptPath = 'none of its own' } = source;
  const { rateLimitPerAddress = trust === 'client' ? 200 : 0 } = source;
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
      <dt>{SOURCE_LABELS.rateLimitPerAddress}</dt>
      <dd>{rateLimitPerAddress === 0 ? 'no limit' : `${rateLimitPerAddress} calls a second`}</dd>
      <dt>{SOURCE_LABELS.projectId}</dt>
      <dd>{projectId}</dd>
      <dt>{SOURCE_LABELS.scriptPath}</dt>
      <dd>{scriptPath}</dd>
      <dt>Address of the caller</dt>
      <dd>{ADDRESS_RULES.find(({ value }) => value === ip)?.label ?? ip}</dd>
      <dt>Its write keys are</dt>
      <dd>{TRUSTS.find(({ value }) => value === trust)?.label ?? trust}</dd>
      <dt>{SOURCE_LABELS.consent}</dt>
      <dd>{CONSENTS.find(({ value }) => value === (source.consent ?? 'given'))?.label}</dd>
    </dl>
  );
}

/** The meaning of calls that say nothing of consent. */
const CONSENTS: readonly { readonly value: SourceDraft['consent']; readonly label: string }[] = [
  { value: 'given', label: 'goes to every destination' },
  { value: 'required', label: 'consents to nothing' },
];

/** The choices for the caller's address, which is `context.ip`. */
const ADDRESS_RULES: readonly { readonly value: SourceRecord['ip']; readonly label: string }[] = [
  { value: 'keep', label: 'kept, and filled in for browsers and phones' },
  { value: 'shorten', label: 'as kept, but only its beginning' },
  { value: 'drop', label: 'never stored' },
  { value: 'direct', label: 'filled in where a call asks with context.direct' },
];

/** The trust of a source, by who can have its write keys. Only calls of a `server` source join users. */
const TRUSTS: readonly { readonly value: SourceRecord['trust']; readonly label: string }[] = [
  { value: 'client', label: 'in a website or an app, so they are public' },
  { value: 'server', label: 'in our own programs alone, so they are secret' },
];

/** Parts of the record whose mistakes a field below shows. */
const SHOWN = [
  'dedupeWindow',
  'rateLimit',
  'rateLimitPerAddress',
  'projectId',
  'scriptPath',
  'forwarded.sharedSecret',
];

function SourceForm({ stored }: { readonly stored: Tagged<SourceRecord> }) {
  const record = { list: 'sources', name: stored.record.name } as const;
  const until = useUntilNextStart(record);
  const edited = useEditedRecord(SOURCE_FORM, stored);
  const { base, draft, isChanged, overtaken, restored, put, restart } = edited;
  const { form, faults, failure, isSaving, submit } = useSubmission(async () => {
    await edited.save();
    toast(`Saved${until}. The next call is taken with it.`);
  });
  const change = (part: Partial<SourceDraft>) => put({ ...draft, ...part });
  return (
    <div className="stack">
      <FileNotice {...record} />
      <RestoredNotice restored={restored} onDrop={() => restart()} />
      {overtaken !== undefined && (
        <Overtaken noun="source" versions={overtaken} labels={SOURCE_LABELS} onGoOn={restart} />
      )}
      <form ref={form} className="form stack" onSubmit={(event) => void submit(event)}>
        <SourceFields draft={draft} faults={faults} onChange={change} />
        <Objections failure={failure} faults={faults} shown={SHOWN} />
        <div className="rowx">
          <Button kind="primary" type="submit" disabled={isSaving || !isChanged}>
            {`Save changes${until}`}
          </Button>
          {isChanged && <Button onClick={() => put(base)}>Discard changes</Button>}
          <SourceSwitch source={stored.record} />
          <RemoveSource stored={stored} />
        </div>
      </form>
    </div>
  );
}

interface SourceFieldsProps {
  readonly draft: SourceDraft;
  readonly faults: readonly ApiFault[];
  readonly onChange: (part: Partial<SourceDraft>) => void;
}

function SourceFields({ draft, faults, onChange }: SourceFieldsProps) {
  return (
    <>
      <Choice
        label={SOURCE_LABELS.mode}
        value={draft.mode}
        options={[
          { value: 'standard', label: 'keeps its valid ones' },
          { value: 'strict', label: 'is refused as a whole' },
        ]}
        onChange={(mode) => onChange({ mode })}
      />
      <Choice
        label={SOURCE_LABELS.whenDisabled}
        value={draft.whenDisabled}
        options={[
          { value: 'refuse', label: 'refused (401)' },
          { value: 'discard', label: 'discarded (200)' },
        ]}
        onChange={(whenDisabled) => onChange({ whenDisabled })}
      />
      <div className="two">
        <TextField
          label={SOURCE_LABELS.dedupeWindow}
          hint="Such as 24h or 7d."
          error={faultOf(faults, 'dedupeWindow')}
          placeholder="24h"
          value={draft.dedupeWindow}
          onChange={(dedupeWindow) => onChange({ dedupeWindow })}
        />
        <TextField
          label={SOURCE_LABELS.rateLimit}
          hint="Empty: no limit."
          error={faultOf(faults, 'rateLimit')}
          inputMode="numeric"
          value={draft.rateLimit}
          onChange={(rateLimit) => onChange({ rateLimit })}
        />
        <TextField
          label={SOURCE_LABELS.rateLimitPerAddress}
          hint="Calls a second, 0: no limit. Empty: 200 for public keys, no limit for secret ones."
          error={faultOf(faults, 'rateLimitPerAddress')}
          inputMode="numeric"
          value={draft.rateLimitPerAddress}
          onChange={(rateLimitPerAddress) => onChange({ rateLimitPerAddress })}
        />
        <TextField
          label={SOURCE_LABELS.projectId}
          hint="For receivers built on webhooks of Segment. Empty: the name of the source."
          error={faultOf(faults, 'projectId')}
          value={draft.projectId}
          onChange={(projectId) => onChange({ projectId })}
        />
        <TextField
          label={SOURCE_LABELS.scriptPath}
          hint="By which pages load the browser library, such as /acme/shop.js. Empty: the usual path alone."
          error={faultOf(faults, 'scriptPath')}
          value={draft.scriptPath}
          onChange={(scriptPath) => onChange({ scriptPath })}
        />
      </div>
      <Choice
        label={SOURCE_LABELS.consent}
        value={draft.consent}
        options={CONSENTS}
        onChange={(consent) => onChange({ consent })}
      />
      <Field label={SOURCE_LABELS.ip} hint="It holds for the calls that come from now on.">
        {(control) => (
          <Select
            {...control}
            value={draft.ip}
            options={ADDRESS_RULES}
            onChange={(ip) => onChange({ ip: ip as SourceRecord['ip'] })}
          />
        )}
      </Field>
      <Field label={SOURCE_LABELS.trust} hint="Calls with public keys join no users.">
        {(control) => (
          <Select
            {...control}
            value={draft.trust}
            options={TRUSTS}
            onChange={(trust) => onChange({ trust: trust as SourceRecord['trust'] })}
          />
        )}
      </Field>
    </>
  );
}

function SourceSwitch({ source: { name, enabled } }: { readonly source: SourceRecord }) {
  const { update } = useRecordChanges('sources', name);
  const until = useUntilNextStart({ list: 'sources', name });
  const turn = useMutation({
    mutationFn: async (to: boolean) => await update(() => ({ enabled: to })),
    onSuccess: (_, to) =>
      toast(to ? `${name} is enabled${until}.` : `${name} is disabled${until}: its calls are not taken.`),
    onError: (error) => toast(sentence(error)),
  });
  return (
    <Button disabled={turn.isPending} onClick={() => turn.mutate(!enabled)}>
      {enabled ? 'Disable' : 'Enable'}
    </Button>
  );
}

function RemoveSource({ stored: { record, tag } }: { readonly stored: Tagged<SourceRecord> }) {
  const { name, writeKeys } = record;
  const [isAsking, setIsAsking] = useState(false);
  const { remove } = useRecordChanges('sources', name);
  const navigate = useNavigate();
  return (
    <>
      <Button kind="danger" className="push" onClick={() => setIsAsking(true)}>
        Remove source…
      </Button>
      {isAsking && (
        <ConfirmDialog
          title={`Remove ${name}`}
          action="Remove source"
          typed={name}
          isDangerous
          onConfirm={async () => {
            await remove(tag);
            toast(`${name} is removed. What it sent stays.`);
            await navigate({ to: '/sources' });
          }}
          onClose={() => setIsAsking(false)}
        >
          <p>
            {plural(writeKeys.length, 'write key is', 'write keys are')} unknown from then on, and calls with{' '}
            {writeKeys.length === 1 ? 'it' : 'them'} are refused. What {name} sent stays stored, and is still
            delivered.
          </p>
        </ConfirmDialog>
      )}
    </>
  );
}
