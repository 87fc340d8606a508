import { Fragment, type ReactNode } from 'react';

export type Fact = readonly [name: string, value: ReactNode];

export interface FactsProps {
  readonly facts: readonly Fact[];
  /** True for numbers, which are aligned in a column. */
  readonly areFigures?: boolean;
}

/** Names and values of a part of the system. */
export function Facts({ facts, areFigures = false }: FactsProps) {
  return (
    <dl className={areFigures ? 'kv figures' : 'kv'}>
      {facts.map(([name, value]) => (
        <Fragment key={name}>
          <dt>{name}</dt>
          <dd className="num">{value}</dd>
        </Fragment>
      ))}
    </dl>
  );
}
