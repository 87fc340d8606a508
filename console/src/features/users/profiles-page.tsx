import { useQuery } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { Search } from 'lucide-react';
import { type FormEvent, useEffect, useState } from 'react';
import { ApiError } from '../../api/client.ts';
import { type IdParameters, parametersOfTyped, type TypedId, typedOf } from '../../api/ids.ts';
import { Button, Segmented, TextInput } from '../../ui/controls.tsx';
import { EmptyState, Failure, SkeletonRows } from '../../ui/empty-state.tsx';
import { JsonSwitch } from '../../ui/json-switch.tsx';
import { Page } from '../../ui/page.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { OtherMeanings } from '../events/other-meanings.tsx';
import { ProfileView } from './profile-view.tsx';
import { profileQuery } from './queries.ts';
import { UserSections } from './section-tabs.tsx';

const route = getRouteApi('/shell/users');

/** Finds a user by one of its ids and shows everything that is known. */
export function ProfilesPage() {
  const id = route.useSearch();
  const { kind, text: wanted, isJson } = typedOf(id);
  const profile = useQuery(profileQuery(id));
  const isUnknown = profile.error instanceof ApiError && profile.error.status === 404;
  return (
    <Page title="Users">
      <UserSections />
      <ProfileSearch id={id} />
      {wanted === '' ? (
        <div className="box">
          <EmptyState title="Find a user">
            By its userId, also a former one, or by an anonymous id: who it is, how its ids were joined, its
            traits, audiences and events.
          </EmptyState>
        </div>
      ) : isUnknown ? (
        <div className="box">
          <EmptyState
            title={`Nothing is known of ${visibleLine(wanted)}`}
            action={isJson ? undefined : <OtherMeanings text={wanted} not={kind} />}
          >
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

function ProfileSearch({ id }: { readonly id: IdParameters }) {
  const navigate = useNavigate();
  const given = typedOf(id);
  const [typed, setTyped] = useState(given);
  // The id in the URL may come from a link elsewhere.
  const key = JSON.stringify(given);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the key has all of it.
  useEffect(() => setTyped(given), [key]);
  const find = (event: FormEvent) => {
    event.preventDefault();
    void navigate({ to: '/users', search: parametersOfTyped(typed) });
  };
  return (
    <form className="rowx" onSubmit={find}>
      <Segmented
        label="Kind of id"
        value={typed.kind}
        options={[
          { value: 'userId', label: 'userId' },
          { value: 'anonymousId', label: 'anonymousId' },
        ]}
        onChange={(kind) => setTyped({ ...typed, kind })}
      />
      <TextInput
        isSmall
        className="search mono"
        type="search"
        aria-label={typed.kind}
        placeholder={placeholderOf(typed)}
        before={<Search className="i i-s" aria-hidden />}
        value={typed.text}
        onChange={({ target }) => setTyped({ ...typed, text: target.value })}
      />
      <JsonSwitch isJson={typed.isJson} onChange={(isJson) => setTyped({ ...typed, isJson })} />
      <Button type="submit">Find</Button>
    </form>
  );
}

function placeholderOf({ kind, isJson }: TypedId): string {
  if (isJson) return '"mia-\\ud83d"';
  return kind === 'userId' ? 'cus_20418' : '0198f7a2-7c3e-…';
}
