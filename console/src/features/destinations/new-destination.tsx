import { Link, useNavigate } from '@tanstack/react-router';
import { Crumbs, Page } from '../../ui/page.tsx';
import { toast } from '../../ui/toast.tsx';
import { DestinationForm } from './destination-form.tsx';
import { creationOf, NEW_DESTINATION } from './form.ts';
import { useSaveDestination } from './queries.ts';

export function NewDestination() {
  const save = useSaveDestination();
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
      <DestinationForm
        initial={NEW_DESTINATION}
        isNew
        onSave={async (draft) => {
          await save.mutateAsync({ body: creationOf(draft) });
          toast(`${draft.name} is made. What arrives from now on is sent to it.`);
          await navigate({ to: '/destinations/$name', params: { name: draft.name } });
        }}
        onCancel={() => void navigate({ to: '/destinations' })}
      />
    </Page>
  );
}
