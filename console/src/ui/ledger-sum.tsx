import { exactNumber } from './format.ts';
import { type State, StateMark, toneOf } from './state-mark.tsx';
import './ledger-sum.css';

interface Term {
  readonly label: string;
  /** State that the term counts, for its colour. */
  readonly state?: State;
  readonly value: number;
}

interface LedgerSumProps {
  /** The source or destination of the sum. */
  readonly name: string;
  readonly total: { readonly label: string; readonly value: number };
  readonly terms: readonly Term[];
  /** The difference between the sum and its terms; 0 when they agree. */
  readonly balance: number;
}

/** One sum of the ledger, written as a sum: `owed = delivered + pending + dead + dropped + erased`. */
export function LedgerSum({ name, total, terms, balance }: LedgerSumProps) {
  return (
    <section className="box bleed sum" aria-label={`Ledger of ${name}`}>
      <div>
        <span>{total.label}</span>
        <b>{exactNumber(total.value)}</b>
      </div>
      {terms.map(({ label, state, value }, nth) => (
        <div key={label} className="rowx">
          <span className="op" aria-hidden="true">
            {nth === 0 ? '=' : '+'}
          </span>
          <div>
            <span className={state === undefined ? undefined : toneOf(state, value) || undefined}>
              {label}
            </span>
            <b>{exactNumber(value)}</b>
          </div>
        </div>
      ))}
      <div className="sum-end">
        <StateMark state={balance === 0 ? 'healthy' : 'failed'} label={`balance ${exactNumber(balance)}`} />
      </div>
    </section>
  );
}
