import { useQuery } from '@tanstack/react-query';
import { Fragment, useState } from 'react';
import { sourcesQuery } from '../../api/queries.ts';
import { Button, Field, Segmented, Select } from '../../ui/controls.tsx';
import { EmptyState, Failure, SkeletonRows } from '../../ui/empty-state.tsx';
import { Checks } from '../../ui/form-fields.tsx';
import { exactNumber, plural } from '../../ui/format.ts';
import { type Column, Table } from '../../ui/table.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { type ComparedSources, comparisonQuery, type SourceRange } from './queries.ts';
import './sources.css';

const RANGES: readonly { readonly value: SourceRange; readonly label: string }[] = [
  { value: '1h', label: '1 hour' },
  { value: '1d', label: '1 day' },
  { value: '7d', label: '7 days' },
];

/** Comparison of a source with another one. Nothing is compared before somebody asks for it. */
export function SourceComparison({ name }: { readonly name: string }) {
  const { data: sources = [] } = useQuery(sourcesQuery);
  const others = sources.filter((one) => one.name !== name && one.system !== true);
  const [chosen, setChosen] = useState<string>();
  const [range, setRange] = useState<SourceRange>('1h');
  const [without, setWithout] = useState<readonly string[]>([]);
  const [asked, setAsked] = useState<Parameters<typeof comparisonQuery>[0]>();
  // The shadow first: it has what another service got.
  const other = chosen ?? (others.find(({ shadow }) => shadow === true) ?? others[0])?.name ?? '';
  const found = useQuery({ ...comparisonQuery(asked), enabled: asked !== undefined });
  if (others.length === 0)
    return (
      <div className="box">
        <EmptyState title="There is no other source">
          What another service got, sent on to a source of its own (shadow: true), can be compared with this
          one.
        </EmptyState>
      </div>
    );
  const compare = () => setAsked({ a: name, b: other, range, without, at: Date.now() });
  return (
    <div className="stack">
      <div className="compare form stack">
        <Field label="Compare with">
          {(control) => (
            <Select
              {...control}
              value={other}
              options={others.map((one) => ({
                value: one.name,
                label: `${visibleLine(one.name)}${one.shadow === true ? ' (shadow)' : ''}`,
              }))}
              onChange={setChosen}
            />
          )}
        </Field>
        <div className="rowx">
          <Segmented label="Calls of the last" value={range} options={RANGES} onChange={setRange} />
          <Button kind="primary" onClick={compare} disabled={found.isFetching}>
            {found.isFetching ? 'Comparing…' : 'Compare'}
          </Button>
        </div>
      </div>
      {found.error !== null && <Failure error={found.error} onRetry={compare} />}
      {found.isFetching && <SkeletonRows rows={4} />}
      {found.data !== undefined && !found.isFetching && (
        <Outcome found={found.data} without={without} onWithout={setWithout} />
      )}
    </div>
  );
}

interface OutcomeProps {
  readonly found: ComparedSources;
  /** Rules that are switched off for the next comparison. */
  readonly without: readonly string[];
  readonly onWithout: (rules: readonly string[]) => void;
}

function Outcome({ found, without, onWithout }: OutcomeProps) {
  const rows = rowsOf(found);
  return (
    <>
      <dl className="kv">
        {countsOf(found).map(([what, n]) => (
          <Fragment key={what}>
            <dt>{what}</dt>
            <dd className="num">{exactNumber(n)}</dd>
          </Fragment>
        ))}
      </dl>
      {rows.length === 0 ? (
        <div className="box">
          <EmptyState title="No difference">
            {`${plural(found.equal, 'call')} of both sources are the same, but for what the rules below allow.`}
          </EmptyState>
        </div>
      ) : (
        <Table
          label="Differences"
          columns={COLUMNS}
          rows={rows}
          rowId={({ id }) => id}
          foot={found.truncated ? 'There are more kinds than these: compare a shorter range.' : undefined}
        />
      )}
      <details>
        <summary>Rules: what may differ</summary>
        <Checks
          isColumn
          names={found.rules.map((rule) => rule.name)}
          chosen={found.rules.map((rule) => rule.name).filter((rule) => !without.includes(rule))}
          labelOf={(rule) => `${rule}: ${found.rules.find((one) => one.name === rule)?.about ?? ''}`}
          onChange={(on) =>
            onWithout(found.rules.map((rule) => rule.name).filter((rule) => !on.includes(rule)))
          }
        />
        <p className="hint">Switched off, they count in the next comparison.</p>
      </details>
    </>
  );
}

function countsOf({ there, here, ...found }: ComparedSources): (readonly [string, number])[] {
  const { equal, different, missing, waiting, apart, unreadable } = found;
  const rare: (readonly [string, number])[] = [
    ['May still come', waiting],
    ['Of audiences and traits', apart.computed],
    ['Of suppressed users', apart.suppressed],
    ['With additions of a tracking plan', apart.protocols],
    ['Damaged or erased', unreadable],
  ];
  return [
    ['Equal', equal],
    ['Different', different],
    [`Missing in ${visibleLine(there)}`, missing.there],
    [`Missing in ${visibleLine(here)}`, missing.here],
    ...rare.filter(([, n]) => n > 0),
  ];
}

interface DifferenceRow {
  readonly id: string;
  readonly event: string;
  readonly field: string;
  readonly count: number;
  readonly there: string;
  readonly here: string;
  readonly example: string;
}

function rowsOf({ there, here, differences, absences }: ComparedSources): DifferenceRow[] {
  const text = (value: unknown) =>
    value === null || value === undefined ? '' : visibleLine(JSON.stringify(value), 200);
  return [
    ...differences.map(({ event, field, count, examples: [example] }) => ({
      ...{ id: `${event} ${field}`, event, field, count, example: example?.messageId ?? '' },
      ...{ there: text(example?.there), here: text(example?.here) },
    })),
    ...absences.map(({ event, missing, count, messageIds: [example = ''] }) => ({
      ...{ id: `${missing} ${event}`, event, count, example, there: '', here: '' },
      field: `missing in ${missing === 'there' ? there : here}`,
    })),
  ];
}

const COLUMNS: readonly Column<DifferenceRow>[] = [
  {
    id: 'count',
    header: 'Calls',
    className: 'r',
    cell: ({ count }) => exactNumber(count),
    sort: ({ count }) => -count,
  },
  {
    id: 'event',
    header: 'Event',
    className: 'w',
    cell: ({ event }) => visibleLine(event, 200),
    sort: ({ event }) => event,
  },
  {
    id: 'field',
    header: 'Differs in',
    className: 'cut',
    cell: ({ field }) => <span className="mono">{visibleLine(field, 200)}</span>,
    sort: ({ field }) => field,
  },
  { id: 'there', header: 'There', className: 'cut c-md', cell: ({ there }) => there },
  { id: 'here', header: 'Here', className: 'cut c-md', cell: ({ here }) => here },
  {
    id: 'example',
    header: 'Such as',
    className: 'cut c-lo',
    cell: ({ example }) => <span className="mono">{visibleLine(example)}</span>,
  },
];
