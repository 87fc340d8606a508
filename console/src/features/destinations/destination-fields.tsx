import { useQuery } from '@tanstack/react-query';
import type { ApiFault } from '../../api/client.ts';
import { sourcesQuery } from '../../api/queries.ts';
import { faultOf } from '../../editing/faults.ts';
import { Field } from '../../ui/controls.tsx';
import { Check, Checks, Choice, TextField } from '../../ui/form-fields.tsx';
import { CALL_TYPES, DESTINATION_LABELS, type DestinationDraft } from './form.ts';

interface PartProps {
  readonly draft: DestinationDraft;
  readonly faults: readonly ApiFault[];
  readonly onChange: (change: Partial<DestinationDraft>) => void;
}

export function WhatItGets({ draft, faults, onChange }: PartProps) {
  return (
    <fieldset className="stack-s plain">
      <legend className="lbl">Filter</legend>
      <Checks names={CALL_TYPES} chosen={draft.types} onChange={(types) => onChange({ types })} />
      <p className="hint">None ticked: calls of every type.</p>
      <Field
        label="Events"
        hint="Names of track calls, one a line; a * at the end stands for any rest. Empty: all."
        error={faultOf(faults, 'settings.filter')}
      >
        {(control) => (
          <textarea
            {...control}
            className="area mono"
            rows={3}
            spellCheck={false}
            value={draft.events}
            onChange={(event) => onChange({ events: event.target.value })}
          />
        )}
      </Field>
    </fieldset>
  );
}

/** Categories that a visitor has to consent to, so that the destination gets their events. */
export function ConsentAsked({ draft, faults, onChange }: PartProps) {
  return (
    <fieldset className="stack-s plain">
      <legend className="lbl">Consent</legend>
      <Field
        label="Consent categories"
        hint="Ids, one a line, as the consent banner has them; a visitor must have consented to all. Empty: none is asked for."
        error={faultOf(faults, 'settings.consent')}
      >
        {(control) => (
          <textarea
            {...control}
            className="area mono"
            rows={2}
            spellCheck={false}
            value={draft.consent}
            onChange={(event) => onChange({ consent: event.target.value })}
          />
        )}
      </Field>
    </fieldset>
  );
}

const FORMS = [
  { value: 'identify', label: 'an identify' },
  { value: 'track', label: 'a track' },
  { value: 'both', label: 'one of each' },
] as const;

const USUAL_NAMES = {
  enteredEvent: 'Audience Entered',
  exitedEvent: 'Audience Exited',
  traitEvent: 'Trait Computed',
} as const;

/** The form in which it hears of audiences and computed traits. */
export function ChangesOfUsers({ draft, faults, onChange }: PartProps) {
  const names = Object.keys(USUAL_NAMES) as (keyof typeof USUAL_NAMES)[];
  return (
    <fieldset className="stack-s plain">
      <legend className="lbl">Audiences and computed traits</legend>
      <Choice
        label={DESTINATION_LABELS.changesAs}
        value={draft.changesAs}
        options={FORMS}
        onChange={(changesAs) => onChange({ changesAs })}
      />
      {draft.changesAs !== 'identify' &&
        names.map((name) => (
          <TextField
            key={name}
            label={DESTINATION_LABELS[name]}
            hint={`Empty: ${USUAL_NAMES[name]}.`}
            error={faultOf(faults, `settings.computations.${name}`)}
            value={draft[name]}
            onChange={(value) => onChange({ [name]: value })}
          />
        ))}
      <TextField
        label={DESTINATION_LABELS.space}
        hint="The namespace and space_id that its receiver knows. Empty: none."
        error={faultOf(faults, 'settings.computations.space')}
        value={draft.space}
        onChange={(space) => onChange({ space })}
      />
      <Check isChecked={draft.withEmail} onChange={(withEmail) => onChange({ withEmail })}>
        {DESTINATION_LABELS.withEmail}
      </Check>
      <Field
        label={DESTINATION_LABELS.withTraits}
        hint="Names of traits of the user, one a line. They stand beside the membership or the value."
        error={faultOf(faults, 'settings.computations.traits')}
      >
        {(control) => (
          <textarea
            {...control}
            className="area mono"
            rows={2}
            spellCheck={false}
            value={draft.withTraits}
            onChange={(event) => onChange({ withTraits: event.target.value })}
          />
        )}
      </Field>
    </fieldset>
  );
}

/** The names by which the integrations object of a call switches the destination on and off. */
export function NamesInCalls({ draft, faults, onChange }: PartProps) {
  return (
    <fieldset className="stack-s plain">
      <legend className="lbl">Integrations object</legend>
      <Choice
        label="Calls switch it by its name, and by"
        value={draft.answersTo}
        options={[
          { value: 'usual', label: 'those of all webhooks' },
          { value: 'own', label: 'names of its own' },
        ]}
        onChange={(answersTo) => onChange({ answersTo })}
      />
      {draft.answersTo === 'own' && (
        <Field
          label="Other names"
          hint="One a line; the first that a call has decides. Empty: none."
          error={faultOf(faults, 'settings.integrationNames')}
        >
          {(control) => (
            <textarea
              {...control}
              className="area mono"
              rows={3}
              spellCheck={false}
              value={draft.integrationNames}
              onChange={(event) => onChange({ integrationNames: event.target.value })}
            />
          )}
        </Field>
      )}
    </fieldset>
  );
}

export function HowItIsSent({ draft, faults, onChange }: PartProps) {
  return (
    <fieldset className="stack-s plain">
      <legend className="lbl">Sending</legend>
      <Choice
        label="A delivery succeeds with"
        value={draft.success}
        options={[
          { value: 'any', label: 'any one URL' },
          { value: 'each', label: 'each URL by itself' },
        ]}
        onChange={(success) => onChange({ success })}
      />
      <Choice
        label="The body has"
        value={draft.format}
        options={[
          { value: 'documented', label: 'the fields of its type' },
          { value: 'canonical', label: 'the whole event' },
          { value: 'segment', label: 'the whole event as classic webhooks of Segment have it' },
        ]}
        onChange={(format) => onChange({ format })}
      />
      <TextField
        label="User agent"
        hint="What its requests say they are. Empty: Millrace/1.0."
        error={faultOf(faults, 'settings.userAgent')}
        placeholder="Millrace/1.0"
        value={draft.userAgent}
        onChange={(userAgent) => onChange({ userAgent })}
      />
      <div className="two">
        <TextField
          label="Requests a second"
          hint="To each URL. Empty: no limit."
          error={faultOf(faults, 'settings.rateLimit')}
          inputMode="numeric"
          value={draft.rateLimit}
          onChange={(rateLimit) => onChange({ rateLimit })}
        />
        <TextField
          label="Requests at once"
          hint="To each URL. Empty: adapts, up to 256."
          error={faultOf(faults, 'settings.concurrency')}
          inputMode="numeric"
          value={draft.concurrency}
          onChange={(concurrency) => onChange({ concurrency })}
        />
      </div>
    </fieldset>
  );
}

interface SourceChoiceProps {
  readonly chosen: readonly string[];
  readonly error: string | undefined;
  readonly onChange: (sources: readonly string[]) => void;
}

export function SourceChoice({ chosen, error, onChange }: SourceChoiceProps) {
  const { data: sources = [] } = useQuery(sourcesQuery);
  // A source that was removed stays chosen, and can be taken out.
  const names = [...new Set([...sources.filter(({ system }) => !system).map(({ name }) => name), ...chosen])];
  return (
    <fieldset className="stack-s plain">
      <legend className="lbl">Sources</legend>
      <Checks names={names} chosen={chosen} onChange={onChange} />
      {error !== undefined && (
        <p className="bad field-error" role="alert">
          {error}
        </p>
      )}
    </fieldset>
  );
}
