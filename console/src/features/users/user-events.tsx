import { useInfiniteQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { IdParameters } from '../../api/ids.ts';
import { Button } from '../../ui/controls.tsx';
import { Failure } from '../../ui/empty-state.tsx';
import { Section } from '../../ui/page.tsx';
import { StateMark } from '../../ui/state-mark.tsx';
import { Clock } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { nameable } from '../events/event-inspector.tsx';
import { eventTitle } from '../events/naming.ts';
import { type StoredEvent, userEventsQuery } from './queries.ts';
import '../../ui/table.css';

/** The newest events of all ids of the user. */
export function UserEvents({ id }: { readonly id: IdParameters }) {
  const events = useInfiniteQuery(userEventsQuery(id));
  // A damaged event belongs to nobody any more.
  const rows = (events.data?.pages ?? []).flatMap(({ data }) =>
    data.filter((row) => row.verdict === 'accepted'),
  );
  return (
    <Section title="Events">
      {events.error !== null && <Failure error={events.error} />}
      <div className="box bleed">
        <table className="tbl">
          <tbody>
            {rows.map((row) => (
              <EventRow key={`${row.source} ${row.event.messageId}`} row={row} />
            ))}
          </tbody>
        </table>
        <div className="tfoot">
          <span>{rows.length === 0 && !events.isPending ? 'No stored event' : `${rows.length} shown`}</span>
          {events.hasNextPage && (
            <Button kind="quiet" isSmall onClick={() => void events.fetchNextPage()}>
              More
            </Button>
          )}
        </div>
      </div>
    </Section>
  );
}

function EventRow({ row: { source, receivedAt, event, deliveries } }: { readonly row: StoredEvent }) {
  const named = nameable({ event });
  const worst = ['dead', 'retrying', 'pending', 'dropped'] as const;
  const state = worst.find((one) => deliveries.some((delivery) => delivery.state === one));
  return (
    <tr>
      <td className="type c-lo">{named.type}</td>
      <td className="w">
        <Link to="/events/$messageId" params={{ messageId: event.messageId }} className="med">
          {visibleLine(eventTitle(named), 80)}
        </Link>
      </td>
      <td className="soft c-md">{visibleLine(source)}</td>
      <td className="c-lo">{deliveries.length > 0 && <StateMark state={state ?? 'delivered'} />}</td>
      <td className="r dim">
        <Clock at={receivedAt} />
      </td>
    </tr>
  );
}
