import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Fragment, type ReactNode, useState } from 'react';
import { useMay } from '../../api/roles.ts';
import { Button } from '../../ui/controls.tsx';
import { Failure } from '../../ui/empty-state.tsx';
import { JsonView } from '../../ui/json-view.tsx';
import { Section } from '../../ui/page.tsx';
import { StateMark } from '../../ui/state-mark.tsx';
import { Clock, RelativeTime } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { nameable } from '../events/event-inspector.tsx';
import { eventTitle } from '../events/naming.ts';
import {
  computationsQuery,
  type Profile,
  type ProfileId,
  type StoredEvent,
  userEventsQuery,
} from './queries.ts';
import { RegulationDialog } from './regulation-dialog.tsx';

interface ProfileViewProps {
  readonly profile: Profile;
  readonly id: ProfileId;
}

/** Everything that is known of a user. */
export function ProfileView({ profile, id }: ProfileViewProps) {
  const { userId, traits, firstSeenAt, lastSeenAt } = profile;
  const [isDeleting, setIsDeleting] = useState(false);
  const mayDelete = useMay('admin') && userId !== undefined;
  return (
    <>
      <div className="head">
        <h2 className="mono big clip">{visibleLine(userId ?? 'a user without a userId')}</h2>
        <span className="soft">
          first seen <RelativeTime at={firstSeenAt} />, last seen <RelativeTime at={lastSeenAt} />
        </span>
        {mayDelete && (
          <div className="acts">
            <Button kind="danger" onClick={() => setIsDeleting(true)}>
              Delete user…
            </Button>
          </div>
        )}
      </div>
      <div className="side">
        <div className="stack">
          <Section title="Traits">
            <JsonView value={traits} label="Traits" />
          </Section>
          <UserEvents id={id} />
        </div>
        <aside className="stack">
          <Identities profile={profile} />
          <Memberships profile={profile} />
          <Merges profile={profile} />
        </aside>
      </div>
      {isDeleting && userId !== undefined && (
        <RegulationDialog initialIds={[userId]} onClose={() => setIsDeleting(false)} />
      )}
    </>
  );
}

function Identities({ profile }: { readonly profile: Profile }) {
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

/** A profile may have a thousand ids. */
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

/** Audiences and computed traits, linked to their definitions. */
function Memberships({ profile: { audiences, computedTraits } }: { readonly profile: Profile }) {
  const { data: knownAudiences = [] } = useQuery(computationsQuery('audiences'));
  const { data: knownTraits = [] } = useQuery(computationsQuery('traits'));
  const traits = Object.entries(computedTraits);
  return (
    <Section title="Audiences and computed traits">
      {audiences.length + traits.length === 0 ? (
        <p className="dim">A member of none.</p>
      ) : (
        <dl className="kv box pad">
          {audiences.map((audience) => (
            <Fragment key={audience}>
              <dt>member of</dt>
              <dd>
                <Named
                  kind="audiences"
                  name={knownAudiences.find(({ name, key }) => name === audience || key === audience)?.name}
                >
                  {visibleLine(audience)}
                </Named>
              </dd>
            </Fragment>
          ))}
          {traits.map(([key, value]) => (
            <Fragment key={key}>
              <dt>
                <Named kind="traits" name={knownTraits.find((one) => one.key === key)?.name}>
                  {visibleLine(key)}
                </Named>
              </dt>
              <dd className="mono">{visibleLine(JSON.stringify(value))}</dd>
            </Fragment>
          ))}
        </dl>
      )}
    </Section>
  );
}

interface NamedProps {
  readonly kind: 'audiences' | 'traits';
  readonly name: string | undefined;
  readonly children: ReactNode;
}

function Named({ kind, name, children }: NamedProps) {
  if (name === undefined) return <>{children}</>;
  return (
    <Link
      to={kind === 'audiences' ? '/users/audiences/$name' : '/users/traits/$name'}
      params={{ name }}
      className="link"
    >
      {children}
    </Link>
  );
}

const RULES = {
  identify: 'a call named the user and this id',
  alias: 'an alias named it as the former id',
  external: 'both had this value',
} as const;

/** How the profile came to its ids, the newest merge first. */
function Merges({ profile: { merges } }: { readonly profile: Profile }) {
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

/** The newest events of all ids of the user. */
function UserEvents({ id }: { readonly id: ProfileId }) {
  const events = useInfiniteQuery(userEventsQuery(id));
  // A damaged event belongs to nobody any more.
  const rows = (events.data?.pages ?? []).flatMap(({ data }) =>
    data.filter((row) => row.verdict === 'accepted'),
  );
  return (
    <Section title="Events">
      {events.error !== null && <Failure error={events.error} />}
      <div className="box bleed">
        <table className="tbl">
          <tbody>
            {rows.map((row) => (
              <EventRow key={`${row.source} ${row.event.messageId}`} row={row} />
            ))}
          </tbody>
        </table>
        <div className="tfoot">
          <span>{rows.length === 0 && !events.isPending ? 'No stored event' : `${rows.length} shown`}</span>
          {events.hasNextPage && (
            <Button kind="quiet" isSmall onClick={() => void events.fetchNextPage()}>
              More
            </Button>
          )}
        </div>
      </div>
    </Section>
  );
}

function EventRow({ row: { source, receivedAt, event, deliveries } }: { readonly row: StoredEvent }) {
  const named = nameable({ event });
  const worst = ['dead', 'retrying', 'pending'] as const;
  const state = worst.find((one) => deliveries.some((delivery) => delivery.state === one));
  return (
    <tr>
      <td className="type c-lo">{named.type}</td>
      <td className="w">
        <Link to="/events/$messageId" params={{ messageId: event.messageId }} className="med">
          {visibleLine(eventTitle(named), 80)}
        </Link>
      </td>
      <td className="soft c-md">{visibleLine(source)}</td>
      <td className="c-lo">{deliveries.length > 0 && <StateMark state={state ?? 'delivered'} />}</td>
      <td className="r dim">
        <Clock at={receivedAt} />
      </td>
    </tr>
  );
}
