import type { ReactNode } from 'react';
import { StateMark } from '../../ui/state-mark.tsx';
import type { Column } from '../../ui/table.tsx';
import { Clock } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { DeliveryMarks, DeliverySum } from '../events/delivery-marks.tsx';
import { eventTitle, whoOf } from '../events/naming.ts';
import type { LiveRow } from './live-ring.ts';
import '../../ui/table.css';
import './live-page.css';

export const LIVE_COLUMNS: readonly Column<LiveRow>[] = [
  { id: 'time', header: 'Time', className: 'c-lo dim live-time', cell: ({ at }) => <Clock at={at} isBare /> },
  {
    id: 'type',
    header: 'Type',
    className: 'c-lo c-type dim live-type',
    cell: ({ event }) => event?.type ?? '–',
  },
  { id: 'event', header: 'Event', className: 'w', cell: (row) => <EventCell row={row} /> },
  {
    id: 'user',
    header: 'User',
    className: 'c-lo mono live-user',
    cell: ({ event }) => (event === undefined ? '' : visibleLine(whoOf(event), 40)),
  },
  {
    id: 'source',
    header: 'Source',
    className: 'c-lo c-src live-source',
    cell: ({ source }) => visibleLine(source ?? '–', 40),
  },
  {
    id: 'deliveries',
    header: 'Deliveries',
    className: 'live-deliveries',
    cell: (row) => <Deliveries row={row} />,
  },
];

function EventCell({ row }: { readonly row: LiveRow }): ReactNode {
  const { event, at, source } = row;
  return (
    <>
      {event === undefined ? (
        <span className="dim">discarded call</span>
      ) : (
        visibleLine(eventTitle(event), 120)
      )}
      <span className="sub">
        <Clock at={at} isBare /> · {event === undefined ? '' : visibleLine(whoOf(event), 30)} ·{' '}
        {visibleLine(source ?? '', 30)}
      </span>
    </>
  );
}

function Deliveries({ row: { verdict, reason, deliveries } }: { readonly row: LiveRow }): ReactNode {
  if (verdict === 'discarded') return <StateMark state="discarded" label={reason ?? 'discarded'} />;
  if (verdict === 'duplicate') return <StateMark state="duplicate" />;
  return (
    <>
      <span className="live-marks">
        <DeliveryMarks deliveries={deliveries} />
      </span>
      <span className="live-sum">
        <DeliverySum deliveries={deliveries} />
      </span>
    </>
  );
}

/** Tells whether a row has a text in its id, user, name, source or reason; `text` is in lower case. */
export function matches({ event, source, reason }: LiveRow, text: string): boolean {
  const fields = [
    event?.messageId,
    event?.userId,
    event?.anonymousId,
    event?.event,
    event?.name,
    source,
    reason,
  ];
  return fields.some((field) => field?.toLowerCase().includes(text));
}
