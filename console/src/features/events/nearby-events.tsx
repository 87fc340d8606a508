import { useInfiniteQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Failure, SkeletonRows } from '../../ui/empty-state.tsx';
import { duration } from '../../ui/format.ts';
import { Section } from '../../ui/page.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { nameable } from './event-inspector.tsx';
import { eventTitle } from './naming.ts';
import { type AcceptedEvent, type EventFilter, eventSearchQuery } from './queries.ts';
import { useUntilFound } from './search-further.tsx';
import './event-lists.css';

/** Milliseconds before and after an event that are searched. */
const AROUND = 3_600_000;
/** Most events up to this one, and most after it. */
const MOST_BEFORE = 6;
const MOST_AFTER = 4;

/** Events of the same user around that time: they often explain an event. */
export function NearbyEvents({ entry }: { readonly entry: AcceptedEvent }) {
  const { userId, anonymousId } = nameable(entry);
  const at = Date.parse(entry.receivedAt);
  const who = userId === undefined ? { anonymousId: anonymousId ?? '' } : { userId };
  const isKnown = userId !== undefined || anonymousId !== undefined;
  const before = useInfiniteQuery({
    ...eventSearchQuery({ ...who, ...range(at - AROUND, at + 1) }, MOST_BEFORE),
    enabled: isKnown,
  });
  const after = useInfiniteQuery({
    ...eventSearchQuery({ ...who, ...range(at + 1, at + AROUND) }, MOST_AFTER),
    enabled: isKnown,
  });
  useUntilFound(before);
  const error = before.error ?? after.error;
  return (
    <Section title="This user around then" about="an hour before and after">
      <div className="box">
        {isKnown && (before.isPending || after.isPending) && error === null && <SkeletonRows rows={3} />}
        {error !== null && <Failure error={error} />}
        <ul className="insp-list">
          {oldestFirst(before.data).map((one) => (
            <NearbyEvent key={`${one.source} ${one.event.messageId}`} one={one} entry={entry} at={at} />
          ))}
          {after.hasNextPage && (
            <li>
              <Link to="/events" search={who} className="link">
                More of this user
              </Link>
            </li>
          )}
          {oldestFirst(after.data).map((one) => (
            <NearbyEvent key={`${one.source} ${one.event.messageId}`} one={one} entry={entry} at={at} />
          ))}
        </ul>
      </div>
    </Section>
  );
}

function range(from: number, to: number): Pick<EventFilter, 'from' | 'to'> {
  return { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
}

interface FoundPages {
  readonly pages: readonly { readonly data: readonly (AcceptedEvent | { readonly verdict: unknown })[] }[];
}

/**
 * The readable events of an answer in order of arrival. An event that the server made has the time of the
 * event that caused it.
 */
function oldestFirst(found: FoundPages | undefined): AcceptedEvent[] {
  return (found?.pages ?? [])
    .flatMap(({ data }) => data)
    .filter((one): one is AcceptedEvent => one.verdict === 'accepted')
    .toReversed()
    .sort((one, other) => Date.parse(one.receivedAt) - Date.parse(other.receivedAt));
}

interface NearbyEventProps {
  readonly one: AcceptedEvent;
  /** The event that the page shows. */
  readonly entry: AcceptedEvent;
  /** Time of its arrival, in milliseconds. */
  readonly at: number;
}

function NearbyEvent({ one, entry, at }: NearbyEventProps) {
  const isThis = one.event.messageId === entry.event.messageId && one.source === entry.source;
  return (
    <li aria-current={isThis ? 'true' : undefined}>
      <Link
        to="/events/$messageId"
        params={{ messageId: one.event.messageId }}
        search={{ source: one.source }}
        className={isThis ? 'med clip' : 'link clip'}
      >
        {visibleLine(eventTitle(nameable(one)), 60)}
      </Link>
      <span className="dim num nowrap">
        {isThis ? 'this one' : distance(Date.parse(one.receivedAt) - at)}
      </span>
    </li>
  );
}

function distance(milliseconds: number): string {
  if (milliseconds === 0) return 'at once';
  return `${duration(Math.abs(milliseconds))} ${milliseconds < 0 ? 'before' : 'after'}`;
}
