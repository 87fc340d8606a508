import type { ReactNode } from 'react';
import { CopyButton } from './controls.tsx';
import { visibleText } from './visible-text.ts';

interface CodeBlockProps {
  readonly code: string;
  /** What is copied where it differs: a command whose key is hidden on the screen. */
  readonly copied?: string;
  readonly title?: ReactNode;
  /** Names the scrolling region for screen readers. */
  readonly label?: string;
}

/** Something a machine reads, to be copied. */
export function CodeBlock({ code, copied = code, title, label = 'Code' }: CodeBlockProps) {
  return (
    <div className="code">
      <div className="code-h">
        {title}
        <CopyButton text={copied} />
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard. */}
      <section tabIndex={0} aria-label={label} className="code-body">
        <pre>{visibleText(code)}</pre>
      </section>
    </div>
  );
}
