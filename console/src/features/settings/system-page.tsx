import { useQuery } from '@tanstack/react-query';
import { lazy, Suspense } from 'react';
import { type Status, statusQuery } from '../../api/queries.ts';
import { Failure, Notice, SkeletonRows } from '../../ui/empty-state.tsx';
import { bytes, duration, exactNumber, plural } from '../../ui/format.ts';
import { Page, Section } from '../../ui/page.tsx';
import { StateMark } from '../../ui/state-mark.tsx';
import { DayTime, RelativeTime, useNow } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { DiskSection } from './disk-section.tsx';
import { type Fact, Facts, type FactsProps } from './facts.tsx';
import { NodesSection } from './nodes-section.tsx';
import { latenciesQuery } from './queries.ts';
import { SettingSections } from './section-tabs.tsx';
import '../../ui/table.css';

/** Loaded later, because the chart needs a library: the numbers appear before it. */
const CommitChart = lazy(async () => ({ default: (await import('./commit-chart.tsx')).CommitChart }));

/** Page of the server itself: version, disk, commits, ledger. */
export function SystemPage() {
  const { data, error, refetch } = useQuery(statusQuery);
  return (
    <Page title="Settings">
      <SettingSections />
      {error !== null && <Failure error={error} onRetry={() => void refetch()} />}
      {data === undefined ? error === null && <SkeletonRows /> : <SystemHealth status={data} />}
    </Page>
  );
}

function SystemHealth({ status }: { readonly status: Status }) {
  const { damage } = status.log;
  return (
    <>
      {damage !== undefined && (
        <Notice tone="bad">
          {plural(damage.events, 'stored event')} and {plural(damage.deliveries, 'delivery', 'deliveries')}{' '}
          cannot be read any more: their bytes have changed on the disk. Check the disk, then restore a backup
          from before.
        </Notice>
      )}
      <div className="two">
        <div className="stack">
          <Program status={status} />
          {status.disk !== undefined && <Stored status={status} />}
        </div>
        {status.disk === undefined ? <Stored status={status} /> : <DiskSection disk={status.disk} />}
      </div>
      <NodesSection status={status} />
      <div className="two">
        <Suspense fallback={<div className="charts-skeleton" />}>
          <CommitChart />
        </Suspense>
        <div className="stack">
          <Latencies commits={status.commits.count} />
          <Books status={status} />
        </div>
      </div>
    </>
  );
}

/** Version and uptime of the program. */
function Program({ status }: { readonly status: Status }) {
  const { version, nodeVersion, startedAt, nodes, callsOfNoSource, changedValues, rateLimitedRequests } =
    status;
  const { publicCalls } = status;
  const { discarded, refused } = callsOfNoSource;
  const now = useNow();
  const facts: Fact[] = [
    ['Millrace', <b key="version">{version}</b>],
    ['Node.js', nodeVersion],
    ['Up', duration(Math.max(1000, now - Date.parse(startedAt)))],
    ['Since', <DayTime key="since" at={startedAt} />],
    ['Store', nodes === undefined ? 'its own, one process' : `PostgreSQL, ${plural(nodes.length, 'node')}`],
    ...countFacts('Calls refused', refused),
    ...countFacts('Calls of no source', discarded),
    ...Object.entries(changedValues).flatMap(([source, { counts }]) =>
      countFacts(`Values changed, ${source}`, counts),
    ),
    ...countFacts('Requests over the rate limit', rateLimitedRequests),
    ...Object.entries(publicCalls).map(
      ([source, calls]): Fact => [
        `Calls of browsers or phones, ${source}: set its trust to client`,
        exactNumber(calls),
      ],
    ),
  ];
  return (
    <Section title="Server" about={location.hostname}>
      <FactBox facts={facts} />
    </Section>
  );
}

/** One line for each reason that has happened since the start. */
function countFacts(label: string, counts: object): Fact[] {
  return Object.entries(counts as Record<string, number>)
    .filter(([, count]) => count > 0)
    .map(([reason, count]) => [`${label}: ${reason.replaceAll('_', ' ')}`, exactNumber(count)]);
}

/** Number of stored events and of waiting deliveries. */
function Stored({ status: { log, lanes } }: { readonly status: Status }) {
  const held = Object.values(lanes).reduce((total, lane) => total + lane.held, 0);
  const onDisk = Object.values(lanes).reduce((total, lane) => total + lane.onDisk, 0);
  return (
    <Section title="Store">
      <FactBox
        areFigures
        facts={[
          ['Events', exactNumber(log.events)],
          ['Their size, with what is owed', bytes(log.bytes)],
          [
            'Oldest event',
            log.oldestAt === undefined ? '—' : <RelativeTime key="oldest" at={log.oldestAt} />,
          ],
          ['Deliveries in memory', exactNumber(held)],
          ['Deliveries on disk', exactNumber(onDisk)],
        ]}
      />
    </Section>
  );
}

const LATENCIES = [
  ['A commit is on stable storage', 'commit'],
  ['A call is answered', 'acceptance'],
  ['An event is delivered', 'delivery'],
] as const;

/**
 * Latencies of commits, calls and deliveries in the last hour. `commits`: their number in the last quarter of
 * an hour.
 */
function Latencies({ commits }: { readonly commits: number }) {
  const { data } = useQuery(latenciesQuery);
  const shown = (name: string) => {
    const value = data?.totals[name];
    return value === undefined || value === null ? '—' : duration(value);
  };
  return (
    <Section title="How long it takes" about="in the last hour">
      <div className="box bleed">
        <table className="tbl">
          <thead>
            <tr>
              <th>Until</th>
              <th className="r">p50</th>
              <th className="r">p99</th>
            </tr>
          </thead>
          <tbody>
            {LATENCIES.map(([what, name]) => (
              <tr key={name}>
                <td className="w">{what}</td>
                <td className="r">{shown(`${name}P50`)}</td>
                <td className="r">{shown(`${name}P99`)}</td>
              </tr>
            ))}
          </tbody>
        </table>
        <div className="tfoot">{plural(commits, 'commit')} in the last 15 minutes</div>
      </div>
    </Section>
  );
}

/** Shows whether every sum of the ledger balances. */
function Books({ status: { balanced, differences, sources, destinations } }: { readonly status: Status }) {
  const sums = Object.keys(sources).length + Object.keys(destinations).length;
  return (
    <Section title="Ledger">
      <div className="box">
        <div className="pad stack-s">
          <StateMark
            state={balanced ? 'healthy' : 'failed'}
            label={balanced ? `all ${plural(sums, 'sum')} come out: 0 lost` : 'a sum does not come out'}
          />
          {differences.map((difference) => (
            <p key={JSON.stringify(difference)} className="bad">
              {differenceText(difference)}
            </p>
          ))}
          <p className="hint">
            received = accepted + duplicates + discarded for each source; owed = delivered + pending + dead +
            erased for each destination. Checked every minute.
          </p>
        </div>
      </div>
    </Section>
  );
}

/** "crm: 2 lost: owed 100, delivered 90, pending 5, dead 3, erased 0" */
function differenceText({ difference, ...terms }: Status['differences'][number]): string {
  const [[, name] = ['', ''], ...numbers] = Object.entries(terms);
  const sum = numbers.map(([term, count]) => `${term} ${exactNumber(Number(count))}`).join(', ');
  const what =
    difference > 0 ? `${exactNumber(difference)} lost` : `${exactNumber(-difference)} counted twice`;
  return `${visibleLine(String(name), 60)}: ${what}: ${sum}`;
}

function FactBox(props: FactsProps) {
  return (
    <div className="box">
      <div className="pad">
        <Facts {...props} />
      </div>
    </div>
  );
}
