import { useQuery } from '@tanstack/react-query';
import { computationsQuery } from '../queries.ts';
import { Choice, Comparison, EventFields, NameField, type RowProps } from './event-fields.tsx';
import { type EventRow, NEW_EVENT, type Row } from './model.ts';

const KINDS: Readonly<Record<Row['kind'], string>> = {
  track: 'did',
  page: 'saw the page',
  screen: 'saw the screen',
  trait: 'has the trait',
  computed: 'has the computed trait',
  audience: 'is in the audience',
  group: 'is in the group',
};

/** A row for a condition: a sentence with parts to choose. */
export function ConditionRow({ row, known, onChange }: RowProps) {
  return (
    <div className="rowx">
      <Choice
        label="Whether it holds"
        value={row.isNot ? 'not' : ''}
        words={{ '': 'who', not: 'not who' }}
        onChange={(value) => onChange({ ...row, isNot: value === 'not' })}
      />
      <Choice
        label="Kind of condition"
        value={row.kind}
        words={KINDS}
        onChange={(kind) => onChange(turned(row, kind))}
      />
      <RowRest row={row} known={known} onChange={onChange} />
    </div>
  );
}

function RowRest({ row, known, onChange }: RowProps) {
  switch (row.kind) {
    case 'group':
      return <NameField label="Id of the group" row={row} onChange={onChange} />;
    case 'audience':
      return <KnownName kind="audiences" row={row} onChange={onChange} />;
    case 'computed':
      return (
        <>
          <KnownName kind="traits" row={row} onChange={onChange} />
          <Comparison test={row} onChange={(part) => onChange({ ...row, ...part })} />
        </>
      );
    case 'trait':
      return (
        <>
          <NameField label="Trait" row={row} names={known.traits()} onChange={onChange} />
          <Comparison
            test={row}
            values={known.traitValues(row.name)}
            onChange={(part) => onChange({ ...row, ...part })}
          />
        </>
      );
    default:
      return <EventFields row={row} known={known} onChange={onChange} />;
  }
}

/** Converts a row to another kind; keeps fields that both kinds have. */
function turned(row: Row, kind: Row['kind']): Row {
  const { isNot } = row;
  const isEvent = (one: Row['kind']): one is EventRow['kind'] => ['track', 'page', 'screen'].includes(one);
  if (isEvent(kind))
    return isEvent(row.kind) ? { ...(row as EventRow), kind } : { ...NEW_EVENT, kind, isNot };
  if (kind === 'audience' || kind === 'group') return { kind, isNot, name: '' };
  return { kind, isNot, name: '', op: '=', to: '' };
}

/** Selects an existing definition. */
function KnownName({
  kind,
  row,
  onChange,
}: { readonly kind: 'audiences' | 'traits' } & Omit<RowProps, 'known'>) {
  const { data: known = [] } = useQuery(computationsQuery(kind));
  const names = [...new Set([...known.map(({ name }) => name), ...(row.name === '' ? [] : [row.name])])];
  return (
    <Choice
      label="Name"
      value={row.name}
      words={Object.fromEntries([['', 'choose…'], ...names.map((name) => [name, name])])}
      onChange={(name) => onChange({ ...row, name })}
    />
  );
}
