import { ChevronRight } from 'lucide-react';
import { Children, Fragment, type ReactNode, useEffect, useRef } from 'react';
import './page.css';

interface PageProps {
  readonly title: string;
  /** Beside the title: a state, a range. */
  readonly about?: ReactNode;
  readonly actions?: ReactNode;
  /** Above the title: the way here, as `Crumbs`. */
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
      {crumbs}
      <div className="head">
        <h1 tabIndex={-1}>{title}</h1>
        {about}
        {actions !== undefined && <div className="acts">{actions}</div>}
      </div>
      {children}
    </div>
  );
}

/** The links to the pages above this one, and last what this page shows. */
export function Crumbs({ children }: { readonly children: ReactNode }) {
  return (
    <nav className="crumb" aria-label="Where this is">
      {Children.toArray(children).map((crumb, nth) => (
        <Fragment key={typeof crumb === 'object' && 'key' in crumb ? crumb.key : String(crumb)}>
          {nth > 0 && <ChevronRight className="i i-s" aria-hidden />}
          {crumb}
        </Fragment>
      ))}
    </nav>
  );
}

/** Links to the pages of a section. On a narrow screen they scroll, and the page that is open is in sight. */
export function PageTabs({ label, children }: { readonly label: string; readonly children: ReactNode }) {
  const nav = useRef<HTMLElement>(null);
  useEffect(() => {
    nav.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' });
  }, []);
  return (
    <nav ref={nav} className="tabs-nav" aria-label={label}>
      {children}
    </nav>
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
