import { useState } from 'react';
import { Button } from '../ui/controls.tsx';
import { Notice } from '../ui/empty-state.tsx';
import { Choice } from '../ui/form-fields.tsx';
import { RecordDiff } from '../ui/record-diff.tsx';
import { visibleLine } from '../ui/visible-text.ts';
import { type Fields, mergeFields, type Versions } from './fields.ts';

/** Labels of the fields of a form. */
export type FieldLabels<Draft extends Fields> = Readonly<Record<keyof Draft & string, string>>;

interface OvertakenProps<Draft extends Fields> {
  /** The kind of record: "destination". */
  readonly noun: string;
  readonly versions: Versions<Draft>;
  readonly labels: FieldLabels<Draft>;
  /** Continues with this draft on top of the stored record; without a draft, with the stored record. */
  readonly onGoOn: (draft?: Draft) => void;
}

/**
 * Shows what somebody else has changed meanwhile, and lets the person choose where both changed the same
 * field.
 */
export function Overtaken<Draft extends Fields>({ noun, versions, labels, onGoOn }: OvertakenProps<Draft>) {
  const { base, mine, theirs } = versions;
  const { draft, news, disputed } = mergeFields(versions);
  const [taken, setTaken] = useState<ReadonlySet<string>>(new Set());
  const pick = (from: Draft) => Object.fromEntries(news.map((name) => [labels[name], from[name]]));
  const chosen = Object.fromEntries(
    disputed.filter((name) => taken.has(name)).map((name) => [name, theirs[name]]),
  );
  const choose = (name: string, value: 'mine' | 'theirs') =>
    setTaken(
      (before) => new Set(value === 'theirs' ? [...before, name] : [...before].filter((one) => one !== name)),
    );
  return (
    <Notice tone="warn">
      <p role="alert">Somebody else has changed this {noun} while you were at it:</p>
      <RecordDiff before={pick(base)} after={pick(theirs)} label="What has changed meanwhile" />
      {disputed.length > 0 && <p>Both of you have changed the same. Say which one stays:</p>}
      {disputed.map((name) => (
        <Choice
          key={name}
          label={labels[name]}
          value={taken.has(name) ? 'theirs' : 'mine'}
          options={[
            { value: 'mine', label: `yours: ${valueText(mine[name])}` },
            { value: 'theirs', label: `theirs: ${valueText(theirs[name])}` },
          ]}
          onChange={(value) => choose(name, value)}
        />
      ))}
      <div className="rowx">
        <Button isSmall onClick={() => onGoOn({ ...draft, ...chosen })}>
          Keep my changes on top of theirs
        </Button>
        <Button isSmall onClick={() => onGoOn()}>
          Drop mine
        </Button>
      </div>
    </Notice>
  );
}

/** Longest value on a button, in characters. */
const MOST = 40;

function valueText(value: unknown): string {
  if (value === '' || (Array.isArray(value) && value.length === 0)) return 'nothing';
  return visibleLine(typeof value === 'string' ? value : JSON.stringify(value), MOST);
}
