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
  /** Both forms of the draft as the server has understood it; absent while it has not. */
  readonly understood: { readonly definition: string; readonly json: Json } | undefined;
  readonly onChange: (draft: DefinitionDraft) => void;
}

/** Who belongs: a builder and a text, which write the same definition. */
export function DefinitionField(props: DefinitionFieldProps) {
  const { draft, hasBuilder, label, mistake, understood, onChange } = props;
  const built = understood === undefined || !hasBuilder ? undefined : builderOf(understood.json);
  const isEmpty = draft.form === 'text' && draft.text.trim() === '';
  const turn = (form: string): void => {
    if (form === draft.form) return;
    if (form === 'text') onChange({ form, text: understood?.definition ?? '' });
    else if (isEmpty) onChange({ form: 'builder', group: NEW_GROUP });
    else if (built !== undefined && typeof built !== 'string') onChange({ form: 'builder', group: built });
  };
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
