import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { statusQuery } from '../../api/queries.ts';
import { useMay } from '../../api/roles.ts';
import { Button } from '../../ui/controls.tsx';
import { Notice } from '../../ui/empty-state.tsx';
import { duration, exactNumber, plural } from '../../ui/format.ts';
import { LedgerSum } from '../../ui/ledger-sum.tsx';
import { Section } from '../../ui/page.tsx';
import { StateMark } from '../../ui/state-mark.tsx';
import { Due, RelativeTime, useNow } from '../../ui/time.tsx';
import { adviceFor } from '../events/reasons.ts';
import { DeliveryTable } from './delivery-table.tsx';
import { Endpoints, type HealthProps } from './endpoint-rows.tsx';
import { failuresQuery } from './history.ts';
import { type DestinationStatus, deliveriesQuery } from './queries.ts';
import { RedeliverDialog } from './redeliver-dialog.tsx';
import { own, sum } from './rows.ts';
import { type Trouble, troublesOf } from './troubles.ts';
import './health.css';
import '../../ui/table.css';

/** The sum of the ledger, each endpoint, and what goes wrong with what to do. */
export function Health({ destination, status }: HealthProps) {
  return (
    <div className="stack">
      <DestinationSum name={destination.name} />
      <Waiting status={status} />
      {status.state === 'failed' && (
        <Notice tone="bad">
          Millrace found a mistake of its own here and has stopped sending to it: {status.failure}. What it is
          owed waits, and is delivered after the next start of the server. Please report it.
        </Notice>
      )}
      {status.state === 'no_source' && (
        <Notice tone="warn">
          It has no source, and no audience or computed trait names it: nothing will be sent to it. Give it a
          source in its settings.
        </Notice>
      )}
      {status.lastError?.reason === 'status_410' && status.state === 'refusing' && (
        <Notice tone="bad">
          The endpoint says that it is gone for good. Remove it, or correct its URL, then redeliver the dead
          letters.
        </Notice>
      )}
      <Endpoints destination={destination} status={status} />
      <WhatGoesWrong name={destination.name} status={status} />
      <NewestDeliveries name={destination.name} />
    </div>
  );
}

const NEWEST = 8;

/** The newest events and their outcomes. */
function NewestDeliveries({ name }: { readonly name: string }) {
  const { data } = useInfiniteQuery(deliveriesQuery({ destination: name }, NEWEST));
  const rows = data?.pages[0]?.data ?? [];
  if (rows.length === 0) return null;
  return (
    <Section
      title="Newest deliveries"
      aside={
        <Link to="/destinations/$name" params={{ name }} search={{ tab: 'deliveries' }} className="link">
          All deliveries
        </Link>
      }
    >
      <DeliveryTable rows={rows} />
    </Section>
  );
}

/** The deliveries that wait, since when, and how long they are kept. */
function Waiting({ status }: { readonly status: DestinationStatus }) {
  const { state, pending, retrying, oldestPendingAt, oldestKeptUntil, nextAttemptAt } = status;
  const now = useNow();
  // They are on their way.
  if (pending === 0 || state === 'healthy' || state === 'refusing' || state === 'never_asked') return null;
  return (
    <Notice tone="warn">
      {plural(pending, 'delivery waits', 'deliveries wait')}
      {retrying > 0 && `, ${exactNumber(retrying)} of them tried before`}
      {oldestPendingAt !== undefined && (
        <>
          ; the oldest came <RelativeTime at={oldestPendingAt} />
        </>
      )}
      {oldestKeptUntil !== undefined && (
        <> and is kept for {duration(new Date(oldestKeptUntil).getTime() - now)} more</>
      )}
      .{' '}
      {state === 'failing' && nextAttemptAt !== undefined && (
        <>
          The next attempt is <Due at={nextAttemptAt} />. Nothing is lost.
        </>
      )}
      {state === 'paused' && 'Nothing is sent until it is resumed.'}
      {state === 'disabled' && 'Nothing is sent until it is enabled; what arrives is skipped.'}
    </Notice>
  );
}

/** owed = delivered + pending + dead + dropped + erased, written as a sum. */
function DestinationSum({ name }: { readonly name: string }) {
  const { data } = useQuery(statusQuery);
  const counts = own(data?.destinations, name);
  if (counts === undefined) return null;
  const { owed, delivered, pending, dead, dropped, erased, balance } = counts;
  return (
    <LedgerSum
      name={name}
      total={{ label: 'Owed', value: owed }}
      terms={[
        { label: 'Delivered', state: 'delivered', value: delivered },
        { label: 'Pending', state: 'pending', value: pending },
        { label: 'Dead', state: 'dead', value: sum(dead) },
        // Few types drop anything.
        ...(sum(dropped) === 0 ? [] : [{ label: 'Dropped', state: 'dropped' as const, value: sum(dropped) }]),
        { label: 'Erased', value: erased },
      ]}
      balance={balance}
    />
  );
}

/** Failed requests of the last hour and what has died: what each reason means, and what to do. */
function WhatGoesWrong({ name, status }: { readonly name: string; readonly status: DestinationStatus }) {
  const { data } = useQuery(statusQuery);
  const { data: failures } = useQuery(failuresQuery(name));
  const [redelivered, setRedelivered] = useState<string>();
  const mayEdit = useMay('editor');
  const troubles = troublesOf({
    state: status.state,
    endpoints: status.endpoints,
    failures: failures?.data ?? [],
    dead: own(data?.destinations, name)?.dead ?? {},
  });
  if (troubles.length === 0) return null;
  const failed = (failures?.data ?? []).reduce((total, { count }) => total + count, 0);
  const goesOn = status.retrying > 0 || troubles.some(({ isNow }) => isNow);
  return (
    <Section
      title={goesOn ? 'What goes wrong' : 'What went wrong'}
      about={
        failures !== undefined &&
        `${exactNumber(failed)} of ${plural(failures.requests, 'request')} failed in the last hour`
      }
    >
      <div className="box bleed">
        <table className="tbl">
          <tbody className="errs">
            {troubles.map((trouble) => (
              <TroubleRow
                key={trouble.reason}
                name={name}
                trouble={trouble}
                goesOn={goesOn}
                onRedeliver={mayEdit && trouble.dead > 0 ? () => setRedelivered(trouble.reason) : undefined}
              />
            ))}
          </tbody>
        </table>
      </div>
      {redelivered !== undefined && (
        <RedeliverDialog
          request={{ destination: name, reason: redelivered }}
          onClose={() => setRedelivered(undefined)}
        />
      )}
    </Section>
  );
}

interface TroubleRowProps {
  readonly name: string;
  readonly trouble: Trouble;
  /** Something of it is tried again. */
  readonly goesOn: boolean;
  readonly onRedeliver: (() => void) | undefined;
}

function TroubleRow({ name, trouble: { reason, failed, dead }, goesOn, onRedeliver }: TroubleRowProps) {
  const { cause, action } = adviceFor(reason);
  const state = dead > 0 ? 'dead' : 'retrying';
  return (
    <tr className="tall">
      <td className="mono med top-cell">{reason}</td>
      <td className="top-cell c-lo">
        {dead > 0 ? (
          <StateMark state="dead" label={`${exactNumber(dead)} dead`} />
        ) : goesOn ? (
          <StateMark state="retrying" />
        ) : (
          <span className="dim">over</span>
        )}
        {failed > 0 && <span className="dim below">{plural(failed, 'request')} in an hour</span>}
      </td>
      <td className="w wrap">
        <span>{cause}</span>
        <span className="soft below">{action}</span>
      </td>
      <td className="r top-cell">
        <span className="rowx end">
          <Link
            to="/destinations/$name"
            params={{ name }}
            search={{ tab: 'deliveries', state, reason }}
            className="link"
          >
            Deliveries
          </Link>
          {onRedeliver !== undefined && (
            <Button isSmall onClick={onRedeliver}>
              Redeliver…
            </Button>
          )}
        </span>
      </td>
    </tr>
  );
}
