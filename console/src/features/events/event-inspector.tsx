import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { ExternalLink } from 'lucide-react';
import { CopyButton } from '../../ui/controls.tsx';
import { EmptyState, Failure, SkeletonRows } from '../../ui/empty-state.tsx';
import { duration, exactNumber } from '../../ui/format.ts';
import { Inspector } from '../../ui/inspector.tsx';
import { JsonView } from '../../ui/json-view.tsx';
import { StateMark } from '../../ui/state-mark.tsx';
import { Clock } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { EventActions } from './event-actions.tsx';
import { eventTitle, whoOf } from './naming.ts';
import { NextTry } from './next-try.tsx';
import { type AcceptedEvent, type DeliveryTrace, traceQuery } from './queries.ts';
import { resultWord } from './reasons.ts';
import { type EndpointLabels, labelsByDestination } from './way.ts';
import './event-lists.css';

interface EventInspectorProps {
  readonly messageId: string;
  readonly source: string | undefined;
  readonly onClose: () => void;
}

/** An event beside a list: its deliveries as they settle, and its contents. */
export function EventInspector({ messageId, source, onClose }: EventInspectorProps) {
  const { data, error, isPending, refetch } = useQuery(traceQuery(messageId, source));
  const entry = data?.[0];
  const accepted = entry?.verdict === 'accepted' ? entry : undefined;
  return (
    <Inspector
      onClose={onClose}
      title={accepted === undefined ? 'Event' : visibleLine(eventTitle(nameable(accepted)), 80)}
      about={<Identity messageId={messageId} entry={accepted} />}
      actions={
        <Link
          to="/events/$messageId"
          params={{ messageId }}
          search={source === undefined ? {} : { source }}
          className="btn btn-q btn-s"
        >
          <ExternalLink aria-hidden />
          Open
        </Link>
      }
    >
      {isPending && <SkeletonRows />}
      {error !== null && <Failure error={error} onRetry={() => void refetch()} />}
      {accepted !== undefined && <Contents entry={accepted} />}
      {entry !== undefined && accepted === undefined && (
        <EmptyState title={`This call is ${entry.verdict}`}>
          {'reason' in entry
            ? `The reason is ${entry.reason}.`
            : 'Its bytes on disk have changed; only its deliveries are known.'}
        </EmptyState>
      )}
    </Inspector>
  );
}

/** The fields that name an event. The API's document promises only the messageId. */
export function nameable({ event }: Pick<AcceptedEvent, 'event'>): Parameters<typeof eventTitle>[0] {
  return event as unknown as Parameters<typeof eventTitle>[0];
}

function Identity({
  messageId,
  entry,
}: {
  readonly messageId: string;
  readonly entry: AcceptedEvent | undefined;
}) {
  const who = entry === undefined ? '' : whoOf(nameable(entry));
  return (
    <div className="rowx mono insp-ids">
      <span className="clip">{visibleLine(messageId, 60)}</span>
      <CopyButton text={messageId} label="Copy the messageId" isIcon />
      <span className="clip">{visibleLine(who, 60)}</span>
    </div>
  );
}

function Contents({ entry }: { readonly entry: AcceptedEvent }) {
  const labels = labelsByDestination(entry.deliveries);
  return (
    <>
      <dl className="kv">
        <dt>Received</dt>
        <dd>
          <Clock at={entry.receivedAt} /> from {visibleLine(entry.source)}
        </dd>
      </dl>
      <section>
        <h3 className="lbl">Deliveries</h3>
        <ul className="box insp-list">
          {entry.deliveries.map((delivery) => (
            <DeliveryLine key={delivery.id} delivery={delivery} labels={labels} />
          ))}
          {[...Map.groupBy(entry.skipped, ({ reason }) => reason)].map(([reason, [first, ...others]]) => (
            <li key={reason}>
              <StateMark
                state="skipped"
                label={
                  others.length === 0
                    ? visibleLine(first?.destination ?? '', 60)
                    : `${exactNumber(others.length + 1)} destinations`
                }
              />
              <span className="soft">{reason}</span>
            </li>
          ))}
          {entry.deliveries.length + entry.skipped.length === 0 && (
            <li className="dim">No destination takes this source.</li>
          )}
        </ul>
      </section>
      <div className="rowx">
        <EventActions entry={entry} />
      </div>
      <JsonView label="the event" value={entry.event} />
    </>
  );
}

interface DeliveryLineProps {
  readonly delivery: DeliveryTrace;
  readonly labels: EndpointLabels;
}

function DeliveryLine({ delivery, labels }: DeliveryLineProps) {
  const { destination, state, attempts, nextAttemptAt } = delivery;
  const last = attempts.at(-1);
  const label = labels.get(destination)?.get(last?.endpoint ?? '') ?? '';
  const isOwed = state === 'pending' || state === 'retrying';
  return (
    <li>
      <StateMark state={state} label={visibleLine(`${destination} ${label}`.trim(), 80)} />
      <span className="soft num">
        {last !== undefined && `${resultWord(last.reason, last.status)} in ${duration(last.latencyMs)}`}
        {last !== undefined && isOwed && ', '}
        {isOwed && <NextTry destination={destination} at={nextAttemptAt} />}
      </span>
    </li>
  );
}
