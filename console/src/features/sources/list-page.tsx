import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router';
import { Plus } from 'lucide-react';
import { ApiError, sentence } from '../../api/client.ts';
import { type Source, type Status, sourcesQuery, statusQuery } from '../../api/queries.ts';
import { useMay } from '../../api/roles.ts';
import { type NewRecordForm, useKeptForm } from '../../editing/use-kept-form.ts';
import { Field, TextInput } from '../../ui/controls.tsx';
import { FormDialog } from '../../ui/dialog.tsx';
import { EmptyState, Failure, SkeletonRows } from '../../ui/empty-state.tsx';
import { rate } from '../../ui/format.ts';
import { Page } from '../../ui/page.tsx';
import { Sparkline } from '../../ui/sparkline.tsx';
import { CountOf, StateMark } from '../../ui/state-mark.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { Num } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { sourceDaysQuery, useCreateSource } from './queries.ts';

const route = getRouteApi('/shell/sources');

interface SourceRow {
  readonly source: Source;
  readonly received: number;
  readonly accepted: number;
  readonly duplicates: number;
  readonly discarded: number;
}

/** Page of all sources with their calls. */
export function SourcesPage() {
  const sources = useQuery(sourcesQuery);
  const status = useQuery(statusQuery);
  const mayEdit = useMay('editor');
  const navigate = useNavigate();
  const { new: isMaking } = route.useSearch();
  const rows = (sources.data ?? []).map((source) => rowOf(source, status.data));
  const newButton = mayEdit && (
    <Link to="/sources" search={{ new: true }} className="btn btn-p">
      <Plus className="i" aria-hidden />
      New source
    </Link>
  );
  return (
    <Page title="Sources" actions={newButton}>
      {sources.error !== null && <Failure error={sources.error} onRetry={() => void sources.refetch()} />}
      {sources.isPending ? (
        <SkeletonRows />
      ) : rows.length === 0 ? (
        <div className="box">
          <EmptyState title="No sources yet" action={newButton}>
            A source is a website, an app or a server that sends calls. It has a write key, which the library
            of your language is given.
          </EmptyState>
        </div>
      ) : (
        <Table
          label="Sources"
          columns={COLUMNS}
          rows={rows}
          rowId={({ source }) => source.name}
          onOpen={({ source }) => void navigate({ to: '/sources/$name', params: { name: source.name } })}
          foot="received = accepted + duplicates + discarded"
        />
      )}
      {isMaking === true && mayEdit && (
        <NewSourceDialog onClose={() => void navigate({ to: '/sources', replace: true })} />
      )}
    </Page>
  );
}

function rowOf(source: Source, status: Status | undefined): SourceRow {
  const counts = Object.hasOwn(status?.sources ?? {}, source.name) ? status?.sources[source.name] : undefined;
  const { received = 0, accepted = 0, duplicates = 0, discarded = {} } = counts ?? {};
  return {
    source,
    received,
    accepted,
    duplicates,
    discarded: Object.values(discarded).reduce((total, count) => total + count, 0),
  };
}

const COLUMNS: readonly Column<SourceRow>[] = [
  {
    id: 'name',
    header: 'Source',
    className: 'w',
    sort: ({ source }) => source.name,
    cell: ({ source: { name, system, enabled } }) => (
      <>
        <Link to="/sources/$name" params={{ name }} className="med">
          {visibleLine(name)}
        </Link>{' '}
        {system === true && (
          <span className="dim c-lo">made by the server, for audiences and computed traits</span>
        )}
        <span className="sub">{system === true ? 'made by the server' : enabled ? '' : 'disabled'}</span>
      </>
    ),
  },
  { id: 'state', header: 'State', className: 'c-lo', cell: (row) => <SourceState row={row} /> },
  { id: 'day', header: 'Last 24 h', className: 'c-md', cell: ({ source }) => <Day name={source.name} /> },
  { id: 'rate', header: 'Now', className: 'r soft c-lo', cell: ({ source }) => <Rate name={source.name} /> },
  {
    id: 'received',
    header: 'Received',
    className: 'r',
    sort: ({ received }) => received,
    cell: ({ received }) => <Num value={received} />,
  },
  {
    id: 'accepted',
    header: 'Accepted',
    className: 'r c-lo',
    sort: ({ accepted }) => accepted,
    cell: ({ accepted }) => <Num value={accepted} />,
  },
  {
    id: 'duplicates',
    header: 'Duplicates',
    className: 'r c-md',
    sort: ({ duplicates }) => duplicates,
    cell: ({ duplicates }) => <Num value={duplicates} />,
  },
  {
    id: 'discarded',
    header: 'Discarded',
    className: 'r',
    sort: ({ discarded }) => discarded,
    cell: ({ discarded }) => <CountOf state="discarded" count={discarded} />,
  },
];

/** Chart of the calls in each half hour. */
function Day({ name }: { readonly name: string }) {
  const { data } = useQuery(sourceDaysQuery);
  return <Sparkline values={data?.get(name)?.received ?? []} />;
}

function Rate({ name }: { readonly name: string }) {
  const { data } = useQuery(sourceDaysQuery);
  const day = data?.get(name);
  return day === undefined ? '—' : <span className="num">{rate(day.rate)}</span>;
}

function SourceState({ row: { source, received } }: { readonly row: SourceRow }) {
  if (!source.enabled) return <StateMark state="disabled" />;
  return received === 0 ? (
    <StateMark state="pending" label="no events yet" />
  ) : (
    <StateMark state="healthy" label="receiving" />
  );
}

const NEW_SOURCE: NewRecordForm<{ readonly name: string }> = { key: 'sources?new', blank: { name: '' } };

/** Asks only for a name: everything else has a good default, and the server makes the write key. */
function NewSourceDialog({ onClose }: { readonly onClose: () => void }) {
  const { draft, put, forget } = useKeptForm(NEW_SOURCE);
  const { name } = draft;
  const create = useCreateSource();
  const navigate = useNavigate();
  const make = async () => {
    await create.mutateAsync({ name: name.trim() });
    forget();
    await navigate({ to: '/sources/$name', params: { name: name.trim() } });
  };
  return (
    <FormDialog
      title="New source"
      action="Create source"
      isReady={name.trim() !== ''}
      onSubmit={make}
      onClose={() => {
        forget();
        onClose();
      }}
    >
      <Field
        label="Name"
        hint="Such as website or ios-app; it cannot be changed later."
        error={create.error === null ? undefined : nameFault(create.error)}
      >
        {(control) => (
          <TextInput {...control} value={name} onChange={({ target }) => put({ name: target.value })} />
        )}
      </Field>
    </FormDialog>
  );
}

function nameFault(error: unknown): string {
  const own = error instanceof ApiError ? error.fields.find(({ path }) => path === 'body.name') : undefined;
  return own === undefined ? sentence(error) : own.message;
}
