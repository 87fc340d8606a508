import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Fragment, type ReactNode, useState } from 'react';
import type { IdParameters } from '../../api/ids.ts';
import { useMay } from '../../api/roles.ts';
import { Button } from '../../ui/controls.tsx';
import { JsonView } from '../../ui/json-view.tsx';
import { Section } from '../../ui/page.tsx';
import { RelativeTime } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { Identities, Merges, RefusedMerges } from './profile-ids.tsx';
import { computationsQuery, type Profile } from './queries.ts';
import { RegulationDialog } from './regulation-dialog.tsx';
import { UserEvents } from './user-events.tsx';

interface ProfileViewProps {
  readonly profile: Profile;
  readonly id: IdParameters;
}

/** Everything that is known of a user. */
export function ProfileView({ profile, id }: ProfileViewProps) {
  const { userId, anonymousIds, traits, leftOut, firstSeenAt, lastSeenAt } = profile;
  const [isDeleting, setIsDeleting] = useState(false);
  const ids = userId === undefined ? anonymousIds : [userId];
  const mayDelete = useMay('admin') && ids.length > 0;
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
              {userId === undefined ? 'Delete visitor…' : 'Delete user…'}
            </Button>
          </div>
        )}
      </div>
      <div className="side">
        <div className="stack">
          <Section title="Traits">
            <JsonView value={traits} label="Traits" />
            {leftOut > 0 && (
              <p className="soft">
                {leftOut.toLocaleString('en-US')} of the traits and groups that calls have named are not kept:
                they are too long, or went to make room for others.
              </p>
            )}
          </Section>
          <UserEvents id={id} />
        </div>
        <aside className="stack">
          <Identities profile={profile} />
          <Memberships profile={profile} />
          <Merges profile={profile} />
          <RefusedMerges profile={profile} />
        </aside>
      </div>
      {isDeleting && (
        <RegulationDialog
          initialIds={ids}
          isAnonymous={userId === undefined}
          onClose={() => setIsDeleting(false)}
        />
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
