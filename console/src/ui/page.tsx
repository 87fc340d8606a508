import { type ReactNode, useEffect } from 'react';

interface PageProps {
  readonly title: string;
  /** Beside the title: a state, a range. */
  readonly about?: ReactNode;
  readonly actions?: ReactNode;
  /** Above the title: the way here. */
  readonly crumbs?: ReactNode;
  readonly children: ReactNode;
}

/** Title and contents of a page; names the browser's tab. */
export function Page({ title, about, actions, crumbs, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Millrace`;
  }, [title]);
  return (
    <div className="page">
      {crumbs !== undefined && (
        <nav className="crumb" aria-label="Where this is">
          {crumbs}
        </nav>
      )}
      <div className="head">
        <h1>{title}</h1>
        {about}
        {actions !== undefined && <div className="acts">{actions}</div>}
      </div>
      {children}
    </div>
  );
}

interface SectionProps {
  readonly title: string;
  readonly about?: ReactNode;
  /** At the right end of the head. */
  readonly aside?: ReactNode;
  readonly children: ReactNode;
}

export function Section({ title, about, aside, children }: SectionProps) {
  return (
    <section>
      <div className="sec">
        <h2>{title}</h2>
        {about !== undefined && <span className="dim">{about}</span>}
        {aside !== undefined && <span className="r">{aside}</span>}
      </div>
      {children}
    </section>
  );
}
