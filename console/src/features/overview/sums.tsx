import { Fragment } from 'react';
import type { Status } from '../../api/queries.ts';
import { exactNumber } from '../../ui/format.ts';
import { StateMark } from '../../ui/state-mark.tsx';
import { ledgerTerms } from './ledger-terms.ts';

/** Both sums of the ledger since the beginning, written as sums. One that does not come out says where. */
export function LedgerSums({ status }: { readonly status: Status }) {
  const { calls, deliveries } = ledgerTerms(status);
  return (
    <div className="race-sum" id="ledger">
      {status.balanced ? (
        <StateMark state="delivered" label="Both sums come out" />
      ) : (
        <StateMark state="dead" label="A sum does not come out" />
      )}
      <Sum label="received" total={calls.received} terms={calls.terms} />
      <Sum label="owed" total={deliveries.owed} terms={deliveries.terms} />
      <span>since the beginning</span>
      {status.differences.map((difference) => (
        <span key={JSON.stringify(difference)} className="bad">
          {String(difference['source'] ?? difference['destination'])}: {exactNumber(difference.difference)}{' '}
          missing
        </span>
      ))}
    </div>
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
          {index > 0 && ' + '}
          {name} <b>{exactNumber(value)}</b>
        </Fragment>
      ))}
    </span>
  );
}
