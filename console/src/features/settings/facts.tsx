import { Fragment, type ReactNode } from 'react';

export type Fact = readonly [name: string, value: ReactNode];

/** Names and values of a part of the system. */
export function Facts({ facts }: { readonly facts: readonly Fact[] }) {
  return (
    <dl className="kv">
      {facts.map(([name, value]) => (
        <Fragment key={name}>
          <dt>{name}</dt>
          <dd className="num">{value}</dd>
        </Fragment>
      ))}
    </dl>
  );
}
