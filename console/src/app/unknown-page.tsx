import { Link } from '@tanstack/react-router';
import { EmptyState } from '../ui/empty-state.tsx';
import { Page } from '../ui/page.tsx';

export function UnknownPage() {
  return (
    <Page title="Nothing here">
      <div className="box">
        <EmptyState title="No page has this address">
          A link may be old, or a name may have changed.{' '}
          <Link to="/" className="link">
            Overview
          </Link>{' '}
          leads on.
        </EmptyState>
      </div>
    </Page>
  );
}
