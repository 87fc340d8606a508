import { useInfiniteQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { Search } from 'lucide-react';
import { type FormEvent, useRef } from 'react';
import { Button, TextInput } from '../../ui/controls.tsx';
import { EmptyState, Failure, SkeletonRows } from '../../ui/empty-state.tsx';
import { exactNumber } from '../../ui/format.ts';
import { Page } from '../../ui/page.tsx';
import { useShortcut } from '../../ui/shortcuts.ts';
import { type Column, Table } from '../../ui/table.tsx';
import { RelativeTime } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { CallFilters, SendExample } from './call-filters.tsx';
import { DeliveryMarks } from './delivery-marks.tsx';
import { nameable } from './event-inspector.tsx';
import { eventTitle, whoOf } from './naming.ts';
import { type AcceptedEvent, eventSearchQuery } from './queries.ts';
import { NothingYet, SearchFoot, useSearch } from './search-further.tsx';

const route = getRouteApi('/shell/events');

/** Stored events, the newest first, by user, name, type and source. */
export function EventsPage() {
  const filter = route.useSearch();
  const navigate = route.useNavigate();
  const query = useInfiniteQuery(eventSearchQuery(filter));
  const search = useSearch(query);
  const rows = (query.data?.pages ?? [])
    .flatMap((page) => page.data)
    .filter((entry) => entry.verdict === 'accepted');
  return (
    <Page title="Events" about={<span className="dim c-lo">stored, the newest first</span>}>
      <Filters />
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
          columns={COLUMNS}
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

const COLUMNS: readonly Column<AcceptedEvent>[] = [
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
    className: 'c-lo mono',
    cell: (entry) => visibleLine(whoOf(nameable(entry)), 40),
  },
  { id: 'source', header: 'Source', className: 'c-lo', cell: ({ source }) => visibleLine(source, 40) },
  {
    id: 'deliveries',
    header: 'Deliveries',
    cell: ({ deliveries }) => <DeliveryMarks deliveries={deliveries} />,
  },
];

function Filters() {
  const filter = route.useSearch();
  const navigate = route.useNavigate();
  const field = useRef<HTMLInputElement>(null);
  useShortcut('/', 'Search', () => field.current?.focus());
  const set = (change: Readonly<Record<string, string>>): void =>
    void navigate({ search: (before) => ({ ...before, ...change }) });
  const onSubmit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    set({ userId: String(form.get('userId')), event: String(form.get('event')) });
  };
  return (
    <form className="rowx" onSubmit={onSubmit} key={`${filter.userId} ${filter.event}`}>
      <TextInput
        ref={field}
        isSmall
        className="filter-field"
        name="userId"
        before={<Search className="i" aria-hidden />}
        after={<kbd>/</kbd>}
        aria-label="userId"
        placeholder="userId"
        defaultValue={filter.userId}
      />
      <TextInput
        isSmall
        className="filter-field"
        name="event"
        aria-label="Name of the event; * at the end matches any rest"
        placeholder="Event, or Order*"
        defaultValue={filter.event}
      />
      <CallFilters filter={filter} set={set} />
      <Button type="submit">Search</Button>
    </form>
  );
}

interface NothingFoundProps {
  readonly isFiltered: boolean;
  /** Events that were looked at. */
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
