import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { Button } from '../../ui/controls.tsx';
import { RelativeTime } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { joinText, type Subject, subjectTitle } from './joined-ids.ts';

/** Number of users shown at first: a regulation may have thousands. */
const FEW = 20;

/** Lists the users of a regulation with each joined id and what joined it. */
export function SubjectsList({ subjects }: { readonly subjects: readonly Subject[] }) {
  const [isWhole, setIsWhole] = useState(false);
  const shown = isWhole ? subjects : subjects.slice(0, FEW);
  return (
    <>
      <ul className="stack-s" aria-label="Whom it takes">
        {shown.map((subject) => (
          <li key={`${subject.userId ?? ''} ${subject.anonymousId ?? ''}`}>
            <span className="mono">{visibleLine(subjectTitle(subject))}</span>
            <JoinedIds joins={subject.joins} label="" />
            <JoinedIds joins={subject.leftOut} label="Left out: " />
          </li>
        ))}
      </ul>
      {subjects.length > shown.length && (
        <Button kind="quiet" isSmall onClick={() => setIsWhole(true)}>
          {subjects.length - shown.length} more
        </Button>
      )}
    </>
  );
}

function JoinedIds({ joins, label }: { readonly joins: Subject['joins']; readonly label: string }) {
  if (joins.length === 0) return null;
  return (
    <ul>
      {joins.map((join) => (
        <li key={`${join.kind} ${join.value}`} className="soft">
          {label}
          <span className="mono">{visibleLine(join.value)}</span> by {visibleLine(joinText(join), 160)}
          {join.at !== null && (
            <>
              , <RelativeTime at={join.at} />
            </>
          )}{' '}
          {join.messageId !== null && (
            <Link to="/events/$messageId" params={{ messageId: join.messageId }}>
              event
            </Link>
          )}
        </li>
      ))}
    </ul>
  );
}
