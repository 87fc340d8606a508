import type { ReactNode } from 'react';
import './code.css';

/** A region that scrolls inside the page and can be reached and scrolled by keyboard. */
export function ScrollRegion({ label, children }: { readonly label: string; readonly children: ReactNode }) {
  return (
    // biome-ignore lint/a11y/useSemanticElements: no part of a form; a section would be a landmark for each block of code.
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard.
    <div className="code-body" role="group" aria-label={label} tabIndex={0}>
      {children}
    </div>
  );
}
