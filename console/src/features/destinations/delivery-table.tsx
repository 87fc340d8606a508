import { Link, useNavigate } from '@tanstack/react-router';
import { EmptyState } from '../../ui/empty-state.tsx';
import { StateMark } from '../../ui/state-mark.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { Clock, Due } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { eventTitle, whoOf } from '../events/naming.ts';
import { resultWord } from '../events/reasons.ts';
import { NothingYet, type Search, SearchFoot } from '../events/search-further.tsx';
import type { Delivery } from './queries.ts';

interface DeliveryTableProps {
  readonly rows: readonly Delivery[];
  /** How the list goes on; a list of the newest few does not. */
  readonly search?: Search;
}

export function DeliveryTable({ rows, search }: DeliveryTableProps) {
  const navigate = useNavigate();
  if (rows.length === 0) {
    if (search?.hasMore === true) return <NothingYet search={search} what="events" />;
    return (
      <div className="box">
        <EmptyState title="No such delivery">
          Deliveries are kept as long as their events, dead letters longer.
        </EmptyState>
      </div>
    );
  }
  return (
    <Table
      label="Deliveries"
      columns={COLUMNS}
      rows={rows}
      rowId={({ id, endpoint }) => `${id} ${endpoint ?? ''}`}
      onOpen={({ messageId, source }) =>
        messageId !== undefined &&
        void navigate({
          to: '/events/$messageId',
          params: { messageId },
          search: source === undefined ? {} : { source },
        })
      }
      foot={search !== undefined && <SearchFoot search={search} what="events" shown={rows.length} />}
    />
  );
}

const COLUMNS: readonly Column<Delivery>[] = [
  {
    id: 'state',
    header: 'State',
    cell: ({ state }) => <StateMark state={state} />,
  },
  {
    id: 'type',
    header: 'Type',
    className: 'c-lo dim',
    cell: ({ type }) => type ?? '—',
  },
  { id: 'event', header: 'Event', className: 'w', cell: (row) => <EventCell row={row} /> },
  {
    id: 'user',
    header: 'User',
    className: 'mono c-lo',
    cell: (row) => visibleLine(whoOf(row), 40),
  },
  {
    id: 'source',
    header: 'Source',
    className: 'c-md',
    cell: ({ source }) => (source === undefined ? '' : visibleLine(source, 40)),
  },
  {
    id: 'answer',
    header: 'Last answer',
    className: 'mono soft c-lo',
    cell: (row) => lastAnswerOf(row) ?? '—',
  },
  {
    id: 'tries',
    header: 'Tries',
    className: 'r c-md',
    cell: ({ attempts }) => attempts.length,
  },
  {
    id: 'next',
    header: 'Next try',
    className: 'soft c-lo',
    cell: ({ state, nextAttemptAt }) => {
      if (state !== 'pending' && state !== 'retrying') return '—';
      return nextAttemptAt === undefined ? 'under way' : <Due at={nextAttemptAt} />;
    },
  },
  {
    id: 'received',
    header: 'Received',
    className: 'r dim c-lo',
    cell: ({ receivedAt, diedAt, droppedAt }) => {
      const at = receivedAt ?? diedAt ?? droppedAt;
      return at === undefined ? '—' : <Clock at={at} />;
    },
  },
];

/** Why it is dead or dropped, or what the last request came to: "410", "timeout". */
function lastAnswerOf({ reason, attempts }: Delivery): string | undefined {
  const code = reason ?? attempts.at(-1)?.reason;
  return code === undefined ? undefined : resultWord(code);
}

/** The name of the event, which leads to it. Of an erased event only the delivery is left. */
function EventCell({ row }: { readonly row: Delivery }) {
  const { messageId, type, source } = row;
  if (messageId === undefined || type === undefined) return <span className="dim">erased</span>;
  return (
    <>
      <Link
        to="/events/$messageId"
        params={{ messageId }}
        search={source === undefined ? {} : { source }}
        title={visibleLine(messageId, 200)}
      >
        {visibleLine(eventTitle({ ...row, type }), 120)}
      </Link>
      <span className="sub">
        {[visibleLine(whoOf(row), 40), lastAnswerOf(row)].filter(Boolean).join(' · ')}
      </span>
    </>
  );
}
