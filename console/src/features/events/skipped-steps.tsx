import { Link } from '@tanstack/react-router';
import { exactNumber } from '../../ui/format.ts';
import { visibleLine } from '../../ui/visible-text.ts';
import { WayStep } from '../../ui/way.tsx';
import type { AcceptedEvent } from './queries.ts';
import { reasonSentence } from './reasons.ts';
import './event-way.css';

/** Destinations that do not get an event: one step for each reason; opening it lists them. */
export function SkippedSteps({ skipped }: Pick<AcceptedEvent, 'skipped'>) {
  const byReason = Map.groupBy(skipped, ({ reason }) => reason);
  return [...byReason].map(([reason, [first, ...others]]) => (
    <WayStep key={reason} state="skipped" what="skipped">
      {first !== undefined && others.length === 0 ? (
        <span className="soft">
          {visibleLine(first.destination, 60)}: {reasonSentence(reason)}
        </span>
      ) : (
        <details className="skipped">
          <summary className="soft">
            <b className="med ink">{exactNumber(1 + others.length)} destinations</b>: {reasonSentence(reason)}
          </summary>
          <SkippedNames
            names={skipped.filter((one) => one.reason === reason).map((one) => one.destination)}
          />
        </details>
      )}
    </WayStep>
  ));
}

function SkippedNames({ names }: { readonly names: readonly string[] }) {
  return (
    <ul className="skipped-names">
      {names.map((name) => (
        <li key={name}>
          <Link to="/destinations/$name" params={{ name }} className="link">
            {visibleLine(name, 60)}
          </Link>
        </li>
      ))}
    </ul>
  );
}
