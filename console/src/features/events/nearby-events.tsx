import { useInfiniteQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Failure, SkeletonRows } from '../../ui/empty-state.tsx';
import { duration } from '../../ui/format.ts';
import { Section } from '../../ui/page.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { nameable } from './event-inspector.tsx';
import { eventTitle } from './naming.ts';
import { type AcceptedEvent, eventSearchQuery } from './queries.ts';

/** How far around an event is looked, in milliseconds. */
const AROUND = 3_600_000;
const MOST = 8;

/** What the same user did around then: the context of an event is often its explanation. */
export function NearbyEvents({ entry }: { readonly entry: AcceptedEvent }) {
  const { userId, anonymousId } = nameable(entry);
  const at = Date.parse(entry.receivedAt);
  const who = userId === undefined ? { anonymousId: anonymousId ?? '' } : { userId };
  const range = { from: new Date(at - AROUND).toISOString(), to: new Date(at + AROUND).toISOString() };
  const { data, error, isPending } = useInfiniteQuery({
    ...eventSearchQuery({ ...who, ...range }, 100),
    enabled: userId !== undefined || anonymousId !== undefined,
  });
  const events = (data?.pages ?? []).flatMap((page) => page.data).filter((one) => one.verdict === 'accepted');
  const index = events.findIndex(({ event }) => event.messageId === entry.event.messageId);
  const start = Math.max(0, index - MOST / 2);
  return (
    <Section title="This user around then" about="an hour before and after">
      <div className="box">
        {isPending && <SkeletonRows rows={3} />}
        {error !== null && <Failure error={error} />}
        <ul className="insp-list">
          {events.slice(start, start + MOST).map((one) => (
            <li key={`${one.source} ${one.event.messageId}`}>
              <Link
                to="/events/$messageId"
                params={{ messageId: one.event.messageId }}
                search={{ source: one.source }}
                className={one.event.messageId === entry.event.messageId ? 'med clip' : 'link clip'}
              >
                {visibleLine(eventTitle(nameable(one)), 60)}
              </Link>
              <span className="dim num">{distance(Date.parse(one.receivedAt) - at)}</span>
            </li>
          ))}
        </ul>
      </div>
    </Section>
  );
}

function distance(milliseconds: number): string {
  if (milliseconds === 0) return 'this one';
  return `${duration(Math.abs(milliseconds))} ${milliseconds < 0 ? 'before' : 'after'}`;
}
