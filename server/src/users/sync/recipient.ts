import type { Computation } from '../../model/definition.ts';
import { ANONYMOUS, firstAnonymousId, type ProfileState, USER } from '../identity/profile-state.ts';

/**
 * The id under which destinations know a profile: a userId, or an anonymousId where anonymous profiles are
 * members.
 */
export type Recipient = { readonly userId: string } | { readonly anonymousId: string };

type Identified = Pick<ProfileState, 'userId' | 'identities'>;

/**
 * The id that stands for a profile: its userId, or the anonymous id that it had first; undefined when it has
 * external ids alone.
 */
export function idOf(profile: Identified): Recipient | undefined {
  if (profile.userId !== undefined) return { userId: profile.userId };
  const first = firstAnonymousId(profile);
  return first === undefined ? undefined : { anonymousId: first.value };
}

/** Recipient of a profile: its userId, or its anonymous id where anonymous profiles are members. */
export function recipientOf(profile: Identified, computation: Computation): Recipient | undefined {
  const takesAnonymous = computation.kind === 'audience' && computation.includeAnonymous;
  return profile.userId !== undefined || takesAnonymous ? idOf(profile) : undefined;
}

/**
 * Recipient of a profile that destinations may have heard of: also an anonymous member of an audience that
 * has no anonymous ones any more.
 */
export function everyRecipientOf(profile: Identified, computation: Computation): Recipient | undefined {
  return computation.kind === 'audience' ? idOf(profile) : recipientOf(profile, computation);
}

/** A recipient as a text: its kind, a blank, and the id. */
export function keyOf(recipient: Recipient): string {
  return identityIn(recipient).join(' ');
}

export function recipientIn(key: string): Recipient {
  const value = key.slice(key.indexOf(' ') + 1);
  return key.startsWith(`${USER} `) ? { userId: value } : { anonymousId: value };
}

export function identityIn(recipient: Recipient): readonly [kind: string, value: string] {
  return 'userId' in recipient ? [USER, recipient.userId] : [ANONYMOUS, recipient.anonymousId];
}
