import { useQuery } from '@tanstack/react-query';
import { Download } from 'lucide-react';
import { useState } from 'react';
import type { Tagged } from '../../api/client.ts';
import { configQuery } from '../../api/queries.ts';
import { isOvertaken } from '../../api/records.ts';
import { useMay } from '../../api/roles.ts';
import { CodeBlock } from '../../ui/code-block.tsx';
import { Button, Field } from '../../ui/controls.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Failure, Notice, SkeletonRows } from '../../ui/empty-state.tsx';
import { Check } from '../../ui/form-fields.tsx';
import { exactNumber, plural } from '../../ui/format.ts';
import { Page, Section } from '../../ui/page.tsx';
import { RecordDiff } from '../../ui/record-diff.tsx';
import { toast } from '../../ui/toast.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { type ConfigDocument, documentOf, documentText } from './document.ts';
import { type Plan, usePlan } from './queries.ts';
import { SettingSections } from './section-tabs.tsx';
import '../../ui/table.css';

/** Page of the configuration: all records as a file, and what another file would change. */
export function ConfigurationPage() {
  const mayEdit = useMay('editor');
  return (
    <Page title="Settings">
      <SettingSections />
      <Export />
      {mayEdit && <PlanSection />}
    </Page>
  );
}

function Export() {
  const { data, error } = useQuery(configQuery);
  if (error !== null) return <Failure error={error} />;
  if (data === undefined) return <SkeletonRows />;
  const text = documentText(data);
  return (
    <Section
      title="As it is now"
      about="without its secrets"
      aside={
        <Button isSmall onClick={() => download(data)} aria-label="Download as JSON">
          <Download className="i" aria-hidden />
          JSON
        </Button>
      }
    >
      <details>
        <summary className="link">
          {plural(data.sources.length, 'source')}, {plural(data.destinations.length, 'destination')},{' '}
          {plural(data.audiences.length, 'audience')}, {plural(data.traits.length, 'computed trait')}
        </summary>
        <CodeBlock code={text} title="millrace.yaml" label="Configuration" />
      </details>
    </Section>
  );
}

/**
 * Downloads the document. A link to the API would not work: it carries the cookie without the header that
 * belongs to it.
 */
function download(document: object): void {
  const url = URL.createObjectURL(new Blob([JSON.stringify(document)], { type: 'application/json' }));
  const link = Object.assign(window.document.createElement('a'), {
    href: url,
    download: 'millrace.config.json',
  });
  link.click();
  URL.revokeObjectURL(url);
}

/** Compares a pasted file first; nothing changes before the plan is confirmed. */
function PlanSection() {
  const [text, setText] = useState('');
  const [prune, setPrune] = useState(false);
  const [isApplying, setIsApplying] = useState(false);
  const [isOvertakenPlan, setIsOvertakenPlan] = useState(false);
  const plan = usePlan();
  const document = text.trim() === '' ? undefined : documentOf(text);
  const isReadable = typeof document === 'object';
  const planned = plan.data?.record;
  const change = (next: string) => {
    plan.reset();
    setText(next);
  };
  /** Applies the shown plan; if others have changed records meanwhile, shows a new plan instead. */
  const apply = async (wanted: ConfigDocument, { tag }: Tagged<Plan>): Promise<void> => {
    setIsOvertakenPlan(false);
    try {
      await plan.mutateAsync({ document: wanted, prune, dryRun: false, tag });
    } catch (error) {
      if (!isOvertaken(error)) throw error;
      setIsOvertakenPlan(true);
      await plan.mutateAsync({ document: wanted, prune, dryRun: true });
      return;
    }
    toast('Applied.');
    setText('');
    plan.reset();
  };
  return (
    <Section title="What a file would change">
      <div className="stack-s">
        <Field
          label="Configuration file"
          hint="YAML or JSON. What stands for a secret in an export keeps the secret. It is not kept in this browser: it may have secrets."
          error={typeof document === 'string' ? document : undefined}
        >
          {(control) => (
            <textarea
              {...control}
              className="area"
              rows={8}
              spellCheck={false}
              value={text}
              onChange={({ target }) => change(target.value)}
            />
          )}
        </Field>
        <div className="rowx">
          <Check
            isChecked={prune}
            onChange={(isChecked) => {
              plan.reset();
              setPrune(isChecked);
            }}
          >
            Remove what the file does not name
          </Check>
          <Button
            disabled={!isReadable || plan.isPending}
            onClick={() => {
              setIsOvertakenPlan(false);
              if (isReadable) plan.mutate({ document, prune, dryRun: true });
            }}
          >
            Plan
          </Button>
          {planned !== undefined && planned.changes.length > 0 && (
            <Button kind="primary" onClick={() => setIsApplying(true)}>
              Apply {plural(planned.changes.length, 'change')}…
            </Button>
          )}
        </div>
        {plan.error !== null && <Failure error={plan.error} />}
        {isOvertakenPlan && (
          <Notice tone="warn">
            <p role="alert">
              Nothing was applied: somebody else has changed records since the plan was made. This is the plan
              now.
            </p>
          </Notice>
        )}
        {planned !== undefined && <PlanView plan={planned} />}
      </div>
      {isApplying && isReadable && plan.data !== undefined && (
        <ApplyDialog
          plan={plan.data.record}
          onApply={() => apply(document, plan.data)}
          onClose={() => setIsApplying(false)}
        />
      )}
    </Section>
  );
}

function PlanView({ plan: { changes, kept, disconnects, warnings } }: { readonly plan: Plan }) {
  return (
    <div className="stack-s" aria-live="polite">
      {changes.length === 0 && <Notice>Nothing would change.</Notice>}
      {disconnects.map(({ destination, owed }) => (
        <Notice key={destination} tone="warn">
          {visibleLine(destination)} is still owed {plural(owed, 'delivery', 'deliveries')}: removing it makes
          them dead letters.
        </Notice>
      ))}
      {warnings.map(({ path, message }) => (
        <Notice key={path} tone="warn">
          <span className="mono">{path}</span> {message}
        </Notice>
      ))}
      {changes.map(({ action, kind, name, before, after }) => (
        <div key={`${kind} ${name}`} className="box bleed">
          <div className="tfoot no-line">
            <span className="med ink">
              {action} {kind} {visibleLine(name)}
            </span>
          </div>
          <RecordDiff before={before} after={after} label={`${action} ${kind} ${name}`} />
        </div>
      ))}
      {kept.length > 0 && <p className="hint">Stays, though the file does not name it: {kept.join(', ')}.</p>}
    </div>
  );
}

interface ApplyDialogProps {
  readonly plan: Plan;
  readonly onApply: () => Promise<unknown>;
  readonly onClose: () => void;
}

function ApplyDialog({ plan: { changes, disconnects }, onApply, onClose }: ApplyDialogProps) {
  const removed = changes.filter(({ action }) => action === 'removed').length;
  const owed = disconnects.reduce((total, one) => total + one.owed, 0);
  return (
    <ConfirmDialog
      title={`Apply ${plural(changes.length, 'change')}`}
      action="Apply"
      isDangerous={removed > 0}
      {...(removed > 0 ? { typed: plural(removed, 'removal') } : {})}
      onConfirm={onApply}
      onClose={onClose}
    >
      <p>
        All of them or none. {removed > 0 && `${plural(removed, 'record')} would be removed. `}
        {owed > 0 && `${exactNumber(owed)} pending deliveries become dead letters.`}
      </p>
    </ConfirmDialog>
  );
}
