import { useInfiniteQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { EmptyState, Failure, SkeletonRows } from '../../ui/empty-state.tsx';
import { exactNumber } from '../../ui/format.ts';
import { Page } from '../../ui/page.tsx';
import { Table } from '../../ui/table.tsx';
import { SendExample } from './call-filters.tsx';
import { EVENT_COLUMNS } from './event-columns.tsx';
import { EventFilters } from './event-filters.tsx';
import { eventSearchQuery } from './queries.ts';
import { NothingYet, SearchFoot, useSearch } from './search-further.tsx';

const route = getRouteApi('/shell/events');

/** Page of stored events, the newest first, filtered by id, user, name, type, source and time. */
export function EventsPage() {
  const filter = route.useSearch();
  const navigate = route.useNavigate();
  const query = useInfiniteQuery(eventSearchQuery(filter));
  const search = useSearch(query, JSON.stringify(filter));
  const rows = (query.data?.pages ?? [])
    .flatMap((page) => page.data)
    .filter((entry) => entry.verdict === 'accepted');
  return (
    <Page title="Events" about={<span className="dim c-lo">stored, the newest first</span>}>
      <EventFilters />
      {query.isPending && (
        <div className="box">
          <SkeletonRows />
        </div>
      )}
      {query.error !== null && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {query.isSuccess &&
        rows.length === 0 &&
        (search.hasMore ? (
          <NothingYet search={search} what="events" />
        ) : (
          <NothingFound isFiltered={Object.keys(filter).length > 0} searched={search.searched} />
        ))}
      {rows.length > 0 && (
        <Table
          label="Events"
          columns={EVENT_COLUMNS}
          rows={rows}
          rowId={({ source, event, receivedAt }) => JSON.stringify([source, event.messageId, receivedAt])}
          onOpen={({ source, event }) =>
            void navigate({
              to: '/events/$messageId',
              params: { messageId: event.messageId },
              search: { source },
            })
          }
          foot={<SearchFoot search={search} what="events" shown={rows.length} />}
        />
      )}
    </Page>
  );
}

interface NothingFoundProps {
  readonly isFiltered: boolean;
  /** Number of events that were searched. */
  readonly searched: number;
}

function NothingFound({ isFiltered, searched }: NothingFoundProps) {
  if (isFiltered) {
    return (
      <div className="box">
        <EmptyState title="No stored event matches">
          {searched > 0 && `All ${exactNumber(searched)} that could match were looked at. `}
          An event may be older than the retention, or may have been discarded: Sources shows what was
          discarded and why.
        </EmptyState>
      </div>
    );
  }
  return (
    <div className="box">
      <EmptyState title="No event is stored yet" action={<SendExample />}>
        Send one; it is here as soon as the command has its answer.
      </EmptyState>
    </div>
  );
}
