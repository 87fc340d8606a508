import { useQuery } from '@tanstack/react-query';
import { keyOf, sourcesQuery } from '../../api/queries.ts';
import { CodeBlock } from '../../ui/code-block.tsx';
import { Select } from '../../ui/controls.tsx';
import { callExample } from './curl.ts';

const TYPES = ['identify', 'track', 'page', 'screen', 'group', 'alias'];

interface NameSelectProps {
  readonly label: string;
  /** Label of the option for all. */
  readonly any: string;
  /** Undefined or empty: any. */
  readonly value: string | undefined;
  readonly names: readonly string[];
  readonly onChange: (name: string) => void;
}

/** Selects one of these names, or all. */
export function NameSelect({ label, any, value = '', names, onChange }: NameSelectProps) {
  return (
    <Select
      aria-label={label}
      value={value}
      options={[{ value: '', label: any }, ...names.map((name) => ({ value: name, label: name }))]}
      onChange={onChange}
    />
  );
}

interface CallFiltersProps {
  readonly filter: { readonly source?: string | undefined; readonly type?: string | undefined };
  readonly set: (change: { readonly source: string } | { readonly type: string }) => void;
}

/** Restricts a list of calls to one source and one type. */
export function CallFilters({ filter, set }: CallFiltersProps) {
  const { data: sources = [] } = useQuery(sourcesQuery);
  return (
    <>
      <NameSelect
        label="Source"
        any="Any source"
        value={filter.source}
        names={sources.map(({ name }) => name)}
        onChange={(source) => set({ source })}
      />
      <NameSelect
        label="Type"
        any="Any type"
        value={filter.type}
        names={TYPES}
        onChange={(type) => set({ type })}
      />
    </>
  );
}

/** A command to copy that sends an event with the first write key. */
export function SendExample() {
  const { data: sources = [] } = useQuery(sourcesQuery);
  const key = keyOf(sources.find((source) => keyOf(source) !== undefined));
  return <CodeBlock code={callExample(key)} label="Command that sends an event" />;
}
