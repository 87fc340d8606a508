import { useQuery } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { Search } from 'lucide-react';
import { type FormEvent, useEffect, useState } from 'react';
import { ApiError } from '../../api/client.ts';
import { Button, Segmented, TextInput } from '../../ui/controls.tsx';
import { EmptyState, Failure, SkeletonRows } from '../../ui/empty-state.tsx';
import { Page } from '../../ui/page.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { ProfileView } from './profile-view.tsx';
import { type ProfileId, profileQuery } from './queries.ts';
import { UserSections } from './section-tabs.tsx';

const route = getRouteApi('/shell/users');

/** Finds a user by one of its ids and shows everything that is known. */
export function ProfilesPage() {
  const id = route.useSearch();
  const wanted = id.userId ?? id.anonymousId;
  const profile = useQuery(profileQuery(id));
  const isUnknown = profile.error instanceof ApiError && profile.error.status === 404;
  return (
    <Page title="Users">
      <UserSections />
      <ProfileSearch id={id} />
      {wanted === undefined ? (
        <div className="box">
          <EmptyState title="Find a user">
            By its userId, also a former one, or by an anonymous id: who it is, how its ids were joined, its
            traits, audiences and events.
          </EmptyState>
        </div>
      ) : isUnknown ? (
        <div className="box">
          <EmptyState title={`Nothing is known of ${visibleLine(wanted)}`}>
            No event named this id, or the user was deleted, or profiles are off: they begin with the first
            audience or computed trait.
          </EmptyState>
        </div>
      ) : profile.error !== null ? (
        <Failure error={profile.error} onRetry={() => void profile.refetch()} />
      ) : profile.data === undefined ? (
        <SkeletonRows />
      ) : (
        <ProfileView profile={profile.data} id={id} />
      )}
    </Page>
  );
}

function ProfileSearch({ id }: { readonly id: ProfileId }) {
  const navigate = useNavigate();
  const [kind, setKind] = useState<keyof ProfileId>(id.anonymousId === undefined ? 'userId' : 'anonymousId');
  const [text, setText] = useState(id.userId ?? id.anonymousId ?? '');
  // The id in the URL may come from a link elsewhere.
  useEffect(() => setText(id.userId ?? id.anonymousId ?? ''), [id.userId, id.anonymousId]);
  const find = (event: FormEvent) => {
    event.preventDefault();
    void navigate({ to: '/users', search: text === '' ? {} : { [kind]: text } });
  };
  return (
    <form className="rowx" onSubmit={find}>
      <Segmented
        label="Kind of id"
        value={kind}
        options={[
          { value: 'userId', label: 'userId' },
          { value: 'anonymousId', label: 'anonymousId' },
        ]}
        onChange={setKind}
      />
      <TextInput
        isSmall
        className="search mono"
        type="search"
        aria-label={kind}
        placeholder={kind === 'userId' ? 'cus_20418' : '0198f7a2-7c3e-…'}
        before={<Search className="i i-s" aria-hidden />}
        value={text}
        onChange={({ target }) => setText(target.value)}
      />
      <Button type="submit">Find</Button>
    </form>
  );
}
