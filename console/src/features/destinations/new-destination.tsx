import { Link, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { RestoredNotice } from '../../editing/restored-notice.tsx';
import { useKeptForm } from '../../editing/use-kept-form.ts';
import { Crumbs, Page } from '../../ui/page.tsx';
import { toast } from '../../ui/toast.tsx';
import { DestinationForm } from './destination-form.tsx';
import { creationOf, NEW_DESTINATION, NEW_DESTINATION_FORM } from './form.ts';
import { useCreateDestination } from './queries.ts';

const NO_SOURCE =
  'It has no source, so nothing would be sent to it. Choose one, or press again: an audience or a computed trait may name it later.';

export function NewDestination() {
  const create = useCreateDestination();
  const { draft, restored, put, forget } = useKeptForm(NEW_DESTINATION_FORM);
  const [isSure, setIsSure] = useState(false);
  const navigate = useNavigate();
  return (
    <Page
      title="New destination"
      crumbs={
        <Crumbs>
          <Link to="/destinations">Destinations</Link>
          <span>new</span>
        </Crumbs>
      }
    >
      <RestoredNotice restored={restored} onDrop={() => put(NEW_DESTINATION)} />
      <DestinationForm
        initial={NEW_DESTINATION}
        draft={draft}
        action="Create destination"
        isNew
        onChange={put}
        onSave={async () => {
          const hasSource = draft.sources.length > 0;
          if (!hasSource && !isSure) {
            setIsSure(true);
            throw new Error(NO_SOURCE);
          }
          await create.mutateAsync(creationOf(draft));
          forget();
          const what = hasSource
            ? 'What arrives from now on is sent to it.'
            : 'Nothing is sent to it until it has a source.';
          toast(`${draft.name} is made. ${what}`);
          await navigate({ to: '/destinations/$name', params: { name: draft.name } });
        }}
        onCancel={() => {
          forget();
          void navigate({ to: '/destinations' });
        }}
      />
    </Page>
  );
}
