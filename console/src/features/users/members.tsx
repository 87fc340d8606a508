import { useInfiniteQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { parametersOf } from '../../api/ids.ts';
import { Button } from '../../ui/controls.tsx';
import { EmptyState, Failure } from '../../ui/empty-state.tsx';
import { exactNumber } from '../../ui/format.ts';
import { Section } from '../../ui/page.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { RelativeTime } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { type Computation, type Kind, type Member, membersQuery } from './queries.ts';

export interface PartProps {
  readonly kind: Kind;
  readonly computation: Computation;
}

/** The search for a member: by userId, otherwise by the anonymous id that destinations know. */
function searchOf({ userId, anonymousId = '' }: Member) {
  return userId === undefined ? parametersOf('anonymousId', anonymousId) : parametersOf('userId', userId);
}

const MEMBER_COLUMNS: readonly Column<Member>[] = [
  {
    id: 'user',
    header: 'User',
    className: 'w mono',
    cell: (member) => (
      <>
        <Link to="/users" search={searchOf(member)}>
          {visibleLine(member.userId ?? member.anonymousId ?? '')}
        </Link>{' '}
        {member.userId === undefined && <span className="dim">without a userId</span>}
      </>
    ),
  },
  {
    id: 'value',
    header: 'Value',
    className: 'r mono c-lo',
    cell: ({ value }) => visibleLine(JSON.stringify(value), 60),
  },
  { id: 'since', header: 'Since', className: 'r soft', cell: ({ since }) => <RelativeTime at={since} /> },
];

export function Members({ kind, computation: { name, members: count } }: PartProps) {
  const members = useInfiniteQuery(membersQuery(kind, name));
  const navigate = useNavigate();
  const rows = members.data?.pages.flatMap(({ data }) => data) ?? [];
  return (
    <Section title={kind === 'audiences' ? 'Members' : 'Users'} about={`${exactNumber(count)} now`}>
      {members.error !== null && <Failure error={members.error} />}
      {members.data !== undefined && rows.length === 0 ? (
        <div className="box">
          <EmptyState title="Nobody yet">
            Users appear here by themselves as soon as the definition holds for them.
          </EmptyState>
        </div>
      ) : (
        <Table
          label="Members"
          columns={MEMBER_COLUMNS}
          rows={rows}
          rowId={({ userId, anonymousId }) => `${userId === undefined} ${userId ?? anonymousId}`}
          onOpen={(member) => void navigate({ to: '/users', search: searchOf(member) })}
          foot={
            members.hasNextPage ? (
              <Button kind="quiet" isSmall onClick={() => void members.fetchNextPage()}>
                More
              </Button>
            ) : undefined
          }
        />
      )}
    </Section>
  );
}
