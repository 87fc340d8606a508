import { useQuery } from '@tanstack/react-query';
import { Fragment, type ReactNode } from 'react';
import { type Status, statusQuery } from '../../api/queries.ts';
import { Failure, Notice, SkeletonRows } from '../../ui/empty-state.tsx';
import { bytes, duration, exactNumber, plural } from '../../ui/format.ts';
import { Page, Section } from '../../ui/page.tsx';
import { StateMark } from '../../ui/state-mark.tsx';
import { RelativeTime } from '../../ui/time.tsx';
import { latenciesQuery } from './queries.ts';
import { SettingSections } from './section-tabs.tsx';
import '../../ui/form.css';

/** How the server itself does: its store, its clock, its books. */
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
  const { log, startedAt, callsOfNoSource, lanes } = status;
  const { damage } = log;
  const held = Object.values(lanes).reduce((total, lane) => total + lane.held, 0);
  const onDisk = Object.values(lanes).reduce((total, lane) => total + lane.onDisk, 0);
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
        <Books status={status} />
        <Latencies />
      </div>
      <div className="two">
        <Section title="Store">
          <Facts
            facts={[
              ['Events', exactNumber(log.events)],
              ['On disk', bytes(log.bytes)],
              [
                'Oldest event',
                log.oldestAt === undefined ? '—' : <RelativeTime key="oldest" at={log.oldestAt} />,
              ],
              ['Deliveries in memory', exactNumber(held)],
              ['Deliveries on disk', exactNumber(onDisk)],
            ]}
          />
        </Section>
        <Section title="Server">
          <Facts
            facts={[
              ['Started', <RelativeTime key="started" at={startedAt} />],
              ['Client timestamps that could not be read', exactNumber(callsOfNoSource.clock.unparseable)],
              ['Client clocks that were off', exactNumber(callsOfNoSource.clock.skewed)],
              ...countRows('Discarded of no source', callsOfNoSource.discarded),
              ...countRows('Refused', callsOfNoSource.refused),
            ]}
          />
        </Section>
      </div>
    </>
  );
}

/** What callers and receivers felt in the last hour. */
function Latencies() {
  const { data = {} } = useQuery(latenciesQuery);
  const shown = (name: string) => {
    const value = data[name];
    return value === undefined || value === null ? '—' : duration(value);
  };
  return (
    <Section title="Latency" about="of the last hour">
      <Facts
        facts={[
          ['Until a call is stored, p50', shown('acceptanceP50')],
          ['Until a call is stored, p99', shown('acceptanceP99')],
          ['Until an event is delivered, p50', shown('deliveryP50')],
          ['Until an event is delivered, p99', shown('deliveryP99')],
        ]}
      />
    </Section>
  );
}

function countRows(label: string, counts: Readonly<Record<string, number>>): [string, ReactNode][] {
  return Object.entries(counts).map(([reason, count]) => [`${label}: ${reason}`, exactNumber(count)]);
}

/** Whether every sum of the ledger comes out. */
function Books({ status: { balanced, differences, sources, destinations } }: { readonly status: Status }) {
  const sums = Object.keys(sources).length + Object.keys(destinations).length;
  return (
    <Section title="Ledger">
      <div className="box pad stack-s">
        <StateMark
          state={balanced ? 'healthy' : 'failed'}
          label={
            balanced
              ? `all ${plural(sums, 'sum')} come out: 0 lost`
              : `${plural(differences.length, 'sum')} does not come out`
          }
        />
        {differences.map((difference) => (
          <p key={JSON.stringify(difference)} className="mono bad">
            {JSON.stringify(difference)}
          </p>
        ))}
        <p className="hint">
          received = accepted + duplicates + discarded for each source; owed = delivered + pending + dead +
          erased for each destination. Checked every minute.
        </p>
      </div>
    </Section>
  );
}

function Facts({ facts }: { readonly facts: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className="kv box pad">
      {facts.map(([name, value]) => (
        <Fragment key={name}>
          <dt>{name}</dt>
          <dd className="num">{value}</dd>
        </Fragment>
      ))}
    </dl>
  );
}
