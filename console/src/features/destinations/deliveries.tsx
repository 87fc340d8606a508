import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { statusQuery } from '../../api/queries.ts';
import { useMay } from '../../api/roles.ts';
import { Button, Select } from '../../ui/controls.tsx';
import { EmptyState, Failure, SkeletonRows } from '../../ui/empty-state.tsx';
import { StateMark } from '../../ui/state-mark.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { Clock, RelativeTime } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { DELIVERY_STATES, type Delivery, type DeliveryState, deliveriesQuery } from './queries.ts';
import { RedeliverDialog } from './redeliver-dialog.tsx';
import { own } from './rows.ts';

const route = getRouteApi('/shell/destinations/$name');

/** The deliveries of a destination, by state and reason. */
export function Deliveries({ name }: { readonly name: string }) {
  const { state, reason } = route.useSearch();
  const navigate = useNavigate();
  const mayEdit = useMay('editor');
  const [isRedelivering, setIsRedelivering] = useState(false);
  const withReason = state === 'dead' || state === 'retrying' ? reason : undefined;
  const filter = {
    destination: name,
    ...(state === undefined ? {} : { state }),
    ...(withReason === undefined ? {} : { reason: withReason }),
  };
  const deliveries = useInfiniteQuery(deliveriesQuery(filter));
  const rows = deliveries.data?.pages.flatMap(({ data }) => data) ?? [];
  const change = (search: { state?: DeliveryState; reason?: string }) =>
    void navigate({
      to: '/destinations/$name',
      params: { name },
      search: { tab: 'deliveries', ...search },
      replace: true,
    });
  return (
    <div className="stack-s">
      <div className="rowx">
        <Select
          aria-label="State"
          value={state ?? ''}
          options={[
            { value: '', label: 'Any state' },
            ...DELIVERY_STATES.map((one) => ({ value: one, label: one })),
          ]}
          onChange={(value) => change(value === '' ? {} : { state: value as DeliveryState })}
        />
        {(state === 'dead' || state === 'retrying') && (
          <ReasonChoice
            name={name}
            reason={reason}
            onChange={(value) => change({ state, ...(value === '' ? {} : { reason: value }) })}
          />
        )}
        {mayEdit && state === 'dead' && rows.length > 0 && (
          <Button className="push" onClick={() => setIsRedelivering(true)}>
            Redeliver all {reason === undefined ? '' : 'of this reason '}…
          </Button>
        )}
      </div>
      {deliveries.error !== null && (
        <Failure error={deliveries.error} onRetry={() => void deliveries.refetch()} />
      )}
      {deliveries.isPending ? (
        <SkeletonRows />
      ) : (
        <DeliveryTable
          rows={rows}
          hasMore={deliveries.hasNextPage}
          onMore={() => void deliveries.fetchNextPage()}
        />
      )}
      {isRedelivering && (
        <RedeliverDialog
          request={{ destination: name, ...(withReason === undefined ? {} : { reason: withReason }) }}
          onClose={() => setIsRedelivering(false)}
        />
      )}
    </div>
  );
}

interface ReasonChoiceProps {
  readonly name: string;
  readonly reason: string | undefined;
  readonly onChange: (reason: string) => void;
}

/** Reasons that the ledger has for this destination, and the one in the URL. */
function ReasonChoice({ name, reason, onChange }: ReasonChoiceProps) {
  const { data } = useQuery(statusQuery);
  const dead = Object.keys(own(data?.destinations, name)?.dead ?? {});
  const last = own(data?.lanes, name)?.endpoints.flatMap(({ lastError }) => lastError?.reason ?? []) ?? [];
  const reasons = [...new Set([...dead, ...last, ...(reason === undefined ? [] : [reason])])];
  return (
    <Select
      aria-label="Reason"
      value={reason ?? ''}
      options={[{ value: '', label: 'Any reason' }, ...reasons.map((one) => ({ value: one, label: one }))]}
      onChange={onChange}
    />
  );
}

interface DeliveryTableProps {
  readonly rows: readonly Delivery[];
  readonly hasMore: boolean;
  readonly onMore: () => void;
}

function DeliveryTable({ rows, hasMore, onMore }: DeliveryTableProps) {
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
