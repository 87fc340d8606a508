import { useState } from 'react';
import { faultOf } from '../../editing/faults.ts';
import { isSame } from '../../editing/fields.ts';
import { Objections } from '../../editing/objections.tsx';
import { useSubmission } from '../../editing/use-submission.ts';
import { Button } from '../../ui/controls.tsx';
import { Check, TextField } from '../../ui/form-fields.tsx';
import {
  ChangesOfUsers,
  ConsentAsked,
  HowItIsSent,
  NamesInCalls,
  SourceChoice,
  WhatItGets,
} from './destination-fields.tsx';
import { EndpointFields } from './endpoint-fields.tsx';
import { type DestinationDraft, hasNewSecret } from './form.ts';
import { type PublicKey, SecretFields } from './secret-fields.tsx';

/** Parts of the record that a field below shows the mistakes of. */
const SHOWN = [
  'name',
  'sources',
  'settings.endpoints',
  'settings.sharedSecret',
  'settings.nextSharedSecret',
  'settings.signingSecrets',
  'settings.filter',
  'settings.userAgent',
  'settings.consent',
  'settings.computations',
  'settings.integrationNames',
  'settings.rateLimit',
  'settings.concurrency',
];

interface DestinationFormProps {
  /** The stored settings, or an empty draft. */
  readonly initial: DestinationDraft;
  readonly draft: DestinationDraft;
  /** The word on the button that saves it. */
  readonly action: string;
  readonly isNew?: boolean;
  /** Present for a stored destination with a public signature. */
  readonly publicKey?: PublicKey | undefined;
  readonly onChange: (draft: DestinationDraft) => void;
  /** Rejects with what the server finds wrong. */
  readonly onSave: () => Promise<unknown>;
  readonly onCancel?: () => void;
}

/** Every setting of a destination; the server's objections stand beside the fields they are about. */
export function DestinationForm(props: DestinationFormProps) {
  const { initial, draft, action, isNew = false, publicKey, onChange, onSave, onCancel } = props;
  const [isKept, setIsKept] = useState(false);
  const isUnkept = hasNewSecret(draft) && !isKept;
  const { form, isSaving, failure, faults, submit } = useSubmission(async () => {
    if (isUnkept) throw new UnkeptSecret();
    await onSave();
    setIsKept(false);
  });
  const change = (part: Partial<DestinationDraft>) => onChange({ ...draft, ...part });
  const changeSecrets = (part: Partial<DestinationDraft>) => {
    setIsKept(false);
    change(part);
  };
  const isChanged = !isSame(initial, draft);
  return (
    <form ref={form} className="form stack" onSubmit={(event) => void submit(event)} noValidate>
      {isNew && (
        <TextField
          label="Name"
          hint="Calls name it in integrations; it cannot be changed later."
          error={faultOf(faults, 'name')}
          value={draft.name}
          onChange={(name) => change({ name })}
        />
      )}
      <SourceChoice
        chosen={draft.sources}
        error={faultOf(faults, 'sources')}
        onChange={(sources) => change({ sources })}
      />
      <EndpointFields
        endpoints={draft.endpoints}
        faults={faults}
        onChange={(endpoints) => change({ endpoints })}
      />
      <SecretFields
        draft={draft}
        initial={initial}
        faults={faults}
        publicKey={publicKey}
        onChange={changeSecrets}
      >
        {hasNewSecret(draft) && (
          <KeptCheck
            isKept={isKept}
            isMissed={isUnkept && failure instanceof UnkeptSecret}
            onChange={setIsKept}
          />
        )}
      </SecretFields>
      <WhatItGets draft={draft} faults={faults} onChange={change} />
      <ConsentAsked draft={draft} faults={faults} onChange={change} />
      <ChangesOfUsers draft={draft} faults={faults} onChange={change} />
      <NamesInCalls draft={draft} faults={faults} onChange={change} />
      <HowItIsSent draft={draft} faults={faults} onChange={change} />
      <Objections
        failure={failure instanceof UnkeptSecret ? undefined : failure}
        faults={faults}
        shown={SHOWN}
      />
      <div className="rowx">
        <Button type="submit" kind="primary" disabled={isSaving || !isChanged}>
          {action}
        </Button>
        {onCancel !== undefined && <Button onClick={onCancel}>Cancel</Button>}
        {!isNew && isChanged && <Button onClick={() => onChange(initial)}>Discard changes</Button>}
      </div>
    </form>
  );
}

/** A new secret was not kept anywhere yet. */
class UnkeptSecret extends Error {}

interface KeptCheckProps {
  readonly isKept: boolean;
  /** It was to be saved without. */
  readonly isMissed: boolean;
  readonly onChange: (isKept: boolean) => void;
}

/** A secret that nobody has kept would be lost with the form: receivers could verify nothing. */
function KeptCheck({ isKept, isMissed, onChange }: KeptCheckProps) {
  return (
    <fieldset className="plain stack-s">
      <Check isChecked={isKept} onChange={onChange}>
        I have kept it: after saving only its last four characters are shown
      </Check>
      {isMissed && (
        <p className="bad field-error" role="alert">
          Nothing was saved. Copy the new secret to where the receiver has it, then tick this.
        </p>
      )}
    </fieldset>
  );
}
