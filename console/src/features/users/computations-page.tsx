import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router';
import { Plus } from 'lucide-react';
import { useMay } from '../../api/roles.ts';
import { EmptyState, Failure, SkeletonRows } from '../../ui/empty-state.tsx';
import { Page } from '../../ui/page.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { Num } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { ComputationState } from './computation-state.tsx';
import { NewComputation } from './new-computation.tsx';
import { type Computation, computationsQuery, type Kind } from './queries.ts';
import { UserSections } from './section-tabs.tsx';

const audiencesRoute = getRouteApi('/shell/users/audiences');
const traitsRoute = getRouteApi('/shell/users/traits');

export function AudiencesPage() {
  const { new: isNew = false } = audiencesRoute.useSearch();
  return <ComputationsPage kind="audiences" isNew={isNew} />;
}

export function TraitsPage() {
  const { new: isNew = false } = traitsRoute.useSearch();
  return <ComputationsPage kind="traits" isNew={isNew} />;
}

const TITLES = { audiences: 'Audiences', traits: 'Computed traits' } as const;
const NEW = { audiences: 'New audience', traits: 'New computed trait' } as const;
const LISTS = { audiences: '/users/audiences', traits: '/users/traits' } as const;
const RECORDS = { audiences: '/users/audiences/$name', traits: '/users/traits/$name' } as const;

const EMPTY = {
  audiences:
    'An audience is a condition on users, such as two orders within thirty days. Its members are kept up to date by themselves, and its destinations hear who enters and who leaves.',
  traits:
    'A computed trait is a value made of the events of each user, such as the sum of all orders. Its destinations get it as a trait.',
} as const;

interface ComputationsPageProps {
  readonly kind: Kind;
  readonly isNew: boolean;
}

function ComputationsPage({ kind, isNew }: ComputationsPageProps) {
  const mayEdit = useMay('editor');
  const computations = useQuery(computationsQuery(kind));
  const navigate = useNavigate();
  if (isNew && mayEdit) return <NewComputation kind={kind} title={NEW[kind]} />;
  const newLink = mayEdit && (
    <Link to={LISTS[kind]} search={{ new: true }} className="btn btn-p">
      <Plus className="i" aria-hidden />
      {NEW[kind]}
    </Link>
  );
  return (
    <Page title={TITLES[kind]} actions={newLink}>
      <UserSections />
      {computations.error !== null && (
        <Failure error={computations.error} onRetry={() => void computations.refetch()} />
      )}
      {computations.isPending ? (
        <SkeletonRows />
      ) : (computations.data ?? []).length === 0 ? (
        <div className="box">
          <EmptyState title={`No ${TITLES[kind].toLowerCase()} yet`} action={newLink}>
            {EMPTY[kind]}
          </EmptyState>
        </div>
      ) : (
        <Table
          label={TITLES[kind]}
          columns={columnsOf(kind)}
          rows={computations.data ?? []}
          rowId={({ name }) => name}
          onOpen={({ name }) => void navigate({ to: RECORDS[kind], params: { name } })}
        />
      )}
    </Page>
  );
}

function columnsOf(kind: Kind): readonly Column<Computation>[] {
  return [
    {
      id: 'name',
      header: 'Name',
      className: 'w',
      sort: ({ name }) => name,
      cell: ({ name }) => (
        <Link to={RECORDS[kind]} params={{ name }} className="med">
          {visibleLine(name, 60)}
        </Link>
      ),
    },
    {
      id: 'definition',
      header: 'Definition',
      className: 'w mono soft c-lo',
      cell: ({ definition }) => <span title={definition}>{visibleLine(definition)}</span>,
    },
    {
      id: 'state',
      header: 'State',
      className: 'c-lo',
      cell: (computation) => <ComputationState computation={computation} />,
    },
    {
      id: 'members',
      header: kind === 'audiences' ? 'Members' : 'Users',
      className: 'r',
      sort: ({ members }) => members,
      cell: ({ members }) => <Num value={members} />,
    },
    {
      id: 'destinations',
      header: 'Tells',
      className: 'c-md soft cut',
      cell: ({ destinations }) =>
        destinations.length === 0 ? '—' : destinations.map((one) => visibleLine(one)).join(', '),
    },
  ];
}
