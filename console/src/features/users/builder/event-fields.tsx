import { Plus, X } from 'lucide-react';
import { type ReactNode, useId } from 'react';
import { Button, Select, TextInput } from '../../../ui/controls.tsx';
import type { KnownEvents } from './known-events.ts';
import {
  type EventRow,
  NEW_TEST,
  OPERATORS,
  type Operator,
  type PropertyTest,
  REDUCERS,
  type Reducer,
  type Row,
  type UNITS,
  type Unit,
} from './model.ts';
import './builder.css';

export interface RowProps<Kind extends Row = Row> {
  readonly row: Kind;
  /** Names to suggest. */
  readonly known: KnownEvents;
  readonly onChange: (row: Row) => void;
}

export function EventFields({ row, known, onChange }: RowProps<EventRow>) {
  const { kind, name, reduce, property, within, unit, where } = row;
  const properties = known.properties(kind, name);
  const change = (part: Partial<EventRow>): void => onChange({ ...row, ...part });
  const counted = (
    <Choice
      label="What is counted"
      value={reduce}
      words={REDUCERS}
      onChange={(value: Reducer) => change({ reduce: value })}
    />
  );
  const changeTest = (at: number, test: PropertyTest): void => change({ where: where.with(at, test) });
  return (
    <>
      <NameField label="Name of the event" row={row} names={known.names(kind)} onChange={onChange} />
      {reduce === 'count' ? (
        <>
          <Comparison test={row} onChange={change} isNumber />
          {counted}
        </>
      ) : (
        <>
          {counted}
          <Text
            label="Property"
            value={property}
            suggested={properties}
            onChange={(value) => change({ property: value })}
          />
          <Comparison test={row} values={known.values(kind, name, property)} onChange={change} />
        </>
      )}
      <span className="b-within">
        <span className="soft">within</span>
        <Text
          label="Length of the time; empty: at any time"
          placeholder="any"
          className="b-num"
          value={within}
          onChange={(value) => change({ within: value })}
        />
        <Choice
          label="Unit of the time"
          value={unit}
          words={
            { days: 'days', hours: 'hours', minutes: 'minutes', seconds: 'seconds' } satisfies Record<
              Unit,
              string
            >
          }
          onChange={(value: keyof typeof UNITS) => change({ unit: value })}
        />
      </span>
      <Button isSmall kind="quiet" onClick={() => change({ where: [...where, NEW_TEST] })}>
        <Plus aria-hidden />
        where
      </Button>
      {where.map((test, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a test has no identity but its place.
        <div key={at} className="nest rowx">
          <span className="soft">{at === 0 ? 'where' : 'and'}</span>
          <Text
            label="Property of the event"
            placeholder="property"
            value={test.name}
            suggested={properties}
            onChange={(name) => changeTest(at, { ...test, name })}
          />
          <Comparison
            test={test}
            values={known.values(kind, name, test.name)}
            onChange={(part) => changeTest(at, { ...test, ...part })}
          />
          <Button
            kind="quiet"
            isSmall
            isIcon
            aria-label={`Remove where ${at + 1}`}
            onClick={() => change({ where: where.toSpliced(at, 1) })}
          >
            <X aria-hidden />
          </Button>
        </div>
      ))}
    </>
  );
}

interface ComparisonProps {
  readonly test: { readonly op: Operator; readonly to: string };
  /** True to offer only comparisons of numbers. */
  readonly isNumber?: boolean;
  /** Values to suggest for the comparison. */
  readonly values?: readonly string[];
  readonly onChange: (part: { readonly op: Operator } | { readonly to: string }) => void;
}

const NUMERIC = { '>=': 'at least', '>': 'more than', '<=': 'at most', '<': 'less than', '=': 'exactly' };

export function Comparison(props: ComparisonProps) {
  const { test, isNumber = false, values = [], onChange } = props;
  const { op, to } = test;
  const words: Partial<Record<Operator, string>> = isNumber ? NUMERIC : OPERATORS;
  return (
    <>
      <Choice
        label="Comparison"
        value={op}
        words={{ ...words, ...(op in words ? {} : { [op]: OPERATORS[op] }) } as Record<Operator, string>}
        onChange={(value: Operator) => onChange({ op: value })}
      />
      {op !== 'exists' && (
        <Text
          label="Value"
          placeholder={op === 'in' ? 'DE, AT, CH' : 'value'}
          className={isNumber ? 'b-num' : 'b-text'}
          value={to}
          // A list has several values in one field.
          suggested={op === 'in' ? [] : values}
          onChange={(value) => onChange({ to: value })}
        />
      )}
    </>
  );
}

interface NameFieldProps {
  readonly label: string;
  readonly row: Row;
  /** Suggested names. */
  readonly names?: readonly string[];
  readonly onChange: (row: Row) => void;
}

export function NameField({ label, row, names = [], onChange }: NameFieldProps) {
  return (
    <Text
      label={label}
      placeholder={label}
      className="b-name"
      value={row.name}
      suggested={names}
      onChange={(name) => onChange({ ...row, name })}
    />
  );
}

interface ChoiceProps<Value extends string> {
  readonly label: string;
  readonly value: Value;
  readonly words: Readonly<Record<Value, string>>;
  readonly onChange: (value: Value) => void;
}

export function Choice<Value extends string>({
  label,
  value,
  words,
  onChange,
}: ChoiceProps<Value>): ReactNode {
  const options = Object.entries<string>(words).map(([one, word]) => ({ value: one, label: word }));
  return (
    <Select
      aria-label={label}
      value={value}
      options={options}
      onChange={(chosen) => onChange(chosen as Value)}
    />
  );
}

interface TextProps {
  readonly label: string;
  readonly value: string;
  readonly placeholder?: string;
  readonly className?: string;
  readonly suggested?: readonly string[];
  readonly onChange: (value: string) => void;
}

function Text({ label, className = 'b-text', suggested = [], onChange, ...rest }: TextProps) {
  const list = useId();
  return (
    <TextInput
      isSmall
      aria-label={label}
      className={className}
      onChange={({ target }) => onChange(target.value)}
      {...(suggested.length === 0 ? {} : { list })}
      after={
        suggested.length > 0 && (
          <datalist id={list}>
            {suggested.map((one) => (
              <option key={one} value={one} />
            ))}
          </datalist>
        )
      }
      {...rest}
    />
  );
}
