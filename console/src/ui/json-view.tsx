import { useMemo, useState } from 'react';
import { CopyButton, Segmented } from './controls.tsx';
import { type JsonLine, jsonLines } from './json-lines.ts';
import { ScrollRegion } from './scroll-region.tsx';
import { visibleText } from './visible-text.ts';
import './code.css';

interface JsonViewProps {
  readonly value: unknown;
  /** The exact text where it is known, such as the bytes that were sent. */
  readonly text?: string;
  readonly label: string;
  /** At the left of the head. */
  readonly title?: string;
}

const CLASSES = { key: 'k', text: 's', number: 'n', word: 'n', mark: 'p', cut: 'c' };
/** Characters of the bytes view. */
const MOST = 64_000;

/** JSON, pretty or as its bytes are. */
export function JsonView({ value, text = JSON.stringify(value), label, title }: JsonViewProps) {
  const [view, setView] = useState<'pretty' | 'bytes'>('pretty');
  return (
    <div className="code">
      <div className="code-h">
        {title !== undefined && <span className="clip">{title}</span>}
        <Segmented
          label={`View of ${label}`}
          value={view}
          onChange={setView}
          options={[
            { value: 'pretty', label: 'Pretty' },
            { value: 'bytes', label: 'Bytes' },
          ]}
        />
        <CopyButton text={text} />
      </div>
      <ScrollRegion label={label}>
        <pre className={view === 'bytes' ? 'bytes' : ''}>
          {view === 'pretty' ? <Pretty value={value} /> : visibleText(text.slice(0, MOST))}
          {view === 'bytes' && text.length > MOST && <span className="c">… Copy has all of it</span>}
        </pre>
      </ScrollRegion>
    </div>
  );
}

function Pretty({ value }: { readonly value: unknown }) {
  const lines = useMemo(() => jsonLines(value), [value]);
  // biome-ignore lint/suspicious/noArrayIndexKey: lines never move; another value draws all of them.
  return lines.map((line, index) => <Line key={index} line={line} />);
}

function Line({ line }: { readonly line: JsonLine }) {
  return (
    <>
      {'  '.repeat(line.depth)}
      {line.tokens.map(({ kind, text }, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: tokens of a line never move.
        <span key={index} className={CLASSES[kind]}>
          {text}
        </span>
      ))}
      {'\n'}
    </>
  );
}
