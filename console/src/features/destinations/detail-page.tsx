import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router';
import type { Tagged } from '../../api/client.ts';
import { recordQuery } from '../../api/records.ts';
import { useMay } from '../../api/roles.ts';
import { FileMark } from '../../editing/file-records.tsx';
import { Failure, SkeletonRows } from '../../ui/empty-state.tsx';
import { Crumbs, Page } from '../../ui/page.tsx';
import { RecordChanges } from '../../ui/record-changes.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { DestinationActions } from './actions.tsx';
import { Deliveries } from './deliveries.tsx';
import { DestinationState } from './destination-state.tsx';
import type { Destination } from './form.ts';
import { Health } from './health.tsx';
import { type DestinationStatus, destinationStatusQuery, replaysQuery } from './queries.ts';
import { Replays } from './replays.tsx';
import { StoredSettings } from './stored-settings.tsx';
import { formOfType } from './type-forms.ts';
import type { Tab } from './views.ts';

const route = getRouteApi('/shell/destinations/$name');

/** One destination: how it does, what it gets, and everything that repairs it. */
export function DestinationPage() {
  const { name } = route.useParams();
  const destination = useQuery(recordQuery('destinations', name));
  const status = useQuery(destinationStatusQuery(name));
  const failure = destination.error ?? status.error;
  return (
    <Page
      title={visibleLine(name)}
      crumbs={
        <Crumbs>
          <Link to="/destinations">Destinations</Link>
          <span>{visibleLine(name)}</span>
        </Crumbs>
      }
      about={
        <>
          {status.data !== undefined && <DestinationState health={status.data} isBadge />}
          <FileMark list="destinations" name={name} />
        </>
      }
      actions={
        destination.data !== undefined &&
        status.data !== undefined && <DestinationActions stored={destination.data} status={status.data} />
      }
    >
      {failure !== null && <Failure error={failure} />}
      {destination.data !== undefined && status.data !== undefined ? (
        <DestinationTabs stored={destination.data} status={status.data} />
      ) : (
        failure === null && <SkeletonRows />
      )}
    </Page>
  );
}

interface DestinationTabsProps {
  readonly stored: Tagged<Destination>;
  readonly status: DestinationStatus;
}

function DestinationTabs({ stored, status }: DestinationTabsProps) {
  const { record: destination } = stored;
  const { name } = destination;
  const { tab = 'health' } = route.useSearch();
  const navigate = useNavigate();
  const mayEdit = useMay('editor');
  const TypeForm = formOfType(destination.type);
  const { data: replays = [] } = useQuery(replaysQuery);
  const count = replays.filter((one) => one.destination === name).length;
  return (
    <Tabs
      label={`Views of ${name}`}
      value={tab}
      onChange={(value) =>
        void navigate({
          to: '/destinations/$name',
          params: { name },
          search: { tab: value as Tab },
        })
      }
      tabs={[
        { value: 'health', label: 'Health', content: <Health destination={destination} status={status} /> },
        { value: 'deliveries', label: 'Deliveries', content: <Deliveries name={name} /> },
        {
          value: 'settings',
          label: 'Settings',
          content: mayEdit ? (
            <TypeForm key={name} stored={stored} />
          ) : (
            <StoredSettings destination={destination} />
          ),
        },
        {
          value: 'replays',
          label: <>Replays {count > 0 && <span className="dim">{count}</span>}</>,
          content: <Replays name={name} />,
        },
        { value: 'changes', label: 'Changes', content: <RecordChanges kind="destination" name={name} /> },
      ]}
    />
  );
}
