import { useRef } from 'react';
import { Button, CopyButton, Field } from '../../ui/controls.tsx';
import { visibleText } from '../../ui/visible-text.ts';
import { offsetOf, pointAt, tokensOf } from './definition.ts';
import type { Mistake } from './mistakes.ts';
import './definition-editor.css';
import '../../ui/code.css';

interface DefinitionEditorProps {
  readonly label: string;
  readonly value: string;
  readonly mistake: Mistake | undefined;
  readonly onChange: (value: string) => void;
}

/** The text of a definition, with a pointer at its first mistake. */
export function DefinitionEditor({ label, value, mistake, onChange }: DefinitionEditorProps) {
  const area = useRef<HTMLTextAreaElement>(null);
  const goTo = (): void => {
    if (mistake?.place === undefined) return;
    const offset = offsetOf(value, mistake.place);
    area.current?.focus();
    area.current?.setSelectionRange(offset, offset + 1);
  };
  return (
    <div className="stack-s">
      <Field
        label={label}
        error={mistake?.message}
        hint="Conditions on events, traits and other audiences, joined by and, or, not."
      >
        {(control) => (
          <textarea
            {...control}
            ref={area}
            className="area"
            rows={Math.min(14, Math.max(4, value.split('\n').length + 1))}
            spellCheck={false}
            value={value}
            onChange={({ target }) => onChange(target.value)}
          />
        )}
      </Field>
      {mistake?.place !== undefined && (
        <>
          <Pointer text={value} place={mistake.place} />
          <Button kind="quiet" isSmall onClick={goTo}>
            Go to line {mistake.place.line}, column {mistake.place.column}
          </Button>
        </>
      )}
    </div>
  );
}

function Pointer({ text, place }: { readonly text: string; readonly place: NonNullable<Mistake['place']> }) {
  const { line, pointer } = pointAt(text, place);
  return (
    <div className="pointer" aria-hidden="true">
      {visibleText(line)}
      {'\n'}
      <b>{pointer}</b>
    </div>
  );
}

const CLASSES = { text: 's', number: 'n', word: 'k', other: undefined } as const;

/** A definition to be read. */
export function DefinitionText({
  definition,
  title,
}: {
  readonly definition: string;
  readonly title?: string;
}) {
  return (
    <div className="code">
      {title !== undefined && (
        <div className="code-h">
          {title}
          <CopyButton text={definition} />
        </div>
      )}
      <pre className="wraps">
        {tokensOf(definition).map(({ kind, text }, nth) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: tokens never move.
          <span key={nth} className={CLASSES[kind]}>
            {visibleText(text)}
          </span>
        ))}
      </pre>
    </div>
  );
}
