import { stringify } from 'yaml';
import { diffLines } from './diff.ts';
import { ScrollRegion } from './scroll-region.tsx';
import { visibleText } from './visible-text.ts';
import './record-diff.css';

interface RecordDiffProps {
  readonly before: unknown;
  readonly after: unknown;
  /** Names the scrolling region for screen readers. */
  readonly label: string;
}

const SIGNS = { removed: '−', added: '+', same: ' ' } as const;
const CLASSES = { removed: 'del', added: 'add', same: '' } as const;

/** A record before and after a change, as a configuration file writes it. */
export function RecordDiff({ before, after, label }: RecordDiffProps) {
  const lines = diffLines(textOf(before), textOf(after));
  return (
    <ScrollRegion label={label}>
      <div className="diff">
        {lines.map(({ kind, text }, nth) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the lines of a difference never move.
          <span key={nth} className={CLASSES[kind]}>
            <span aria-hidden="true">{SIGNS[kind]} </span>
            {kind !== 'same' && <span className="sr">{kind}: </span>}
            {visibleText(text)}
          </span>
        ))}
      </div>
    </ScrollRegion>
  );
}

function textOf(record: unknown): string {
  return record === undefined ? '' : stringify(record, { lineWidth: 0 });
}
