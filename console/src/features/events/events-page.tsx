import { EmptyState } from '../../ui/empty-state.tsx';
import { Page } from '../../ui/page.tsx';

export function EventsPage() {
  return (
    <Page title="Events">
      <div className="box">
        <EmptyState title="This page is not written yet">
          The command line shows what it will show.
        </EmptyState>
      </div>
    </Page>
  );
}
