import { useInfiniteQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { useMay } from '../../api/roles.ts';
import { Button } from '../../ui/controls.tsx';
import { EmptyState, Failure, SkeletonRows } from '../../ui/empty-state.tsx';
import { Page } from '../../ui/page.tsx';
import { RelativeTime } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { type RegulationType, suppressionsQuery } from './queries.ts';
import { RegulationDialog } from './regulation-dialog.tsx';
import { UserSections } from './section-tabs.tsx';
import '../../ui/table.css';

interface Asked {
  readonly ids: readonly string[];
  readonly type: RegulationType;
}

/** Page of suppressed users, as far as their ids are kept. */
export function SuppressionsPage() {
  const suppressions = useInfiniteQuery(suppressionsQuery);
  const mayEnd = useMay('admin');
  const [asked, setAsked] = useState<Asked>();
  const rows = suppressions.data?.pages.flatMap(({ data }) => data) ?? [];
  return (
    <Page
      title="Suppressions"
      actions={
        mayEnd && (
          <Button onClick={() => setAsked({ ids: [], type: 'SUPPRESS_ONLY' })}>Suppress users…</Button>
        )
      }
    >
      <UserSections />
      {suppressions.error !== null && <Failure error={suppressions.error} />}
      {suppressions.isPending ? (
        <SkeletonRows />
      ) : (
        <div className="box bleed">
          {rows.length === 0 ? (
            <EmptyState title="No user is suppressed by an id that is kept">
              Calls of a suppressed user are answered 200 and stored nowhere. Users who were deleted too are
              not listed: of them only a keyed hash stays.
            </EmptyState>
          ) : (
            <table className="tbl">
              <thead>
                <tr>
                  <th className="w">User</th>
                  <th className="c-lo">Since</th>
                  <th>Regulation</th>
                  {mayEnd && (
                    <th>
                      <span className="sr">Actions</span>
                    </th>
                  )}
                </tr>
              </thead>
              <tbody>
                {rows.map(({ userId = '', since, regulation }) => (
                  <tr key={userId}>
                    <td className="w mono">{visibleLine(userId)}</td>
                    <td className="soft c-lo">
                      <RelativeTime at={since} />
                    </td>
                    <td>
                      <Link to="/users/deletions/$id" params={{ id: regulation }} className="link">
                        receipt
                      </Link>
                    </td>
                    {mayEnd && (
                      <td className="r">
                        <Button isSmall onClick={() => setAsked({ ids: [userId], type: 'UNSUPPRESS' })}>
                          End…
                        </Button>
                      </td>
                    )}
                  </tr>
                ))}
              </tbody>
            </table>
          )}
          {suppressions.hasNextPage && (
            <div className="tfoot">
              <Button kind="quiet" isSmall onClick={() => void suppressions.fetchNextPage()}>
                More
              </Button>
            </div>
          )}
        </div>
      )}
      {asked !== undefined && (
        <RegulationDialog
          initialIds={asked.ids}
          initialType={asked.type}
          onClose={() => setAsked(undefined)}
        />
      )}
    </Page>
  );
}
