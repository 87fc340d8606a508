import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router';
import { Plus, Search } from 'lucide-react';
import { destinationsQuery, statusQuery } from '../../api/queries.ts';
import { useMay } from '../../api/roles.ts';
import { Segmented, TextInput } from '../../ui/controls.tsx';
import { Failure, SkeletonRows } from '../../ui/empty-state.tsx';
import { Page } from '../../ui/page.tsx';
import { wordOf } from '../../ui/state-mark.tsx';
import { DestinationTable } from './destination-table.tsx';
import { NewDestination } from './new-destination.tsx';
import { filterRows, rowsOf } from './rows.ts';
import { LIST_STATES, type ListState } from './views.ts';

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
                label: `${one[0]!.toUpperCase()}${wordOf(one).slice(1)} ${rows.filter((row) => row.state === one).length}`,
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
