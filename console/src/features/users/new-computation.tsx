import { Link, useNavigate } from '@tanstack/react-router';
import { RestoredNotice } from '../../editing/restored-notice.tsx';
import { useKeptForm } from '../../editing/use-kept-form.ts';
import { Crumbs, Page } from '../../ui/page.tsx';
import { toast } from '../../ui/toast.tsx';
import { creationOf, newComputation } from './computation-draft.ts';
import { ComputationForm } from './computation-form.tsx';
import { type Kind, useCreateComputation } from './queries.ts';

const LISTS = { audiences: '/users/audiences', traits: '/users/traits' } as const;

const RECORDS = { audiences: '/users/audiences/$name', traits: '/users/traits/$name' } as const;

export function NewComputation({ kind, title }: { readonly kind: Kind; readonly title: string }) {
  const blank = newComputation(kind);
  const { draft, restored, put, forget } = useKeptForm({ key: `${kind}?new`, blank });
  const create = useCreateComputation(kind);
  const navigate = useNavigate();
  return (
    <Page
      title={title}
      crumbs={
        <Crumbs>
          <Link to="/users">Users</Link>
          <Link to={LISTS[kind]} search={{}}>
            {kind === 'audiences' ? 'Audiences' : 'Computed traits'}
          </Link>
          <span>new</span>
        </Crumbs>
      }
    >
      <RestoredNotice restored={restored} onDrop={() => put(blank)} />
      <ComputationForm
        kind={kind}
        action="Save and sync"
        draft={draft}
        onChange={put}
        onSave={async () => {
          const { name } = await create.mutateAsync(creationOf(kind, draft));
          forget();
          toast('Saved. It counts the stored events now.');
          await navigate({ to: RECORDS[kind], params: { name } });
        }}
      />
    </Page>
  );
}
