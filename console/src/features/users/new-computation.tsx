import { Link, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { Crumbs, Page } from '../../ui/page.tsx';
import { toast } from '../../ui/toast.tsx';
import { creationOf, newComputation } from './computation-draft.ts';
import { ComputationForm } from './computation-form.tsx';
import { type Kind, useCreateComputation } from './queries.ts';

const LISTS = { audiences: '/users/audiences', traits: '/users/traits' } as const;

const RECORDS = { audiences: '/users/audiences/$name', traits: '/users/traits/$name' } as const;

export function NewComputation({ kind, title }: { readonly kind: Kind; readonly title: string }) {
  const [draft, setDraft] = useState(() => newComputation(kind));
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
      <ComputationForm
        kind={kind}
        draft={draft}
        onChange={setDraft}
        onSave={async () => {
          const { name } = await create.mutateAsync(creationOf(kind, draft));
          toast('Saved. It counts the stored events now.');
          await navigate({ to: RECORDS[kind], params: { name } });
        }}
      />
    </Page>
  );
}
