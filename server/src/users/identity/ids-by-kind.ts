import { defined } from '../../model/json.ts';
import type { Profile } from '../../ports/users.ts';
import { ANONYMOUS, type ProfileState, USER } from './profile-state.ts';

/** Ids of one kind, the earliest first. */
export function valuesOf({ identities }: Pick<ProfileState, 'identities'>, kind: string): string[] {
  return identities
    .filter((identity) => identity.kind === kind)
    .sort((a, b) => a.at - b.at || (a.value < b.value ? -1 : 1))
    .map(({ value }) => value);
}

/** The ids of a profile for people. */
export function idsByKind(
  state: Pick<ProfileState, 'userId' | 'formerUserIds' | 'identities'>,
): Pick<Profile, 'userId' | 'formerUserIds' | 'anonymousIds' | 'externalIds'> {
  const externalIds: Record<string, string[]> = {};
  for (const { kind } of state.identities) {
    if (kind !== USER && kind !== ANONYMOUS) externalIds[kind] ??= valuesOf(state, kind);
  }
  return {
    ...defined({ userId: state.userId }),
    formerUserIds: state.formerUserIds,
    anonymousIds: valuesOf(state, ANONYMOUS),
    externalIds,
  };
}
