import { Link } from '@tanstack/react-router';

interface OtherMeaningsProps {
  readonly text: string;
  /** Kind of id for which the search found nothing. */
  readonly not: 'userId' | 'anonymousId' | 'messageId';
}

/** Offers to search for a text as another kind of id. */
export function OtherMeanings({ text, not }: OtherMeaningsProps) {
  return (
    <nav className="rowx" aria-label="Look for it as">
      {not !== 'userId' && (
        <Link to="/users" search={{ userId: text }} className="btn">
          As userId
        </Link>
      )}
      {not !== 'anonymousId' && (
        <Link to="/users" search={{ anonymousId: text }} className="btn">
          As anonymousId
        </Link>
      )}
      {not !== 'messageId' && (
        <Link to="/events/$messageId" params={{ messageId: text }} className="btn">
          As messageId
        </Link>
      )}
      <Link to="/events" search={{ event: text }} className="btn">
        As name of events
      </Link>
    </nav>
  );
}
