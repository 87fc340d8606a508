import { Fragment } from 'react';
import type { Status } from '../../api/queries.ts';
import { exactNumber } from '../../ui/format.ts';
import { StateMark } from '../../ui/state-mark.tsx';
import { ledgerTerms, type RangeTotals, rangeTerms, type Terms } from './ledger-terms.ts';
import './race.css';

interface LedgerSumsProps {
  readonly status: Status;
  /** Sums of the time that the page shows. */
  readonly totals: RangeTotals;
  /** True for a past range. */
  readonly isPast?: boolean;
}

/** Both sums of the ledger, in total and for the range. A sum that does not balance says where. */
export function LedgerSums({ status, totals, isPast = false }: LedgerSumsProps) {
  const mark = status.balanced ? (
    <StateMark state="delivered" label={isPast ? 'Both sums come out now' : 'Both sums come out'} />
  ) : (
    <StateMark state="dead" label="A sum does not come out" />
  );
  return (
    <div className="race-sum" id="ledger">
      <SumRow label={mark} terms={ledgerTerms(status)} />
      <SumRow label="in this range" terms={rangeTerms(totals)} />
      {status.differences.map((difference) => (
        <span key={JSON.stringify(difference)} className="bad">
          {String(difference['source'] ?? difference['destination'])}: {exactNumber(difference.difference)}{' '}
          missing
        </span>
      ))}
    </div>
  );
}

function SumRow({ label, terms }: { readonly label: React.ReactNode; readonly terms: Terms }) {
  const { calls, deliveries } = terms;
  return (
    <>
      <span>{label}</span>
      <Sum label="received" total={calls.received} terms={calls.terms} />
      <Sum label="owed" total={deliveries.owed} terms={deliveries.terms} />
    </>
  );
}

interface SumProps {
  readonly label: string;
  readonly total: number;
  readonly terms: Readonly<Record<string, number>>;
}

function Sum({ label, total, terms }: SumProps) {
  return (
    <span>
      {label} <b>{exactNumber(total)}</b> ={' '}
      {Object.entries(terms).map(([name, value], index) => (
        <Fragment key={name}>
          {index > 0 && (value < 0 ? ' − ' : ' + ')}
          {name} <b>{exactNumber(index > 0 ? Math.abs(value) : value)}</b>
        </Fragment>
      ))}
    </span>
  );
}
