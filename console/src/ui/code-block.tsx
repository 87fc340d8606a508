import type { ReactNode } from 'react';
import { CopyButton } from './controls.tsx';
import { ScrollRegion } from './scroll-region.tsx';
import { visibleText } from './visible-text.ts';
import './code.css';

interface CodeBlockProps {
  readonly code: string;
  /** Text to copy if it differs: a command whose key is hidden on the screen. */
  readonly copied?: string;
  readonly title?: ReactNode;
  /** Names the scrolling region for screen readers. */
  readonly label?: string;
}

/** Code to copy. */
export function CodeBlock({ code, copied = code, title, label = 'Code' }: CodeBlockProps) {
  return (
    <div className={title === undefined ? 'code code-bare' : 'code'}>
      <div className="code-h">
        {title}
        <CopyButton text={copied} />
      </div>
      <ScrollRegion label={label}>
        <pre>{visibleText(code)}</pre>
      </ScrollRegion>
    </div>
  );
}
