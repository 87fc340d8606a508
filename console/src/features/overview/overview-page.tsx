import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { lazy, Suspense } from 'react';
import { keyOf, type Status, sourcesQuery, statusQuery } from '../../api/queries.ts';
import { CodeBlock } from '../../ui/code-block.tsx';
import { Button, Segmented } from '../../ui/controls.tsx';
import { EmptyState, Failure, SkeletonRows } from '../../ui/empty-state.tsx';
import { rangeText } from '../../ui/format.ts';
import { Page } from '../../ui/page.tsx';
import { usePreferences } from '../../ui/preferences.ts';
import { useNow } from '../../ui/time.tsx';
import { callExample } from '../events/curl.ts';
import { NeedsAPerson } from './needs.tsx';
import { numbersQuery, RANGES } from './queries.ts';
import { Race } from './race.tsx';

/** Loaded later, because the charts need a library: the race appears before it. */
const Charts = lazy(async () => ({ default: (await import('./charts.tsx')).Charts }));

const route = getRouteApi('/shell/');

/** The overview: the course of events, problems that need a person, and numbers over time. */
export function OverviewPage() {
  const search = route.useSearch();
  const status = useQuery(statusQuery);
  const numbers = useQuery(numbersQuery(search));
  const error = status.error ?? numbers.error;
  return (
    <Page title="Overview" about={<RangeText />} actions={<RangeChoice />}>
      {error !== null && (
        <Failure error={error} onRetry={() => void Promise.all([status.refetch(), numbers.refetch()])} />
      )}
      {status.data === undefined || numbers.data === undefined ? (
        <div className="box race-skeleton">
          <SkeletonRows />
        </div>
      ) : (
        <>
          <Race numbers={numbers.data} status={status.data} />
          <FirstSteps status={status.data} />
          {Object.keys(status.data.lanes).length > 0 && <NeedsAPerson status={status.data} />}
          {!isDry(status.data) && (
            <Suspense fallback={<div className="charts-skeleton" />}>
              <Charts numbers={numbers.data} />
            </Suspense>
          )}
        </>
      )}
    </Page>
  );
}

/** Begin and end of the page's range. */
function RangeText() {
  const { from, to, range = '1h' } = route.useSearch();
  const { zone } = usePreferences();
  const now = useNow(10_000);
  const { length } = RANGES.find(({ value }) => value === range) ?? RANGES[1];
  const end = to === undefined ? now : Date.parse(to);
  const begin = from === undefined ? end - length : Date.parse(from);
  return <span className="dim num c-lo">{rangeText(begin, end, zone)}</span>;
}

/** One range for everything on the page. */
function RangeChoice() {
  const { range = '1h', from } = route.useSearch();
  const navigate = route.useNavigate();
  return (
    <>
      {from !== undefined && (
        <Button onClick={() => void navigate({ search: { range } })}>Back to now</Button>
      )}
      <Segmented
        label="Range"
        value={from === undefined ? range : ''}
        options={RANGES}
        onChange={(value) => void navigate({ search: { range: value } })}
      />
    </>
  );
}

/** Tells whether no call has ever been received. */
function isDry({ sources }: Status): boolean {
  return Object.values(sources).every(({ received }) => received === 0);
}

/**
 * Shows what a new server still needs: a source, an event, a destination. Disappears when it has all three.
 */
function FirstSteps({ status }: { readonly status: Status }) {
  const { data: sources = [] } = useQuery(sourcesQuery);
  if (!isDry(status) && Object.keys(status.lanes).length > 0) return null;
  const key = keyOf(sources.find((source) => keyOf(source) !== undefined));
  if (sources.length === 0) {
    return (
      <div className="box">
        <EmptyState
          title="No source yet"
          action={
            <Link to="/sources" className="btn btn-p">
              Create a source
            </Link>
          }
        >
          A source is a website, an app or a server that sends calls. It has a write key, which names it.
        </EmptyState>
      </div>
    );
  }
  if (isDry(status)) {
    return (
      <div className="box">
        <EmptyState
          isWaiting
          title="Waiting for the first event"
          action={<CodeBlock code={callExample(key)} label="Command that sends an event" />}
        >
          Run this anywhere that reaches this server. The race begins to flow by itself.
        </EmptyState>
      </div>
    );
  }
  return (
    <div className="box">
      <EmptyState
        title="Events arrive, and go nowhere yet"
        action={
          <Link to="/destinations" className="btn btn-p">
            Create a destination
          </Link>
        }
      >
        They are stored. A destination gets those that come after it was made, and older ones by a replay.
      </EmptyState>
    </div>
  );
}
