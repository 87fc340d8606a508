import { Link, useNavigate } from '@tanstack/react-router';
import { Button } from '../../ui/controls.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { StateMark } from '../../ui/state-mark.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { Clock, RelativeTime } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import type { Delivery } from './queries.ts';

interface DeliveryTableProps {
  readonly rows: readonly Delivery[];
  readonly hasMore: boolean;
  readonly onMore: () => void;
}

export function DeliveryTable({ rows, hasMore, onMore }: DeliveryTableProps) {
  const navigate = useNavigate();
  const more = (
    <>
      <span>{rows.length} shown</span>
      {hasMore && (
        <Button kind="quiet" isSmall onClick={onMore}>
          {rows.length === 0 ? 'Look further back' : 'More'}
        </Button>
      )}
    </>
  );
  if (rows.length === 0) {
    return (
      <div className="box">
        <EmptyState title="No such delivery" action={hasMore && more}>
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
      onOpen={({ messageId }) =>
        messageId !== undefined && void navigate({ to: '/events/$messageId', params: { messageId } })
      }
      foot={more}
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
    className: 'c-lo',
    cell: ({ type, source }) => (
      <>
        {type === undefined ? <span className="dim">erased</span> : type}{' '}
        <span className="dim">{source === undefined ? '' : visibleLine(source)}</span>
      </>
    ),
  },
  {
    id: 'message',
    header: 'messageId',
    className: 'w mono',
    cell: ({ messageId, reason, attempts }) => (
      <>
        {messageId === undefined ? (
          <span className="dim">—</span>
        ) : (
          <Link to="/events/$messageId" params={{ messageId }}>
            {visibleLine(messageId)}
          </Link>
        )}
        <span className="sub">{reason ?? attempts.at(-1)?.reason}</span>
      </>
    ),
  },
  {
    id: 'answer',
    header: 'Last answer',
    className: 'mono soft c-lo',
    cell: ({ reason, attempts }) => reason ?? attempts.at(-1)?.reason ?? '—',
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
      if (nextAttemptAt !== undefined) return <RelativeTime at={nextAttemptAt} />;
      return state === 'pending' || state === 'retrying' ? 'now' : '—';
    },
  },
  {
    id: 'received',
    header: 'Received',
    className: 'r dim c-lo',
    cell: ({ receivedAt, diedAt }) => {
      const at = receivedAt ?? diedAt;
      return at === undefined ? '—' : <Clock at={at} />;
    },
  },
];
