import { useEffect, useState } from 'react';
import { isSame } from '../../editing/fields.ts';
import { Segmented } from '../../ui/controls.tsx';
import { Notice } from '../../ui/empty-state.tsx';
import { Icon } from '../../ui/icons.tsx';
import { Builder } from './builder/builder.tsx';
import { builderOf, jsonOf, NEW_GROUP } from './builder/model.ts';
import type { DefinitionDraft } from './definition-draft.ts';
import { DefinitionEditor, DefinitionText } from './definition-editor.tsx';
import type { Mistake } from './mistakes.ts';

type Json = Readonly<Record<string, unknown>>;

interface DefinitionFieldProps {
  readonly draft: DefinitionDraft;
  readonly hasBuilder: boolean;
  readonly label: string;
  readonly mistake: Mistake | undefined;
  /** Both forms of the draft as the server has understood it; absent until then. */
  readonly understood: { readonly definition: string; readonly json: Json } | undefined;
  /** True while the server reads the draft. */
  readonly isAsking: boolean;
  readonly onChange: (draft: DefinitionDraft) => void;
}

/** Field for a definition: a builder and a text, which write the same definition. */
export function DefinitionField(props: DefinitionFieldProps) {
  const { draft, hasBuilder, label, mistake, understood, isAsking, onChange } = props;
  /** The form that was chosen while the server was still reading the draft. */
  const [wanted, setWanted] = useState<string>();
  const built = understood === undefined || !hasBuilder ? undefined : builderOf(understood.json);
  const isEmpty = draft.form === 'text' ? draft.text.trim() === '' : isSame(draft.group, NEW_GROUP);
  // A text that is not understood cannot be written in the other form, and nothing that was typed is thrown
  // away.
  const turn = (form: string): void => {
    setWanted(isAsking && !isEmpty && form !== draft.form ? form : undefined);
    if (form === draft.form) return;
    if (isEmpty) onChange(form === 'text' ? { form, text: '' } : { form: 'builder', group: NEW_GROUP });
    else if (form === 'text' && understood !== undefined) onChange({ form, text: understood.definition });
    else if (built !== undefined && typeof built !== 'string') onChange({ form: 'builder', group: built });
  };
  useEffect(() => {
    if (wanted !== undefined && !isAsking) turn(wanted);
  });
  return (
    <div className="stack-s">
      {hasBuilder && (
        <div className="sec">
          <h2>{label}</h2>
          <span className="r">
            <Segmented
              label="Form of the definition"
              value={draft.form}
              options={[
                { value: 'builder', label: 'Builder' },
                { value: 'text', label: 'Text' },
              ]}
              onChange={turn}
            />
          </span>
        </div>
      )}
      {draft.form === 'text' ? (
        <>
          <DefinitionEditor
            label={label}
            value={draft.text}
            mistake={mistake}
            onChange={(text) => onChange({ form: 'text', text })}
          />
          {hasBuilder && typeof built === 'string' && (
            <Notice>The builder cannot show {built}, so this definition stays text.</Notice>
          )}
        </>
      ) : (
        <>
          <Builder group={draft.group} onChange={(group) => onChange({ form: 'builder', group })} />
          {mistake !== undefined && (
            <p className="st bad field-error" role="alert">
              <Icon name="bad" />
              {mistake.message}
            </p>
          )}
          {jsonOf(draft.group) === undefined ? (
            <p className="hint">Fill in every field to count who belongs.</p>
          ) : (
            understood !== undefined && (
              <DefinitionText title="The same as text" definition={understood.definition} />
            )
          )}
        </>
      )}
    </div>
  );
}
