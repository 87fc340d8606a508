import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { EmptyState } from '../../ui/empty-state.tsx';
import { duration, rate } from '../../ui/format.ts';
import { Sparkline } from '../../ui/sparkline.tsx';
import { CountOf } from '../../ui/state-mark.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { Num } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { DestinationState } from './destination-state.tsx';
import { destinationDaysQuery } from './history.ts';
import type { DestinationRow } from './rows.ts';

interface DestinationTableProps {
  readonly rows: readonly DestinationRow[];
  readonly isFiltered: boolean;
  readonly mayEdit: boolean;
}

export function DestinationTable({ rows, isFiltered, mayEdit }: DestinationTableProps) {
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
      foot="Those in trouble first, then by name. A red bar below a line is half an hour in which requests failed and nothing was delivered."
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
          <DestinationState health={row} />
        </span>
      </>
    ),
  },
  { id: 'state', header: 'State', className: 'c-lo', cell: (row) => <DestinationState health={row} /> },
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
    cell: ({ pending, state }) =>
      state === 'failing' ? <CountOf state="retrying" count={pending} /> : <Num value={pending} />,
  },
  {
    id: 'dead',
    header: 'Dead',
    className: 'r',
    sort: ({ dead }) => dead,
    cell: ({ dead }) => <CountOf state="dead" count={dead} />,
  },
];

/** Deliveries of each half hour. */
function Day({ row: { name, state } }: { readonly row: DestinationRow }) {
  const { data } = useQuery(destinationDaysQuery);
  const day = data?.get(name);
  const halfHours = day?.failing.filter((isBad) => isBad).length ?? 0;
  const words = halfHours === 0 ? undefined : `nothing was delivered in ${halfHours} of 48 half hours`;
  return (
    <span title={words}>
      <Sparkline
        values={day?.delivered ?? []}
        failing={day?.failing ?? []}
        tone={state === 'paused' || state === 'disabled' ? 'mute' : 'water'}
      />
      {words !== undefined && <span className="sr">{words}</span>}
    </span>
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
