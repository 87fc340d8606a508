import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router';
import { Plus, Search } from 'lucide-react';
import { destinationsQuery, statusQuery } from '../../api/queries.ts';
import { useMay } from '../../api/roles.ts';
import { Segmented, TextInput } from '../../ui/controls.tsx';
import { EmptyState, Failure, SkeletonRows } from '../../ui/empty-state.tsx';
import { duration, rate } from '../../ui/format.ts';
import { Page } from '../../ui/page.tsx';
import { Sparkline } from '../../ui/sparkline.tsx';
import { StateMark } from '../../ui/state-mark.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { Num, useNow } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { destinationDaysQuery } from './history.ts';
import { NewDestination } from './new-destination.tsx';
import { type DestinationRow, filterRows, rowsOf } from './rows.ts';
import { LIST_STATES, type ListState } from './views.ts';
import '../../ui/form.css';

const route = getRouteApi('/shell/destinations');

/** All destinations, those in trouble first. */
export function DestinationsPage() {
  const { state, q = '', new: isNew } = route.useSearch();
  const navigate = useNavigate();
  const mayEdit = useMay('editor');
  const destinations = useQuery(destinationsQuery);
  const status = useQuery(statusQuery);
  const rows = rowsOf(destinations.data ?? [], status.data);
  const change = (search: { state?: ListState | undefined; q?: string }) =>
    void navigate({ to: '/destinations', search: { state, q, ...search } as { q: string }, replace: true });
  const failure = destinations.error ?? status.error;
  if (isNew === true && mayEdit) return <NewDestination />;
  return (
    <Page
      title="Destinations"
      actions={
        mayEdit && (
          <Link to="/destinations" search={{ new: true }} className="btn btn-p">
            <Plus className="i" aria-hidden />
            New destination
          </Link>
        )
      }
    >
      <div className="rowx tight">
        <TextInput
          isSmall
          className="search"
          type="search"
          aria-label="Name, URL or source"
          placeholder="Name, URL, source"
          before={<Search className="i i-s" aria-hidden />}
          value={q}
          onChange={(event) => change({ q: event.target.value })}
        />
        <Segmented
          label="State"
          value={state ?? 'all'}
          options={[
            { value: 'all', label: `All ${rows.length}` },
            ...LIST_STATES.filter((one) => one === state || rows.some((row) => row.state === one)).map(
              (one) => ({
                value: one,
                label: `${one[0]!.toUpperCase()}${one.slice(1)} ${rows.filter((row) => row.state === one).length}`,
              }),
            ),
          ]}
          onChange={(value) => change({ state: value === 'all' ? undefined : (value as ListState) })}
        />
      </div>
      {failure !== null && <Failure error={failure} />}
      {destinations.isPending ? (
        <SkeletonRows />
      ) : (
        <DestinationTable
          rows={filterRows(rows, { state, q })}
          isFiltered={rows.length > 0}
          mayEdit={mayEdit}
        />
      )}
    </Page>
  );
}

interface DestinationTableProps {
  readonly rows: readonly DestinationRow[];
  readonly isFiltered: boolean;
  readonly mayEdit: boolean;
}

function DestinationTable({ rows, isFiltered, mayEdit }: DestinationTableProps) {
  const navigate = useNavigate();
  if (rows.length === 0) {
    return (
      <div className="box">
        {isFiltered ? (
          <EmptyState title="No destination matches">Another state or another text may.</EmptyState>
        ) : (
          <EmptyState
            title="No destinations yet"
            action={
              mayEdit && (
                <Link to="/destinations" search={{ new: true }} className="btn btn-p">
                  New destination
                </Link>
              )
            }
          >
            A destination gets every event of its sources as a signed webhook. Until there is one, events are
            stored and go nowhere; a replay sends them later.
          </EmptyState>
        )}
      </div>
    );
  }
  return (
    <Table
      label="Destinations"
      columns={COLUMNS}
      rows={rows}
      rowId={({ name }) => name}
      onOpen={({ name }) => void navigate({ to: '/destinations/$name', params: { name } })}
      foot="Those in trouble first, then by name."
    />
  );
}

const COLUMNS: readonly Column<DestinationRow>[] = [
  {
    id: 'name',
    header: 'Destination',
    className: 'w',
    sort: ({ name }) => name,
    cell: (row) => (
      <>
        <Link to="/destinations/$name" params={{ name: row.name }} className="med">
          {visibleLine(row.name)}
        </Link>{' '}
        <span className="mono dim c-lo">
          {visibleLine(row.host)}
          {row.more > 0 && ` +${row.more}`}
        </span>
        <span className="sub">
          <RowState row={row} />
        </span>
      </>
    ),
  },
  { id: 'state', header: 'State', className: 'c-lo', cell: (row) => <RowState row={row} /> },
  {
    id: 'sources',
    header: 'Sources',
    className: 'c-md soft',
    cell: ({ sources }) => (
      <span title={sources.join(', ')}>
        {sources
          .slice(0, 2)
          .map((one) => visibleLine(one))
          .join(', ')}
        {sources.length > 2 && `, +${sources.length - 2}`}
      </span>
    ),
  },
  { id: 'day', header: 'Last 24 h', className: 'c-md', cell: (row) => <Day row={row} /> },
  { id: 'rate', header: 'Now', className: 'r soft c-md', cell: ({ name }) => <Rate name={name} /> },
  {
    id: 'delivered',
    header: 'Delivered',
    className: 'r c-lo',
    sort: ({ delivered }) => delivered,
    cell: ({ delivered }) => <Num value={delivered} />,
  },
  {
    id: 'pending',
    header: 'Pending',
    className: 'r',
    sort: ({ pending }) => pending,
    cell: ({ pending, state }) => (
      <span className={pending > 0 && state !== 'healthy' ? 'warn med' : ''}>
        <Num value={pending} />
      </span>
    ),
  },
  {
    id: 'dead',
    header: 'Dead',
    className: 'r',
    sort: ({ dead }) => dead,
    cell: ({ dead }) => (
      <span className={dead > 0 ? 'bad med' : ''}>
        <Num value={dead} />
      </span>
    ),
  },
];

/** The state with how long it has lasted. */
function RowState({ row: { state, failingSince } }: { readonly row: DestinationRow }) {
  const now = useNow();
  const since =
    state === 'failing' && failingSince !== undefined ? new Date(failingSince).getTime() : undefined;
  return (
    <StateMark state={state} label={since === undefined ? state : `failing for ${duration(now - since)}`} />
  );
}

/** What was delivered in each half hour. */
function Day({ row: { name, state } }: { readonly row: DestinationRow }) {
  const { data } = useQuery(destinationDaysQuery);
  const day = data?.get(name);
  return (
    <Sparkline
      values={day?.delivered ?? []}
      tone={state === 'healthy' || state === 'failing' ? 'water' : 'mute'}
    />
  );
}

function Rate({ name }: { readonly name: string }) {
  const { data } = useQuery(destinationDaysQuery);
  const day = data?.get(name);
  if (day === undefined) return '—';
  return (
    <span className="num" title={day.p99 === undefined ? undefined : `p99 ${duration(day.p99)} in 24 hours`}>
      {rate(day.rate)}
    </span>
  );
}
