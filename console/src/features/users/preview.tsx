import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { parametersOf } from '../../api/ids.ts';
import { statusQuery } from '../../api/queries.ts';
import { exactNumber, plural } from '../../ui/format.ts';
import { Clock } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import type { Preview } from './queries.ts';
import '../../ui/progress.css';
import './preview.css';

interface PreviewBoxProps {
  readonly preview: Preview | undefined;
  /** True while a newer preview is computed. */
  readonly isStale: boolean;
  /** True when the preview is compared with a stored definition. */
  readonly isCompared: boolean;
  /** Reason why the preview has to wait, as a sentence. */
  readonly waitsFor: string | undefined;
}

/** Number of users of a definition, some of them, and how many would enter and leave. */
export function PreviewBox({ preview, isStale, isCompared, waitsFor }: PreviewBoxProps) {
  return (
    <section className="box" aria-label="Preview" aria-live="polite" aria-busy={isStale}>
      <div className="pad">
        <span className="lbl">Preview</span>
        <div className="huge num">{preview === undefined ? '…' : exactNumber(preview.members)}</div>
        <div className="soft">
          {preview === undefined ? (
            'Write a definition to count its users.'
          ) : (
            <Share members={preview.members} />
          )}
          {waitsFor !== undefined && <div className="warn">{waitsFor}</div>}
          {preview?.eventsBehind !== undefined && (
            <div className="warn">
              So far: {plural(preview.eventsBehind, 'event is', 'events are')} not counted yet.
            </div>
          )}
        </div>
      </div>
      {preview !== undefined && (
        <>
          {isCompared && (
            <div className="tfoot">
              <span className="ok med">+ {exactNumber(preview.enters)} would enter</span>
              <span className="med ink">− {exactNumber(preview.leaves)} would leave</span>
            </div>
          )}
          {preview.sample.length > 0 && (
            <div className="tfoot sample">
              {preview.sample.map((userId) => (
                <Link key={userId} to="/users" search={parametersOf('userId', userId)} className="tok">
                  {visibleLine(userId, 40)}
                </Link>
              ))}
            </div>
          )}
          <p className="pad hint">
            {preview.eventsSince === undefined ? (
              'No events are stored that it could count.'
            ) : (
              <>
                Counts stored events since <Clock at={preview.eventsSince} />.
              </>
            )}{' '}
            Nothing is kept or sent.{' '}
            {preview.warnings.map(({ message }) => `The definition ${message}.`).join(' ')}
          </p>
        </>
      )}
    </section>
  );
}

/** "of 212,940 profiles, 8.5 %", with a bar; only the word while it is not known how many there are. */
function Share({ members }: { readonly members: number }) {
  const { data: status } = useQuery(statusQuery);
  const all = status?.profiles?.profiles ?? 0;
  if (all === 0) return members === 1 ? 'user' : 'users';
  const part = Math.min(1, members / all);
  return (
    <>
      of {plural(all, 'profile')}, {(part * 100).toFixed(part < 0.1 ? 1 : 0)} %
      <progress className="bar-progress" aria-hidden="true" max={1} value={part} />
    </>
  );
}

/** The effect of saving, in a sentence. */
export function consequence({ enters, leaves }: Preview, destinations: number): string {
  if (destinations === 0) return 'No destination is told.';
  return `Saving sends ${plural(enters + leaves, 'identify call')} to each of ${plural(destinations, 'destination')}.`;
}
