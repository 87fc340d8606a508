import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { CodeBlock } from '../../ui/code-block.tsx';
import { EmptyState, Failure, Notice, SkeletonRows } from '../../ui/empty-state.tsx';
import { Crumbs, Page } from '../../ui/page.tsx';
import { Badge } from '../../ui/state-mark.tsx';
import { Clock, RelativeTime } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { EventActions } from './event-actions.tsx';
import { nameable } from './event-inspector.tsx';
import { EventTabs } from './event-tabs.tsx';
import { EventWay } from './event-way.tsx';
import { eventTitle, whoOf } from './naming.ts';
import { NearbyEvents } from './nearby-events.tsx';
import { type AcceptedEvent, type TraceEntry, traceQuery } from './queries.ts';
import { reasonSentence } from './reasons.ts';
import { UnknownEvent } from './unknown-event.tsx';
import './event-lists.css';

const route = getRouteApi('/shell/events/$messageId');

/**
 * The page of one messageId: the call received, where it went, each endpoint's answer, and what happens next.
 */
export function EventPage() {
  const { messageId } = route.useParams();
  const { source } = route.useSearch();
  const { data, error, isPending, refetch } = useQuery(traceQuery(messageId, source));
  const accepted = data?.find((entry) => entry.verdict === 'accepted');
  const title = accepted === undefined ? 'Event' : visibleLine(eventTitle(nameable(accepted)), 80);
  return (
    <Page
      title={title}
      crumbs={
        <Crumbs>
          <Link to="/events">Events</Link>
          <span className="mono clip">{visibleLine(messageId, 80)}</span>
        </Crumbs>
      }
      about={accepted !== undefined && <Verdict entry={accepted} />}
      actions={accepted !== undefined && <EventActions entry={accepted} />}
    >
      {isPending && <SkeletonRows />}
      {error !== null && <Failure error={error} onRetry={() => void refetch()} />}
      {data?.length === 0 && <UnknownEvent messageId={messageId} source={source} />}
      {accepted !== undefined && <Accepted entry={accepted} />}
      {data
        ?.filter((entry) => entry.verdict !== 'accepted')
        .map((entry) => (
          <OtherUse key={JSON.stringify(entry)} entry={entry} />
        ))}
    </Page>
  );
}

function Accepted({ entry }: { readonly entry: AcceptedEvent }) {
  const { tab, attempt } = route.useSearch();
  const navigate = route.useNavigate();
  const event = nameable(entry);
  const who = whoOf(event);
  const search =
    event.userId === undefined ? { anonymousId: event.anonymousId ?? '' } : { userId: event.userId };
  return (
    <>
      <p className="soft rowx event-about">
        {who !== '' && (
          <span>
            User{' '}
            <Link to="/events" search={search} className="link mono">
              {visibleLine(who, 60)}
            </Link>
          </span>
        )}
        <span>
          Source{' '}
          <Link to="/events" search={{ source: entry.source }} className="link">
            {visibleLine(entry.source, 60)}
          </Link>
        </span>
        <span>
          <Clock at={entry.receivedAt} />, <RelativeTime at={entry.receivedAt} />
        </span>
      </p>
      <EventWay entry={entry} />
      <OpenTroubles entry={entry} />
      <div className="side">
        <EventTabs
          entry={entry}
          tab={tab ?? 'received'}
          attempt={attempt}
          onChange={(change) =>
            void navigate({ search: (before) => ({ ...before, ...change }), replace: true })
          }
        />
        <NearbyEvents entry={entry} />
      </div>
    </>
  );
}

/**
 * Deliveries that are still retried, until when, and where to look. A dead delivery is explained in the
 * course above.
 */
function OpenTroubles({ entry: { deliveries } }: { readonly entry: AcceptedEvent }) {
  const retrying = deliveries.filter(({ state }) => state === 'retrying');
  return retrying.map(({ id, destination, attempts }) => {
    const reason = attempts.at(-1)?.reason;
    return (
      <Notice key={id} tone="warn">
        <b className="med">{visibleLine(destination, 40)}</b>
        {reason !== undefined && <>: {reasonSentence(reason)}</>} It is tried again for four hours after the
        first failure, and becomes a dead letter then.{' '}
        <Link to="/destinations/$name" params={{ name: destination }} className="link">
          How {visibleLine(destination, 40)} does
        </Link>
      </Notice>
    );
  });
}

function Verdict({ entry }: { readonly entry: AcceptedEvent }) {
  const { deliveries } = entry;
  const delivered = deliveries.filter(({ state }) => state === 'delivered').length;
  const type = <span className="dim">{nameable(entry).type}</span>;
  if (deliveries.length === 0) {
    return (
      <>
        {type}
        <Badge state="skipped" label="owed to no destination" />
      </>
    );
  }
  const worst = deliveries.some(({ state }) => state === 'dead')
    ? 'dead'
    : deliveries.some(({ state }) => state === 'retrying')
      ? 'retrying'
      : deliveries.some(({ state }) => state === 'pending')
        ? 'pending'
        : delivered < deliveries.length
          ? 'dropped'
          : 'delivered';
  return (
    <>
      {type}
      <Badge state={worst} label={`delivered to ${delivered} of ${deliveries.length}`} />
    </>
  );
}

/** A use of the messageId that made no readable event. */
function OtherUse({ entry }: { readonly entry: TraceEntry }) {
  if (entry.verdict === 'accepted') return null;
  if (entry.verdict === 'damaged') {
    return (
      <div className="box">
        <EmptyState title="This event cannot be read any more">
          Its bytes on disk have changed. {entry.deliveries.length} of its deliveries are known and are now
          dead letters.
        </EmptyState>
      </div>
    );
  }
  return (
    <div className="box">
      <EmptyState
        title={`Discarded: ${entry.reason}`}
        action={entry.call !== undefined && <CodeBlock code={entry.call} label="The discarded call" />}
      >
        This call was answered and became no event. It came <RelativeTime at={entry.receivedAt} />.
      </EmptyState>
    </div>
  );
}
