import { StateMark } from '../../ui/state-mark.tsx';
import type { Column } from '../../ui/table.tsx';
import { RelativeTime } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { DeliveryMarks, DeliverySum } from './delivery-marks.tsx';
import { nameable } from './event-inspector.tsx';
import { eventTitle, whoOf } from './naming.ts';
import type { AcceptedEvent } from './queries.ts';
import '../../ui/table.css';

/** The columns of a list of stored events. */
export const EVENT_COLUMNS: readonly Column<AcceptedEvent>[] = [
  {
    id: 'time',
    header: 'Received',
    className: 'c-lo dim',
    cell: ({ receivedAt }) => <RelativeTime at={receivedAt} />,
  },
  { id: 'type', header: 'Type', className: 'c-lo dim', cell: (entry) => nameable(entry).type },
  {
    id: 'event',
    header: 'Event',
    className: 'w',
    cell: (entry) => (
      <>
        {visibleLine(eventTitle(nameable(entry)), 120)}
        <span className="sub">
          <RelativeTime at={entry.receivedAt} /> · {visibleLine(whoOf(nameable(entry)), 40)}
        </span>
      </>
    ),
  },
  {
    id: 'user',
    header: 'User',
    className: 'c-lo mono cut',
    cell: (entry) => visibleLine(whoOf(nameable(entry)), 40),
  },
  { id: 'source', header: 'Source', className: 'c-lo cut', cell: ({ source }) => visibleLine(source, 40) },
  {
    id: 'state',
    header: 'State',
    cell: ({ deliveries }) =>
      deliveries.length === 0 ? (
        <StateMark state="skipped" label="owed to none" />
      ) : (
        <DeliverySum deliveries={deliveries} />
      ),
  },
  {
    id: 'destinations',
    header: 'Destinations',
    className: 'c-lo',
    cell: ({ deliveries }) => <DeliveryMarks deliveries={deliveries} />,
  },
  {
    id: 'messageId',
    header: 'messageId',
    className: 'c-md mono cut',
    cell: ({ event }) => visibleLine(event.messageId, 60),
  },
];
