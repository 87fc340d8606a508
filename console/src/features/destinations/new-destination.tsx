import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { RestoredNotice } from '../../editing/restored-notice.tsx';
import { useKeptForm } from '../../editing/use-kept-form.ts';
import { Choice } from '../../ui/form-fields.tsx';
import { Crumbs, Page } from '../../ui/page.tsx';
import { toast } from '../../ui/toast.tsx';
import { DestinationForm } from './destination-form.tsx';
import { creationOf, NEW_DESTINATION, NEW_DESTINATION_FORM } from './form.ts';
import { typesIn } from './plain-form.ts';
import { descriptionQuery, NewPlainDestination, type Steps } from './plain-settings.tsx';
import { useCreateDestination } from './queries.ts';

const NO_SOURCE =
  'It has no source, so nothing would be sent to it. Choose one, or press again: an audience or a computed trait may name it later.';

/** The type whose form is drawn here; a plain one is drawn for any other. */
const OWN_FORM = 'webhooks';

export function NewDestination() {
  const { data: description } = useQuery(descriptionQuery);
  const types = typesIn(description);
  const [type, setType] = useState(OWN_FORM);
  const navigate = useNavigate();
  const steps: Steps = {
    onMade: async (name, sources) => {
      const what =
        sources.length > 0
          ? 'What arrives from now on is sent to it.'
          : 'Nothing is sent to it until it has a source.';
      toast(`${name} is made. ${what}`);
      await navigate({ to: '/destinations/$name', params: { name } });
    },
    onCancel: () => void navigate({ to: '/destinations' }),
  };
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
      {types.length > 1 && (
        <Choice
          label="Type"
          value={type}
          options={types.map((one) => ({ value: one, label: one }))}
          onChange={setType}
        />
      )}
      {type === OWN_FORM ? (
        <NewWebhook {...steps} />
      ) : (
        <NewPlainDestination key={type} type={type} {...steps} />
      )}
    </Page>
  );
}

function NewWebhook({ onMade, onCancel }: Steps) {
  const create = useCreateDestination();
  const { draft, restored, put, forget } = useKeptForm(NEW_DESTINATION_FORM);
  const [isSure, setIsSure] = useState(false);
  return (
    <>
      <RestoredNotice restored={restored} onDrop={() => put(NEW_DESTINATION)} />
      <DestinationForm
        initial={NEW_DESTINATION}
        draft={draft}
        action="Create destination"
        isNew
        onChange={put}
        onSave={async () => {
          if (draft.sources.length === 0 && !isSure) {
            setIsSure(true);
            throw new Error(NO_SOURCE);
          }
          await create.mutateAsync(creationOf(draft));
          forget();
          await onMade(draft.name, draft.sources);
        }}
        onCancel={() => {
          forget();
          onCancel();
        }}
      />
    </>
  );
}
