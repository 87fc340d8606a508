import { useMutation, useQuery } from '@tanstack/react-query';
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { sentence, type Tagged } from '../../api/client.ts';
import { destinationsQuery } from '../../api/queries.ts';
import { recordQuery, useRecordChanges } from '../../api/records.ts';
import { useMay } from '../../api/roles.ts';
import { FileMark, FileNotice, useUntilNextStart } from '../../editing/file-records.tsx';
import { Overtaken } from '../../editing/overtaken.tsx';
import { RestoredNotice } from '../../editing/restored-notice.tsx';
import { useEditedRecord } from '../../editing/use-edited-record.ts';
import { Button } from '../../ui/controls.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Failure, Notice, SkeletonRows } from '../../ui/empty-state.tsx';
import { exactNumber, plural } from '../../ui/format.ts';
import { Crumbs, Page, Section } from '../../ui/page.tsx';
import { RecordChanges } from '../../ui/record-changes.tsx';
import { StateMark } from '../../ui/state-mark.tsx';
import { toast } from '../../ui/toast.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { COMPUTATION_FORMS, COMPUTATION_LABELS } from './computation-draft.ts';
import { ComputationForm } from './computation-form.tsx';
import { ComputationState } from './computation-state.tsx';
import { DefinitionText } from './definition-editor.tsx';
import { Members } from './members.tsx';
import type { Computation, Kind } from './queries.ts';
import '../../ui/progress.css';

const audienceRoute = getRouteApi('/shell/users/audiences/$name');

const traitRoute = getRouteApi('/shell/users/traits/$name');

export function AudiencePage() {
  return <ComputationPage kind="audiences" name={audienceRoute.useParams().name} />;
}

export function TraitPage() {
  return <ComputationPage kind="traits" name={traitRoute.useParams().name} />;
}

const LISTS = { audiences: '/users/audiences', traits: '/users/traits' } as const;

const TITLES = { audiences: 'Audiences', traits: 'Computed traits' } as const;

interface ComputationPageProps {
  readonly kind: Kind;
  readonly name: string;
}

function ComputationPage({ kind, name }: ComputationPageProps) {
  const { data: stored, error } = useQuery(recordQuery(kind, name));
  const data = stored?.record;
  // The form lists them, and what is below it would jump.
  const destinations = useQuery(destinationsQuery);
  return (
    <Page
      title={visibleLine(name)}
      crumbs={
        <Crumbs>
          <Link to="/users">Users</Link>
          <Link to={LISTS[kind]} search={{}}>
            {TITLES[kind]}
          </Link>
          <span>{visibleLine(name)}</span>
        </Crumbs>
      }
      about={
        data !== undefined && (
          <>
            <ComputationState computation={data} isBadge />
            <FileMark list={kind} name={name} />
            <span className="tok clip" title="The trait that destinations get">
              {data.key}
            </span>
          </>
        )
      }
      actions={stored !== undefined && <Actions kind={kind} stored={stored} />}
    >
      {error !== null && <Failure error={error} />}
      {stored === undefined || destinations.isPending ? (
        error === null && <SkeletonRows />
      ) : (
        <Contents kind={kind} stored={stored} />
      )}
    </Page>
  );
}

interface StoredProps {
  readonly kind: Kind;
  readonly stored: Tagged<Computation>;
}

function Contents({ kind, stored }: StoredProps) {
  const { record: computation } = stored;
  const { name, state, reason, progress, definition } = computation;
  const mayEdit = useMay('editor');
  return (
    <>
      {reason !== undefined && <Notice tone={state === 'failed' ? 'bad' : 'warn'}>{reason}</Notice>}
      {state === 'computing' && (
        <progress className="bar-progress" max={1} value={progress} aria-label="Stored events counted">
          {Math.floor(progress * 100)} %
        </progress>
      )}
      {mayEdit ? (
        <EditedComputation key={name} kind={kind} stored={stored} />
      ) : (
        <DefinitionText definition={definition} />
      )}
      <div className="side">
        <Members kind={kind} computation={computation} />
        <Sync computation={computation} />
      </div>
      <Section title="Changes">
        <RecordChanges kind={kind === 'audiences' ? 'audience' : 'trait'} name={name} />
      </Section>
    </>
  );
}

function EditedComputation({ kind, stored }: StoredProps) {
  const record = { list: kind, name: stored.record.name };
  const until = useUntilNextStart(record);
  const edited = useEditedRecord(COMPUTATION_FORMS[kind], stored);
  const { base, draft, isChanged, overtaken, restored, put, restart, save } = edited;
  return (
    <>
      <FileNotice {...record} />
      <RestoredNotice restored={restored} onDrop={() => restart()} />
      {overtaken !== undefined && (
        <Overtaken
          noun={kind === 'audiences' ? 'audience' : 'computed trait'}
          versions={overtaken}
          labels={COMPUTATION_LABELS}
          onGoOn={restart}
        />
      )}
      <ComputationForm
        kind={kind}
        action={`Save and sync${until}`}
        draft={draft}
        stored={{ name: stored.record.name, isChanged, onDiscard: () => put(base) }}
        onChange={put}
        onSave={async () => {
          await save();
          toast(`Saved${until}. It counts the stored events now.`);
        }}
      />
    </>
  );
}

/** Deliveries that its destinations are still owed. */
function Sync({ computation: { key, sync } }: { readonly computation: Computation }) {
  return (
    <Section title="Sync">
      {sync.length === 0 ? (
        <p className="dim">No destination is told.</p>
      ) : (
        <div className="box bleed">
          <table className="tbl">
            <tbody>
              {sync.map(({ destination, pending }) => (
                <tr key={destination}>
                  <td className="w">
                    <Link to="/destinations/$name" params={{ name: destination }} className="med">
                      {visibleLine(destination)}
                    </Link>
                  </td>
                  <td>
                    <StateMark
                      state={pending === 0 ? 'healthy' : 'pending'}
                      label={pending === 0 ? 'up to date' : `${exactNumber(pending)} wait`}
                    />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <p className="hint">
        Changes only, as the trait <span className="mono wrap-any">{key}</span>. What waits counts all events
        of the destination.
      </p>
    </Section>
  );
}

function Actions({ kind, stored: { record, tag } }: StoredProps) {
  const { name, enabled, members, destinations } = record;
  const [isRemoving, setIsRemoving] = useState(false);
  const { update, remove } = useRecordChanges(kind, name);
  const until = useUntilNextStart({ list: kind, name });
  const turn = useMutation({
    mutationFn: async (to: boolean) => await update(() => ({ enabled: to })),
    onSuccess: (_, to) => toast(`${name} is ${to ? 'enabled' : 'disabled'}${until}.`),
    onError: (error) => toast(sentence(error)),
  });
  const navigate = useNavigate();
  if (!useMay('editor')) return null;
  return (
    <>
      <Button disabled={turn.isPending} onClick={() => turn.mutate(!enabled)}>
        {enabled ? 'Disable' : 'Enable'}
      </Button>
      <Button kind="danger" onClick={() => setIsRemoving(true)}>
        Remove…
      </Button>
      {isRemoving && (
        <ConfirmDialog
          title={`Remove ${name}`}
          action="Remove"
          typed={name}
          isDangerous
          onConfirm={async () => {
            await remove(tag);
            await navigate({ to: LISTS[kind], search: {} });
          }}
          onClose={() => setIsRemoving(false)}
        >
          <p>
            {plural(members, 'user')} {members === 1 ? 'has' : 'have'} it now.{' '}
            {plural(destinations.length, 'destination hears', 'destinations hear')} nothing more of it; what
            they were told stays with them.
          </p>
        </ConfirmDialog>
      )}
    </>
  );
}
