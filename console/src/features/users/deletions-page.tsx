import { useInfiniteQuery } from '@tanstack/react-query';
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router';
import { useMay } from '../../api/roles.ts';
import { Button } from '../../ui/controls.tsx';
import { EmptyState, Failure, SkeletonRows } from '../../ui/empty-state.tsx';
import { Page } from '../../ui/page.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { Num, RelativeTime } from '../../ui/time.tsx';
import { regulationsQuery } from './queries.ts';
import { confirmationsOf, isErasing, type Regulation, titleOf } from './receipt.ts';
import { RegulationDialog } from './regulation-dialog.tsx';
import { RegulationState } from './regulation-state.tsx';
import { UserSections } from './section-tabs.tsx';

const route = getRouteApi('/shell/users/deletions');

/** Requests to delete or suppress users, the newest first. */
export function DeletionsPage() {
  const regulations = useInfiniteQuery(regulationsQuery);
  const mayDelete = useMay('admin');
  const navigate = useNavigate();
  const { new: isAsking } = route.useSearch();
  const ask = (isOpen: boolean) =>
    void navigate({ to: '/users/deletions', search: isOpen ? { new: true } : {}, replace: !isOpen });
  const rows = regulations.data?.pages.flatMap(({ data }) => data) ?? [];
  return (
    <Page
      title="Deletions"
      actions={
        mayDelete && (
          <Button kind="danger" onClick={() => ask(true)}>
            Delete users…
          </Button>
        )
      }
    >
      <UserSections />
      {regulations.error !== null && <Failure error={regulations.error} />}
      {regulations.isPending ? (
        <SkeletonRows />
      ) : rows.length === 0 ? (
        <div className="box">
          <EmptyState title="Nobody was deleted">
            A deletion erases everything of a user everywhere, tells every destination, and leaves a receipt
            here.
          </EmptyState>
        </div>
      ) : (
        <Table
          label="Deletions"
          columns={COLUMNS}
          rows={rows}
          rowId={({ id }) => id}
          onOpen={({ id }) => void navigate({ to: '/users/deletions/$id', params: { id } })}
          foot={
            regulations.hasNextPage ? (
              <Button kind="quiet" isSmall onClick={() => void regulations.fetchNextPage()}>
                More
              </Button>
            ) : undefined
          }
        />
      )}
      {isAsking === true && mayDelete && <RegulationDialog initialIds={[]} onClose={() => ask(false)} />}
    </Page>
  );
}

const COLUMNS: readonly Column<Regulation>[] = [
  { id: 'state', header: 'State', cell: (regulation) => <RegulationState regulation={regulation} /> },
  {
    id: 'what',
    header: 'What',
    className: 'w',
    cell: (regulation) => (
      <>
        <Link to="/users/deletions/$id" params={{ id: regulation.id }} className="med">
          {titleOf(regulation)}
        </Link>
        <span className="sub">
          <RelativeTime at={regulation.createdAt} />
        </span>
      </>
    ),
  },
  {
    id: 'events',
    header: 'Events erased',
    className: 'r c-lo',
    cell: ({ type, erased }) => (isErasing(type) ? <Num value={erased.events} /> : '—'),
  },
  {
    id: 'confirmed',
    header: 'Confirmed',
    className: 'r c-lo',
    cell: (regulation) => {
      const { confirmed, all } = confirmationsOf(regulation);
      return all === 0 ? '—' : `${confirmed} of ${all}`;
    },
  },
  { id: 'by', header: 'By', className: 'soft c-md', cell: ({ by }) => by },
  {
    id: 'at',
    header: 'Asked for',
    className: 'r dim c-lo',
    cell: ({ createdAt }) => <RelativeTime at={createdAt} />,
  },
];
