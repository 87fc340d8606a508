import { Link } from '@tanstack/react-router';

interface OtherMeaningsProps {
  readonly text: string;
  /** What it was looked for as. */
  readonly not: 'userId' | 'anonymousId' | 'messageId';
}

/** What else a text may be that was found as nothing: a press looks for it as that. */
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
