import { Link } from '@tanstack/react-router';
import { Fragment, useState } from 'react';
import { Button } from '../../ui/controls.tsx';
import { exactNumber } from '../../ui/format.ts';
import { Section } from '../../ui/page.tsx';
import { StateMark } from '../../ui/state-mark.tsx';
import { RelativeTime } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import type { Profile } from './queries.ts';
import '../../ui/need.css';

export function Identities({ profile }: { readonly profile: Profile }) {
  const { userId, formerUserIds, anonymousIds, externalIds, groups, sources } = profile;
  const rows: readonly (readonly [string, readonly string[]])[] = [
    ['userId', userId === undefined ? [] : [userId]],
    ['Former userIds', formerUserIds],
    ['Anonymous ids', anonymousIds],
    ...Object.entries(externalIds),
    ['Groups', groups],
    ['Seen by', sources],
  ];
  return (
    <Section title="Identities">
      <dl className="kv box pad">
        {rows
          .filter(([, values]) => values.length > 0)
          .map(([name, values]) => (
            <Fragment key={name}>
              <dt>{visibleLine(name)}</dt>
              <dd className="mono">
                <Values values={values} />
              </dd>
            </Fragment>
          ))}
      </dl>
    </Section>
  );
}

const FEW = 8;

/** A list of ids, cut at first: a profile may have a thousand. */
function Values({ values }: { readonly values: readonly string[] }) {
  const [isWhole, setIsWhole] = useState(false);
  const shown = isWhole ? values : values.slice(0, FEW);
  return (
    <>
      {shown.map((value) => (
        <div key={value}>{visibleLine(value)}</div>
      ))}
      {values.length > shown.length && (
        <Button kind="quiet" isSmall onClick={() => setIsWhole(true)}>
          {values.length - shown.length} more
        </Button>
      )}
    </>
  );
}

const RULES = {
  identify: 'a call named the user and this id',
  alias: 'an alias named it as the former id',
  external: 'both had this value',
} as const;

const REASONS = {
  belongs_to_another_user: 'it belongs to another user',
  alias_off: 'identities.alias is refuse',
  too_many_ids: 'the profile would have too many ids',
  unproven: 'only a client source says so',
  split: 'the two are kept apart by a split',
} as const;

/** Merges that were refused, the newest first. */
export function RefusedMerges({ profile: { refusedMerges } }: { readonly profile: Profile }) {
  const { count, samples } = refusedMerges;
  if (count === 0) return null;
  const about = count > samples.length ? `${samples.length} of ${exactNumber(count)}` : undefined;
  return (
    <Section title="Refused merges" about={about}>
      <ul className="box bleed">
        {samples.map(({ rule, reason, source, identity, at, messageId }) => (
          <li key={`${at} ${reason} ${messageId} ${identity?.value}`} className="need">
            <StateMark state="skipped" label={null} />
            <h3>
              <span className="mono">{identity === undefined ? '—' : visibleLine(identity.value, 60)}</span>
              <span className="dim">{identity === undefined ? rule : visibleLine(identity.kind)}</span>
            </h3>
            <p>
              Not joined: {REASONS[reason]}, by {visibleLine(source)}, <RelativeTime at={at} />
              {messageId !== undefined && (
                <>
                  ,{' '}
                  <Link className="link" to="/events/$messageId" params={{ messageId }}>
                    the call
                  </Link>
                </>
              )}
            </p>
          </li>
        ))}
      </ul>
    </Section>
  );
}

/** The merges that gave the profile its ids, the newest first. */
export function Merges({ profile: { merges } }: { readonly profile: Profile }) {
  if (merges.length === 0) return null;
  return (
    <Section title="Merges">
      <ul className="box bleed">
        {merges.map(({ rule, identity, at, messageId }) => (
          <li key={`${at} ${identity.value}`} className="need">
            <StateMark state="healthy" label={null} />
            <h3>
              <span className="mono">{visibleLine(identity.value, 60)}</span>
              <span className="dim">{visibleLine(identity.kind)}</span>
            </h3>
            <p>
              {RULES[rule]}, <RelativeTime at={at} />,{' '}
              <Link className="link" to="/events/$messageId" params={{ messageId }}>
                the call
              </Link>
            </p>
          </li>
        ))}
      </ul>
    </Section>
  );
}
